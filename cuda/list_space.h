// Scratch of the kernels that read several lists at once.
//
// The range of indices is cut into ranges that a block can sum in shared memory, and as many neighbouring ranges as it
// takes to keep the tables small form a stretch. Where each list enters each stretch is looked up once; from then on
// blocks work on stretches without knowing of each other.
#pragma once

#include <algorithm>

#include "cuda/selection_space.h"

namespace sparsecoll::cuda {

inline constexpr uint64_t kLeastStretches = 64;
inline constexpr uint64_t kMostStretches = 65536;
inline constexpr uint64_t kMostOffsets = uint64_t{1} << 24;  // of all lists together
inline constexpr uint64_t kCutTile = 2048;                   // a sum is cut in tiles of at least this many entries

// The same tiles as those of the host, whose rule for touched lines looks at tiles.
template <class A>
inline constexpr uint32_t kRangeShift = sizeof(A) == 8 ? 12 : 13;
template <class A>
inline constexpr uint32_t kRange = 1u << kRangeShift<A>;

// A list once its header has been read.
struct LocatedList {
  const void* indices;  // nullptr: a run
  const void* values;
  uint64_t first;  // of a run: its first index, counted from the first stretch on
  uint32_t count;
};

// Those entries of a list that one of several lists being joined is made of.
struct LocatedPart {
  const uint32_t* indices;
  const void* values;
  uint64_t outAt;  // where the first one goes
};

// What the kernels of one call tell each other.
struct ListTurn {
  uint32_t done;     // blocks that have finished; zero between calls
  uint32_t unsound;  // 1: a list of this call is not sound; zero between calls
  uint32_t sound;  // 1: the lists may be read. Later kernels of the call ask this and not the finding, which may change
  uint32_t dense;  // the sum becomes a run
  uint64_t total;  // entries of the sum
  // How a sum is cut.
  uint64_t passing;  // keys not below the least one; zero between calls
  uint64_t kept;
  uint64_t need;      // entries still to be found among those with the prefix
  uint64_t prefix;    // digits of the boundary found so far
  uint64_t boundary;  // keys above it are kept,
  uint64_t equals;    // and the first so many equal to it
  uint64_t lowest;    // key kept
  uint32_t open;      // 1: the boundary has to be found
};

struct ListSpace {
  uint64_t lists = 0;
  uint64_t entries = 0;
  uint64_t stretches = 0;
  uint64_t tiles = 0;
  uint64_t parts = 0;
  ListTurn* turn = nullptr;
  LocatedList* located = nullptr;
  uint32_t* offsets = nullptr;      // a list: where it enters each stretch, and its end
  uint64_t* positions = nullptr;    // a stretch: the entries of the sum before it
  uint64_t* tilesBefore = nullptr;  // a tile of a sum: entries above the boundary before it << 32 | equal to it
  uint32_t* digits = nullptr;       // zero between calls
  LocatedPart* part = nullptr;

  static ListSpace place(const WorkspaceNeed& need, Placement& at) {
    ListSpace space;
    space.lists = need.lists;
    space.entries = need.entries;
    const uint64_t most = std::min(kMostStretches, kMostOffsets / std::max<uint64_t>(1, need.lists));
    space.stretches = std::max(kLeastStretches, std::min(need.n / kRange<double> + 1, most));
    space.tiles = std::min<uint64_t>(need.entries / kCutTile + 1, kMostStretches);
    space.parts = 6 * need.lists + 16;  // a source of a ring may be a list or two runs, and is taken from twice
    at.take(space.turn, 1);
    at.take(space.located, need.lists);
    at.take(space.offsets, (space.stretches + 1) * need.lists);
    at.take(space.positions, space.stretches);
    at.take(space.tilesBefore, space.tiles);
    at.take(space.digits, kDigits);
    at.take(space.part, space.parts + 1);
    return space;
  }
};

}  // namespace sparsecoll::cuda
