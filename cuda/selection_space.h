// Scratch of the kernels that select.
//
// A piece is what a window and a tile of the vector have in common. Numbered tile + window, pieces stand in index order
// and no two have the same number, since going on to the next one adds to the tile, to the window or to both.
#pragma once

#include "cuda/workspace.h"

namespace sparsecoll::cuda {

inline constexpr uint32_t kDigits = 2048;         // bins of one step of a radix descent
inline constexpr uint64_t kOneBlockMost = 65536;  // windows of up to this many elements are cut by one block each

// Where the candidates of a piece lie in their window's part of the list.
struct Piece {
  uint32_t first;
  uint32_t count;
};

// How a window is being cut.
struct WindowCut {
  uint64_t outAt;    // its first slot in the target
  uint64_t prefix;   // digits of the boundary found so far
  uint64_t need;     // entries still to be found among those with the prefix
  uint32_t dense;    // 1: acc itself is read, not candidates
  uint32_t big;      // number among the windows that many blocks cut; kNotBig: one block does
  uint32_t decided;  // 1: no boundary has to be found
};
inline constexpr uint32_t kNotBig = ~0u;

struct SelectionSpace {
  uint64_t tiles = 0;
  uint64_t windows = 0;
  uint64_t most = 0;  // big windows
  Piece* pieces = nullptr;
  uint64_t* pieceOut = nullptr;  // a piece: entries above the boundary, and equal to it, in the pieces before it
  WindowCut* cuts = nullptr;
  uint32_t* digits = nullptr;    // kDigits a big window; zero between calls
  uint32_t* counters = nullptr;  // zero between calls
  uint32_t* chosen = nullptr;    // windows that the call is about

  static SelectionSpace place(const WorkspaceNeed& need, Placement& at) {
    SelectionSpace space;
    space.tiles = (need.n + kTile - 1) / kTile;
    space.windows = need.windows;
    space.most = std::min(need.windows, need.n / kOneBlockMost);
    at.take(space.pieces, space.tiles + space.windows + 1);
    at.take(space.pieceOut, 2 * (space.tiles + space.windows + 1));
    at.take(space.cuts, space.windows);
    at.take(space.digits, space.most * kDigits);
    at.take(space.counters, 16);
    at.take(space.chosen, space.windows);
    return space;
  }
};

}  // namespace sparsecoll::cuda
