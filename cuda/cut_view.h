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

  // The i-th window that is cut.
  __device__ uint32_t chosen(uint32_t i) const { return all != 0 ? i : space.chosen[i]; }
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

template <class A>
inline constexpr uint32_t kKeyBits = sizeof(A) == 8 ? 63 : 31;
inline constexpr uint32_t kDigitBits = 11;
static_assert(1u << kDigitBits == kDigits);

// The lowest bit of the digit that step s of a descent looks at.
template <class A>
SC_HD constexpr uint32_t digitShift(uint32_t step) {
  const uint32_t seen = (step + 1) * kDigitBits;
  return seen < kKeyBits<A> ? kKeyBits<A> - seen : 0;
}
template <class A>
inline constexpr uint32_t kDigitSteps = (kKeyBits<A> + kDigitBits - 1) / kDigitBits;

// Whether the key has the digits that the descent has found before this step.
template <class A>
__device__ inline bool hasPrefix(uint64_t key, uint64_t prefix, uint32_t step) {
  return step == 0 || key >> digitShift<A>(step - 1) == prefix >> digitShift<A>(step - 1);
}
// The digit, among as many bins as it has; the last step's may be narrower.
template <class A>
__device__ inline uint32_t digitOf(uint64_t key, uint32_t step) {
  const uint32_t above = step == 0 ? kKeyBits<A> : digitShift<A>(step - 1);
  return static_cast<uint32_t>(key >> digitShift<A>(step)) & ((1u << (above - digitShift<A>(step))) - 1);
}

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
