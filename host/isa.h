// The functions that exist once per instruction set. Every variant gives the bits of the scalar one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/finish.h"
#include "core/numeric.h"

namespace sparsecoll::host {

// acc = in + scale * gradient over [begin, end); entries with |acc| bits >= key go to indices and values in index
// order.
template <class A>
struct PassSpan {
  const void* gradient = nullptr;
  const A* in = nullptr;  // nullptr: zeros
  A* out = nullptr;       // nullptr: acc is not kept
  uint64_t begin = 0;
  uint64_t end = 0;
  A scale = 1;
  typename Magnitude<A>::Key key = 0;
  uint32_t* indices = nullptr;
  A* values = nullptr;
  uint64_t room = 0;                        // entries beyond it are counted, not stored
  const uint64_t* deferredZeros = nullptr;  // not nullptr: bits of in's entries that count as 0
};

// The formulas of core/kernels.h's Momentum for n elements.
template <class A>
struct MomentumSpan {
  const void* gradient = nullptr;
  const A* in = nullptr;
  A* out = nullptr;               // may equal in
  const A* velocityIn = nullptr;  // nullptr: no momentum
  A* velocityOut = nullptr;       // may equal velocityIn
  uint64_t n = 0;
  A scale = 1;
  A factor = 0;
  A decay = 1;
  bool nesterov = false;
};

// out = finished sums of tile, tile = 0. stream: out is 64-byte aligned and is written around the caches.
template <class A>
struct FinishTile {
  A* tile = nullptr;
  A* out = nullptr;
  uint64_t n = 0;
  FinishFactors<A> factors;
  bool stream = false;
};

// The marked elements of a tile. n, tile and marks are rounded up to blocks of 64 elements, offsets and values have
// room for 64 entries more than there are.
template <class A>
struct TouchedTile {
  A* tile = nullptr;         // zeroed
  uint8_t* marks = nullptr;  // one an element, 1 or 0; zeroed
  uint64_t n = 0;
  uint32_t* offsets = nullptr;  // in order
  A* values = nullptr;
};

// Entries of a list that a boundary divides, both parts in the list's order: the first `equals` of those whose |value|
// bits are key, and all above it, are kept. Nothing is written past the ends of the parts.
template <class A>
struct SplitSpan {
  using Key = typename Magnitude<A>::Key;
  const uint32_t* indices = nullptr;  // nullptr: entry i has index first + i
  const A* values = nullptr;
  uint64_t first = 0;
  uint64_t count = 0;
  Key key = 0;
  uint64_t equals = 0;
  uint64_t kept = 0;  // what the boundary keeps
  uint32_t* keptIndices = nullptr;
  A* keptValues = nullptr;
  uint32_t* restIndices = nullptr;  // nullptr: the rest is not wanted
  A* restValues = nullptr;
  A restScale = 1;

