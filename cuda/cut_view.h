// A cut as its kernels see it.
#pragma once

#include "core/list_span.h"
#include "cuda/device_context.h"
#include "cuda/device_workspace.h"

namespace sparsecoll::cuda {

template <class A>
struct CutView {
  A* acc;
  Control* control;
  uint32_t* candidateIndices;
  A* candidateValues;
  List target;
  uint64_t n;
  SelectionSpace space;
  uint32_t all;  // 1: every window is cut, in order; 0: those in space.chosen
  WindowFacts facts;

  // The i-th window that is cut.
  __device__ uint32_t chosen(uint32_t i) const { return all != 0 ? i : space.chosen[i]; }

  SC_HD bool mayHaveLarge() const { return space.mostBig != 0 && facts.longest > kOneBlockMost; }
  SC_HD bool mayHaveSmall() const { return facts.shortest <= kOneBlockMost; }
};

// Where a window's entries are read from: its candidates, in any order, or acc itself.
template <class A>
struct WindowEntries {
  const uint32_t* indices;  // nullptr: entry i has index first + i
  const A* values;
  uint64_t first;
  uint64_t count;

  __device__ uint32_t index(uint64_t i) const {
    return indices != nullptr ? indices[i] : static_cast<uint32_t>(first + i);
  }
};

template <class A>
__device__ inline WindowEntries<A> entriesOf(const CutView<A>& view, uint32_t w) {
  const Window& window = view.control->windows[w];
  if (view.space.cuts[w].dense != 0) return {nullptr, view.acc + window.begin, window.begin, window.end - window.begin};
  const uint64_t listed = window.listed < window.slots ? window.listed : window.slots;
  return {view.candidateIndices + window.firstSlot, view.candidateValues + window.firstSlot, 0, listed};
}

// Those of them that lie in one tile, in index order.
template <class A>
__device__ inline WindowEntries<A> entriesOf(const CutView<A>& view, uint32_t w, uint64_t tile) {
  const Window& window = view.control->windows[w];
  if (view.space.cuts[w].dense != 0) {
    const uint64_t begin = window.begin > tile * kPieceTile ? window.begin : tile * kPieceTile;
    const uint64_t end = window.end < (tile + 1) * kPieceTile ? window.end : (tile + 1) * kPieceTile;
    return {nullptr, view.acc + begin, begin, end - begin};
  }
  const Piece piece = view.space.pieces[tile + w];
  const uint64_t slot = window.firstSlot + piece.first;
  return {view.candidateIndices + slot, view.candidateValues + slot, 0, piece.count};
}

__device__ inline uint64_t firstTile(const Window& window) { return window.begin / kPieceTile; }
__device__ inline uint64_t tilesOf(const Window& window) {
  return window.end > window.begin ? (window.end - 1) / kPieceTile - window.begin / kPieceTile + 1 : 0;
}

// Work on one piece, in units of a piece of few candidates: one that acc is read for costs many rows of loads.
__device__ inline uint32_t pieceUnits(const WindowCut& cut) { return cut.dense != 0 ? 32 : 1; }

// What stays and what goes: everything above the window's key, and the first of those equal to it.
struct Verdict {
  bool above;
  bool equal;
};
template <class A>
__device__ inline Verdict judge(const Window& window, A value) {
  const uint64_t key = keyOf(value);
  return {key > window.keptKey, key == window.keptKey && window.keptEquals != 0};
}

}  // namespace sparsecoll::cuda
