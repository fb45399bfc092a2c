// Loops over dense vectors. They stream, so a few kilobytes of scratch between steps cost nothing.
#include "host/dense.h"

#include <algorithm>
#include <type_traits>

#include "host/store.h"
#include "host/tiles.h"

namespace sparsecoll::host {

namespace {

constexpr uint64_t kChunk = 1024;

// Types that are not their own accumulate type, and out +=: a chunk at a time through scratch that stays in the
// first-level cache.
template <class T>
bool sumChunk(const DenseSumArgs& args, uint64_t at, uint64_t length, const Isa& isa) {
  using A = typename Element<T>::Accumulate;
  alignas(64) A sum[kChunk];
  alignas(64) A next[kChunk];
  const auto scale = static_cast<A>(args.inputScale.now());
  for (size_t r = 0; r < args.in.size(); ++r) {
    A* const to = r == 0 ? sum : next;
    loadElements(static_cast<const T*>(args.in[r]) + at, to, length, isa);
    for (uint64_t i = 0; i < length; ++i) to[i] *= scale;
    if (r != 0)
      for (uint64_t i = 0; i < length; ++i) sum[i] += next[i];
  }
  finishTile(isa, factorsOf<A>(args.finish).now(), sum, next, length);
  // A sum is what a message would have of it, before it is looked at or added to out.
  if (!std::is_same_v<T, A> && !args.wide) {
    alignas(64) T rounded[kChunk];
    storeElements(next, rounded, length, isa);
    loadElements(rounded, next, length, isa);
  }
  const bool nonFinite = std::any_of(next, next + length, [](A x) { return !isFinite(x); });
  for (void* const out : args.out) {
    if (args.wide) {
      std::copy_n(next, length, static_cast<A*>(out) + at);
      continue;
    }
    T* const to = static_cast<T*>(out) + at;
    if (!args.accumulate) {
      storeElements(next, to, length, isa);
      continue;
    }
    loadElements(to, sum, length, isa);
    for (uint64_t i = 0; i < length; ++i) sum[i] = canonical(sum[i] + next[i]);
    storeElements(sum, to, length, isa);
  }
  return nonFinite;
}

bool allMayStream(const DenseSumArgs& args) {
  const uint64_t bytes = args.count * elementBytes(args.type) * args.out.size();
  return std::all_of(args.out.begin(), args.out.end(), [&](void* out) { return mayStream(out, bytes); });
}

template <class A>
DenseSpan<A> spanOf(const DenseSumArgs& args) {
  return {args.in.data(),
          args.out.data(),
          args.in.size(),
          args.out.size(),
          args.count,
          static_cast<A>(args.inputScale.now()),
          factorsOf<A>(args.finish).now(),
          allMayStream(args)};
}

}  // namespace

void denseSum(const DenseSumArgs& args, const Isa& isa) {
  bool nonFinite = false;
  if (!args.accumulate && args.type == sparsecollFloat32) {
    nonFinite = isa.denseSumFloat(spanOf<float>(args));
  } else if (!args.accumulate && args.type == sparsecollFloat64) {
    nonFinite = isa.denseSumDouble(spanOf<double>(args));
  } else {
    withElement(args.type, [&]<class T>(T) {
      for (uint64_t at = 0; at < args.count; at += kChunk)
        nonFinite = sumChunk<T>(args, at, std::min(kChunk, args.count - at), isa) || nonFinite;
    });
  }
  if (nonFinite && args.nonFinite != nullptr) *args.nonFinite = 1;
  streamFence();
}

void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
               double scale, const Isa& isa) {
  withAccumulate(accType, [&]<class A>(A) {
    withElement(type, [&]<class T>(T) {
      alignas(64) A wide[kChunk];
      const auto factor = static_cast<A>(scale);
      for (uint64_t at = 0; at < n; at += kChunk) {
        const uint64_t length = std::min(kChunk, n - at);
        loadElements(static_cast<const T*>(x) + at, wide, length, isa);
        A* const to = static_cast<A*>(acc) + at;
        for (uint64_t i = 0; i < length; ++i) {
          const A sum = canonical(fusedMultiplyAdd(factor, wide[i], to[i]));
          if (isFinite(sum)) to[i] = sum;
        }
      }
    });
  });
}

void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n, const Isa& isa) {
  withAccumulate(accType, [&]<class A>(A) {
    withElement(type, [&]<class T>(T) {
      alignas(64) A before[kChunk];
      alignas(64) A sum[kChunk];
      alignas(64) A stored[kChunk];
      for (uint64_t at = 0; at < n; at += kChunk) {
        const uint64_t length = std::min(kChunk, n - at);
        T* const to = static_cast<T*>(x) + at;
        A* const rest = static_cast<A*>(acc) + at;
        loadElements(to, before, length, isa);
        for (uint64_t i = 0; i < length; ++i) sum[i] = canonical(before[i] + rest[i]);
        storeElements(sum, to, length, isa);
        loadElements(to, stored, length, isa);
        for (uint64_t i = 0; i < length; ++i) rest[i] = restOf(before[i], rest[i], sum[i], stored[i]);
      }
    });
  });
}

}  // namespace sparsecoll::host