  uint32_t indexAt(uint64_t i) const { return indices != nullptr ? indices[i] : static_cast<uint32_t>(first + i); }
};

// Every out[j][i] = finished sum over r, in order, of inputScale * in[r][i]. stream: as above, for every out.
template <class A>
struct DenseSpan {
  const void* const* in = nullptr;
  void* const* out = nullptr;
  uint64_t inCount = 0;
  uint64_t outCount = 0;
  uint64_t n = 0;
  A inputScale = 1;
  FinishFactors<A> factors;
  bool stream = false;
};

// Returns the number of entries met.
template <class A>
using PassFunction = uint64_t (*)(const PassSpan<A>& span);

// The same, and the squares of acc added to kSquareLanes sums: element begin + i to lane i mod kSquareLanes.
inline constexpr uint64_t kSquareLanes = 32;
template <class A>
using PassSquaresFunction = uint64_t (*)(const PassSpan<A>& span, double* lanes);

template <class A>
using MomentumFunction = void (*)(const MomentumSpan<A>& span);

// Returns the number of entries.
template <class A>
using CollectFunction = uint64_t (*)(const TouchedTile<A>& touched);

template <class A>
using SplitFunction = void (*)(const SplitSpan<A>& span);

// How many keys are at least `least`. Keys of magnitudes have no sign bit. Quickest for multiples of kCountBlock.
inline constexpr uint64_t kCountBlock = 16;
template <class Key>
using CountFunction = uint64_t (*)(const Key* keys, uint64_t count, Key least);

struct Isa {
  const char* name;
  bool (*supported)();
  PassFunction<float> passFloat;
  PassFunction<float> passHalf;
  PassFunction<float> passBfloat;
  PassFunction<double> passDouble;
  PassSquaresFunction<float> squaresFloat;  // need an out
  PassSquaresFunction<float> squaresHalf;
  PassSquaresFunction<float> squaresBfloat;
  PassSquaresFunction<double> squaresDouble;
  void (*finishFloat)(const FinishTile<float>& args);
  void (*finishDouble)(const FinishTile<double>& args);
  bool (*denseSumFloat)(const DenseSpan<float>& args);  // returns whether some sum is NaN or Inf
  bool (*denseSumDouble)(const DenseSpan<double>& args);
  // Sum of squares of at most 32 * n floats as a fixed tree over 32 lanes (see statistics.cpp).
  void (*squareLanesFloat)(const float* x, uint64_t rows, double* lanes);
  void (*squareLanesDouble)(const double* x, uint64_t rows, double* lanes);
  void (*widenHalf)(const Half* from, float* to, uint64_t n);
  void (*narrowHalf)(const float* from, Half* to, uint64_t n);
  MomentumFunction<float> momentumFloat;
  MomentumFunction<float> momentumHalf;
  MomentumFunction<float> momentumBfloat;
  MomentumFunction<double> momentumDouble;
  CollectFunction<float> collectFloat;
  CollectFunction<double> collectDouble;
  SplitFunction<float> splitFloat;
  SplitFunction<double> splitDouble;
  CountFunction<uint32_t> countFloat;
  CountFunction<uint64_t> countDouble;
};

template <class T>
PassFunction<typename Element<T>::Accumulate> passFor(const Isa& isa) {
  if constexpr (std::is_same_v<T, double>)
    return isa.passDouble;
  else if constexpr (std::is_same_v<T, Half>)
    return isa.passHalf;
  else if constexpr (std::is_same_v<T, Bfloat>)
    return isa.passBfloat;
  else
    return isa.passFloat;
}

template <class T>
PassSquaresFunction<typename Element<T>::Accumulate> passSquaresFor(const Isa& isa) {
  if constexpr (std::is_same_v<T, double>)
    return isa.squaresDouble;
  else if constexpr (std::is_same_v<T, Half>)
    return isa.squaresHalf;
  else if constexpr (std::is_same_v<T, Bfloat>)
    return isa.squaresBfloat;
  else
    return isa.squaresFloat;
}

template <class T>
MomentumFunction<typename Element<T>::Accumulate> momentumFor(const Isa& isa) {
  if constexpr (std::is_same_v<T, double>)
    return isa.momentumDouble;
  else if constexpr (std::is_same_v<T, Half>)
    return isa.momentumHalf;
  else if constexpr (std::is_same_v<T, Bfloat>)
    return isa.momentumBfloat;
  else
    return isa.momentumFloat;
}

template <class A>
CollectFunction<A> collectFor(const Isa& isa) {
  if constexpr (std::is_same_v<A, double>)
    return isa.collectDouble;
  else
    return isa.collectFloat;
}

template <class A>
SplitFunction<A> splitFor(const Isa& isa) {
  if constexpr (std::is_same_v<A, double>)
    return isa.splitDouble;
  else
    return isa.splitFloat;
}

template <class Key>
CountFunction<Key> countFor(const Isa& isa) {
  if constexpr (std::is_same_v<Key, uint64_t>)
    return isa.countDouble;
  else
    return isa.countFloat;
}

extern const Isa kScalar;
#if defined(__x86_64__)
extern const Isa kAvx2;
extern const Isa kAvx512;
#endif

// The best one that this machine supports; SPARSECOLL_ISA names a lesser one (for tests and measurements).
const Isa& bestIsa();

}  // namespace sparsecoll::host
