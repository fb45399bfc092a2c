// Loops over dense vectors, four elements a thread, each element with the host's roundings.
#include "cuda/dense.h"

#include "core/finish.h"
#include "cuda/conclude.h"
#include "cuda/table.h"
#include "cuda/vector_access.h"

namespace sparsecoll::cuda {

namespace {

Grid gridForFours(const DeviceContext& device, uint64_t n) { return device.gridFor(n, kThreads * kLanesWide); }

// Calls each(i) for every first element of four.
template <class Each>
__device__ void forFours(uint64_t n, Each each) {
  for (uint64_t i = globalThread() * kLanesWide; i < n; i += globalThreads() * kLanesWide) each(i);
}

template <class A>
struct DenseRule {
  uint64_t count;
  Scale inputScale;
  FinishFactors<A> factors;
  bool accumulate;
  bool aligned;
  uint32_t* nonFinite;
};

// As many threads at a time as with scales that are known when it starts.
constexpr uint32_t kSumBlocks = 1536 / kThreads;

// Stored: T, or A where nothing is to be rounded.
template <class T, class A, uint32_t kMost, class Stored>
__global__ void __launch_bounds__(kThreads, kSumBlocks)
    sumVectors(Table<const void*, kMost> in, Table<void*, kMost> out, DenseRule<A> rule) {
  const auto inputScale = static_cast<A>(rule.inputScale.now());
  const FinishFactors<A> factors = rule.factors.now();
  bool nonFinite = false;
  forFours(rule.count, [&](uint64_t i) {
    Four<A> sum = {};
#pragma unroll 4
    for (uint32_t r = 0; r < in.count; ++r) {
      const Four<T> x = loadFour(static_cast<const T*>(in.items[r]), i, rule.count, rule.aligned);
      for (uint32_t q = 0; q < kLanesWide; ++q) {
        const A scaled = inputScale * static_cast<A>(Element<T>::load(x.at[q]));
        sum.at[q] = r == 0 ? scaled : sum.at[q] + scaled;
      }
    }
    Four<Stored> stored;
    for (uint32_t q = 0; q < kLanesWide; ++q) {
      sum.at[q] = finishOne(factors, sum.at[q]);
      stored.at[q] = Element<Stored>::store(sum.at[q]);
      sum.at[q] = Element<Stored>::load(stored.at[q]);  // what a message would have of it
      nonFinite |= !isFinite(sum.at[q]);  // zeros behind the end stay finite, unless the scales let nothing do so
    }
    for (uint32_t r = 0; r < out.count; ++r) {
      auto* const to = static_cast<Stored*>(out.items[r]);
      if (rule.accumulate) {
        const Four<Stored> before = loadFour(to, i, rule.count, rule.aligned);
        for (uint32_t q = 0; q < kLanesWide; ++q)
          stored.at[q] = Element<Stored>::store(canonical(Element<Stored>::load(before.at[q]) + sum.at[q]));
      }
      storeFour(to, i, rule.count, rule.aligned, stored);
    }
  });
  if (nonFinite && rule.nonFinite != nullptr) raise(rule.nonFinite);
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    clearVector(A* acc, uint64_t n, bool aligned, const Control* control, const Finding* finding) {
  // Where something is wrong nobody has told whether some rank met one, and a step may already have formed acc.
  if (control->anyNonFinite == 0 && sound(finding)) return;
  forFours(n, [&](uint64_t i) {
    Four<A> x = loadFour(acc, i, n, aligned);
    bool clears = false;
    for (uint32_t q = 0; q < kLanesWide; ++q) {
      if (isFinite(x.at[q])) continue;
      x.at[q] = 0;
      clears = true;
    }
    if (clears) storeFour(acc, i, n, aligned, x);
  });
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads)
    addFiniteEntries(A* acc, const T* x, uint64_t n, double share, Scale divisor, bool aligned, const Control* decision,
                     const Finding* finding) {
  if (!sound(finding) || !takesEffect(decision)) return;
  const auto factor = static_cast<A>(share / divisor.now());
  forFours(n, [&](uint64_t i) {
    const Four<T> from = loadFour(x, i, n, aligned);
    Four<A> to = loadFour(acc, i, n, aligned);
    for (uint32_t q = 0; q < kLanesWide; ++q) {
      const A wide = static_cast<A>(Element<T>::load(from.at[q]));
      const A sum = canonical(fusedMultiplyAdd(factor, wide, to.at[q]));
      if (isFinite(sum)) to.at[q] = sum;
    }
    storeFour(acc, i, n, aligned, to);
  });
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads)
    flushVector(A* acc, T* x, uint64_t n, bool aligned) {
  forFours(n, [&](uint64_t i) {
    Four<T> to = loadFour(x, i, n, aligned);
    Four<A> rest = loadFour(acc, i, n, aligned);
    for (uint32_t q = 0; q < kLanesWide; ++q) {
      const auto before = static_cast<A>(Element<T>::load(to.at[q]));
      const A sum = canonical(before + rest.at[q]);
      to.at[q] = Element<T>::store(static_cast<typename Element<T>::Accumulate>(sum));
      rest.at[q] = restOf(before, rest.at[q], sum, static_cast<A>(Element<T>::load(to.at[q])));
    }
    storeFour(x, i, n, aligned, to);
    storeFour(acc, i, n, aligned, rest);
  });
}

template <class T>
bool allInFours(std::span<const void* const> vectors) {
  for (const void* const x : vectors)
    if (!inFours<T>(x)) return false;
  return true;
}

// Calls f(acc, x) with both vectors' types.
template <class F>
void withVectors(void* acc, sparsecollDataType_t accType, sparsecollDataType_t type, F&& f) {
  withAccumulate(accType, [&]<class A>(A) { withElement(type, [&]<class T>(T) { f(static_cast<A*>(acc), T{}); }); });
}

}  // namespace

void denseSum(const DenseSumArgs& args, DeviceContext& device, Stream stream) {
  const std::span<const void* const> outs(args.out.data(), args.out.size());
  withElement(args.type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    const auto sum = [&]<class Stored>(Stored) {
      const DenseRule<A> rule{args.count,
                              args.inputScale,
                              factorsOf<A>(args.finish),
                              args.accumulate,
                              allInFours<T>(args.in) && allInFours<Stored>(outs),
                              args.nonFinite};
      withTable(args.in, [&]<uint32_t kMost>(const Table<const void*, kMost>& in) {
        Table<void*, kMost> out = {};
        for (void* const to : args.out) out.items[out.count++] = to;
        device.launch<sumVectors<T, A, kMost, Stored>>("denseSum", args.count, gridForFours(device, args.count), stream,
                                                       in, out, rule);
      });
    };
    if (args.wide)
      sum(A{});
    else
      sum(T{});
  });
}

void clearNonFinite(void* acc, sparsecollDataType_t type, uint64_t n, const Control* control, DeviceContext& device,
                    Stream stream) {
  // Mostly there is nothing to clear, so the grid is no larger than the device.
  Grid grid = gridForFours(device, n);
  grid.blocks = std::min<uint64_t>(grid.blocks, device.processors());
  withAccumulate(type, [&]<class A>(A) {
    device.launch<clearVector<A>>("clearNonFinite", n, grid, stream, static_cast<A*>(acc), n, inFours<A>(acc), control,
                                  device.finding());
  });
}

void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
               double factor, Scale divisor, const Control* decision, DeviceContext& device, Stream stream) {
  withVectors(acc, accType, type, [&]<class A, class T>(A* to, T) {
    device.launch<addFiniteEntries<A, T>>("addFinite", n, gridForFours(device, n), stream, to, static_cast<const T*>(x),
                                          n, factor, divisor, inFours<A>(acc) && inFours<T>(x), decision,
                                          device.finding());
  });
}

void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n,
           DeviceContext& device, Stream stream) {
  withVectors(acc, accType, type, [&]<class A, class T>(A* to, T) {
    device.launch<flushVector<A, T>>("flush", n, gridForFours(device, n), stream, to, static_cast<T*>(x), n,
                                     inFours<A>(acc) && inFours<T>(x));
  });
}

}  // namespace sparsecoll::cuda
