// The fused pass on vectors, written once for every vector type V, 64 elements a block, one bit each in a mask.
//
// At the densities of interest a block holds no candidate, one or two, and which of these is unpredictable. So the
// first two are written without a branch, whether they exist or not (what is not one is overwritten), and only blocks
// with more take a branch. Those are compacted through registers with full-width stores; compressing straight to memory
// is microcoded on some processors.
#pragma once

#include <type_traits>

#include "host/scalar.h"

namespace sparsecoll::host {
namespace {

constexpr uint64_t kBlock = 64;

// How far ahead lines are fetched when nothing is written: a core's loads alone run too little ahead of its compares to
// fill the memory bus (measured on Zen 5: 0.7 of the read bandwidth without, all of it with 8 KiB). With a stream of
// stores beside the loads the same prefetches cost a tenth.
constexpr uint64_t kPrefetchBytes = 8192;

// Prefetches past the end of the vectors are harmless.
template <class T>
inline void prefetchBlock(const T* block) {
  const auto* const ahead = reinterpret_cast<const char*>(block) + kPrefetchBytes;
  for (uint64_t at = 0; at < kBlock * sizeof(T); at += 64) __builtin_prefetch(ahead + at, 0, 3);
}

template <class A>
inline void writeOne(const PassSpan<A>& span, const A* acc, uint64_t slot, uint64_t block, uint64_t mask) {
  const uint64_t at = block + static_cast<uint64_t>(__builtin_ctzll(mask | uint64_t{1} << 63));
  span.indices[slot] = static_cast<uint32_t>(at);
  span.values[slot] = acc[at];
}

// The room is nearly used up: stores what fits, counts the rest.
template <class A>
[[gnu::noinline]] uint64_t writeChecked(const PassSpan<A>& span, const A* acc, uint64_t block, uint64_t mask,
                                        uint64_t found) {
  for (; mask != 0; mask &= mask - 1, ++found)
    if (found < span.room) writeOne(span, acc, found, block, mask);
  return found;
}

template <class V, class A>
inline uint64_t compressBlock(const PassSpan<A>& span, const A* acc, uint64_t block, uint64_t mask, uint64_t found) {
  for (uint64_t j = 0; j < kBlock / V::kLanes; ++j) {
    const uint64_t at = block + j * V::kLanes;
    const auto lanes = static_cast<uint32_t>(mask >> (j * V::kLanes) & ((uint64_t{1} << V::kLanes) - 1));
    V::compress(span.values + found, span.indices + found, V::load(acc + at), static_cast<uint32_t>(at), lanes);
    found += static_cast<uint64_t>(__builtin_popcount(lanes));
  }
  return found;
}

// Keeps the compiler from proving anything about x, so that it does not turn selects back into branches.
inline uint64_t opaque(uint64_t x) {
  __asm__("" : "+r"(x));
  return x;
}

// Writes the entries of a block whose bits are set; returns the new count. `found` travels by value so that it stays in
// a register: it is the one thing an iteration waits for.
template <class V, class A>
inline uint64_t writeBlock(const PassSpan<A>& span, const A* acc, uint64_t block, uint64_t mask, uint64_t found) {
  // Full-width stores may reach one vector past the last candidate of the block.
  if (found + kBlock + V::kLanes > span.room) [[unlikely]]
    return writeChecked(span, acc, block, mask, found);
  const uint64_t second = opaque(mask & (mask - 1));
  writeOne(span, acc, found, block, mask);
  writeOne(span, acc, found + 1, block, second);
  if (opaque(second & (second - 1)) != 0) [[unlikely]]
    return compressBlock<V>(span, acc, block, mask, found);
  return found + (mask != 0 ? 1u : 0u) + (second != 0 ? 1u : 0u);
}

// What acc adds the gradient to.
enum class Before { kZeros, kAll, kNotDeferred };

struct NoSquares {
  template <class Vector>
  void add(uint64_t, Vector) {}
};

template <class V, class T, Before kBefore, bool kHasOut, class Squares>
inline uint64_t passBlocks(const PassSpan<typename V::A>& caller, const typename V::A* acc, Squares& squares) {
  const PassSpan<typename V::A> span = caller;  // a copy: stores to the vectors cannot change it
  const auto* gradient = static_cast<const T*>(span.gradient);
  const auto scale = V::broadcast(span.scale);
  const auto key = V::broadcastKey(span.key);
  const uint64_t blocksEnd = span.begin + (span.end - span.begin) / kBlock * kBlock;
  uint64_t found = 0;
  for (uint64_t block = span.begin; block < blocksEnd; block += kBlock) {
    if (!kHasOut) prefetchBlock(gradient + block);
    const uint64_t zeros = kBefore == Before::kNotDeferred ? deferredFrom(span.deferredZeros, block) : 0;
    uint64_t mask = 0;
#pragma GCC unroll 16
    for (uint64_t j = 0; j < kBlock / V::kLanes; ++j) {
      const uint64_t at = block + j * V::kLanes;
      auto sum = V::load(gradient + at);
      if (kHasOut) {
        auto before = V::zero();
        if (kBefore == Before::kAll) before = V::load(span.in + at);
        if (kBefore == Before::kNotDeferred)
          before = V::loadBut(span.in + at, static_cast<uint32_t>(zeros >> (j * V::kLanes)));
        sum = V::fma(scale, sum, before);
        V::store(span.out + at, sum);
        squares.add(j, sum);
      }
      mask |= uint64_t{V::atLeast(sum, key)} << (j * V::kLanes);
    }
    found = writeBlock<V>(span, acc, block, mask, found);
  }
  return passScalar<T>(span, blocksEnd, span.end, found);
}

template <class V, class T, class Squares>
inline uint64_t accumulateBlocks(const PassSpan<typename V::A>& span, Squares& squares) {
  if (span.in == nullptr) return passBlocks<V, T, Before::kZeros, true>(span, span.out, squares);
  if (span.deferredZeros == nullptr) return passBlocks<V, T, Before::kAll, true>(span, span.out, squares);
  return passBlocks<V, T, Before::kNotDeferred, true>(span, span.out, squares);
}

template <class V, class T>
uint64_t passVector(const PassSpan<typename V::A>& span) {
  NoSquares none;
  if (span.out != nullptr) return accumulateBlocks<V, T>(span, none);
  // Without an out the gradient itself is acc: the same type, and a scale of 1.
  if constexpr (std::is_same_v<T, typename V::A>)
    return passBlocks<V, T, Before::kZeros, false>(span, static_cast<const T*>(span.gradient), none);
  return passScalar<T>(span, span.begin, span.end, 0);
}

// Squared while the next lines are on their way: a walk over the tile afterwards would have to wait for nothing, and
// cost its whole time.
template <class V, class T>
uint64_t passSquaresVector(const PassSpan<typename V::A>& span, double* lanes) {
  typename V::Sums squares(lanes);
  const uint64_t found = accumulateBlocks<V, T>(span, squares);
  squares.store(lanes);
  addSquares(span, span.begin + (span.end - span.begin) / kBlock * kBlock, lanes);
  return found;
}

}  // namespace
}  // namespace sparsecoll::host
