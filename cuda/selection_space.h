// Scratch of the kernels that select.
//
// A piece is what a window and a tile of the vector have in common. Numbered tile + window, pieces stand in index order
// and no two have the same number, since going on to the next one adds to the tile, to the window or to both.
#pragma once

#include <algorithm>

#include "core/control.h"
#include "cuda/workspace.h"

namespace sparsecoll::cuda {

inline constexpr uint64_t kPieceTile = 4096;      // elements that the pass looks at together
inline constexpr uint32_t kDigits = 2048;         // bins of one step of a radix descent
inline constexpr uint64_t kOneBlockMost = 65536;  // windows of up to this many elements are cut by one block each
inline constexpr uint32_t kMostShares = 2048;     // blocks among which the work on windows is shared

// Where the candidates of a piece lie in their window's part of the list.
struct Piece {
  uint32_t first;
  uint32_t count;
};

// How a window is being cut.
struct WindowCut {
  uint64_t outAt;    // its first slot in the target
  uint64_t passing;  // entries that reach its least key, where that is above its key
  uint64_t prefix;   // digits of the boundary found so far
  uint64_t need;     // entries still to be found among those with the prefix
  uint32_t dense;    // 1: acc itself is read, not candidates
  uint32_t open;     // 1: its boundary has to be found
  uint32_t done;     // blocks that have finished with it; zero between calls
  uint32_t many;     // 1: many blocks cut it
  uint32_t arrived;  // entries of arrivals
};

// What one call of cut is about.
struct CutTurn {
  uint32_t windows;    // chosen ones
  uint32_t bigCount;   // of them those that many blocks cut
  uint32_t nonFinite;  // 1: the entries of some window that reached its key are not all finite
  uint64_t stride;     // of the sample: one run out of so many
  uint32_t done;       // blocks that have finished; zero between calls
};

struct SelectionSpace {
  uint64_t tiles = 0;
  uint64_t windows = 0;
  uint64_t mostBig = 0;
  CutTurn* turn = nullptr;
  Piece* pieces = nullptr;
  uint64_t* piecesBefore = nullptr;  // a piece: what stands before it in its share (see cut_emit.cu)
  uint64_t* shareCounts = nullptr;   // kMostShares: what stands in the last window of each share
  // Units of windows (see shares.h): of whichever the next kernel reads, and of the big ones when pieces are written.
  uint32_t* unitsBefore = nullptr;
  uint32_t* pieceUnitsBefore = nullptr;
  WindowCut* cuts = nullptr;
  uint32_t* digits = nullptr;  // kDigits a big window; zero between calls
  uint32_t* big = nullptr;     // the windows that many blocks cut
  uint32_t* chosen = nullptr;  // the windows that the call is about
  uint32_t* trials = nullptr;  // kTrials counts; zero between calls
  double* squares = nullptr;   // of tiles that are counted from the beginning of their window, and sums of those

  static SelectionSpace place(const WorkspaceNeed& need, Placement& at) {
    SelectionSpace space;
    space.tiles = (need.n + kPieceTile - 1) / kPieceTile;
    space.windows = need.windows;
    space.mostBig = std::min(need.windows, need.n / kOneBlockMost);
    at.take(space.turn, 1);
    at.take(space.pieces, space.tiles + space.windows + 1);
    at.take(space.piecesBefore, space.tiles + space.windows + 1);
    at.take(space.shareCounts, kMostShares);
    at.take(space.unitsBefore, space.windows + 1);
    at.take(space.pieceUnitsBefore, space.mostBig + 1);
    at.take(space.cuts, space.windows);
    at.take(space.digits, space.mostBig * kDigits);
    at.take(space.big, space.mostBig);
    at.take(space.chosen, space.windows);
    at.take(space.trials, kTrials);
    at.take(space.squares, space.tiles + 2 * space.windows + 1);
    return space;
  }
};

}  // namespace sparsecoll::cuda
