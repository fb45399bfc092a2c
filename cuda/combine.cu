// P lists to a dense sum, range by range. Every block writes what it summed and nothing else.
#include "core/finish.h"
#include "cuda/lists.h"
#include "cuda/range_sum.h"
#include "cuda/vector_access.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kLineElements = 16;  // one bit of a touched map
template <class A>
constexpr uint32_t kMapWords = kRange<A> / kLineElements / 64;

enum class Writes : uint32_t {
  kAll,    // all of out
  kAdds,   // lines with entries, to which is added
  kLines,  // lines with entries, and those that had some in the step before
};

template <class A, class T>
struct CombineOut {
  T* out;
  uint64_t* touchedLines;
  FinishFactors<A> factors;
  SumRule rule;
  Writes writes;
  bool aligned;  // out can be written in fours
  Poison poison;
};

// The lines of a range that have entries, and those that only had some.
template <class A>
struct LineMaps {
  uint64_t touched[kMapWords<A>];
  uint64_t stale[kMapWords<A>];
  uint32_t lines;
};

__device__ inline bool bitAt(const uint64_t* map, uint32_t i) { return (map[i / 64] >> (i % 64) & 1u) != 0; }

// Ends with a barrier.
template <class A, class Index>
__device__ inline void mapLines(const RangeMarks<A, Index>& marks, uint64_t* old, uint32_t length, LineMaps<A>& maps) {
  if (threadIdx.x == 0) maps.lines = 0;
  __syncthreads();
  if (threadIdx.x < kMapWords<A>) {
    const uint32_t* const words = marks.touched + threadIdx.x * 32;
    uint64_t touched = 0;
    for (uint32_t w = 0; w < 32; ++w) {
      if ((words[w] & 0xffffu) != 0) touched |= uint64_t{1} << (2 * w);
      if ((words[w] & 0xffff0000u) != 0) touched |= uint64_t{2} << (2 * w);
    }
    uint64_t stale = 0;
    if (old != nullptr && threadIdx.x * 64 * kLineElements < length) {
      stale = old[threadIdx.x] & ~touched;
      old[threadIdx.x] = touched;
    }
    maps.touched[threadIdx.x] = touched;
    maps.stale[threadIdx.x] = stale;
    const auto lines = static_cast<uint32_t>(__popcll(touched) + __popcll(stale));
    if (lines != 0) atomicAdd(&maps.lines, lines);
  }
  __syncthreads();
}

template <class A>
__device__ inline Four<A> finishFour(RangeSum<A, uint32_t>& sum, uint32_t offset, const SumRule& rule,
                                     const FinishFactors<A>& factors) {
  const uint32_t bits = sum.marks.touched[offset / 32] >> (offset % 32);
  Four<A> four;
#pragma unroll
  for (uint32_t q = 0; q < kLanesWide; ++q) {
    const A x = (bits >> q & 1u) != 0 ? averaged(sum, offset + q, rule) : A{0};
    four.at[q] = finishOne(factors, x);
  }
  return four;
}

template <class A, class T>
__device__ inline Four<T> stored(const Four<A>& from) {
  using Stored = typename Element<T>::Accumulate;
  Four<T> to;
#pragma unroll
  for (uint32_t q = 0; q < kLanesWide; ++q) to.at[q] = Element<T>::store(static_cast<Stored>(from.at[q]));
  return to;
}

template <class A, class T>
__device__ inline void addFour(T* out, uint64_t i, uint64_t end, bool aligned, const Four<A>& finished) {
  const Four<T> before = loadFour(out, i, end, aligned);
  Four<A> sum;
#pragma unroll
  for (uint32_t q = 0; q < kLanesWide; ++q)
    sum.at[q] = canonical(static_cast<A>(Element<T>::load(before.at[q])) + finished.at[q]);
  storeFour(out, i, end, aligned, stored<A, T>(sum));
}

// Past a quarter of the lines the host writes a tile as a whole, which shows where an untouched sum is not finished as
// +0.
template <class A, class T>
__device__ inline void writeRange(const CombineOut<A, T>& to, uint64_t low, uint32_t length, const LineMaps<A>& maps,
                                  RangeSum<A, uint32_t>& sum) {
  const bool all =
      to.writes == Writes::kAll || (to.writes == Writes::kLines && uint64_t{maps.lines} * kLineElements * 4 > length);
  const uint64_t end = low + length;
  for (uint32_t offset = threadIdx.x * kLanesWide; offset < length; offset += blockDim.x * kLanesWide) {
    const uint32_t line = offset / kLineElements;
    if (all || bitAt(maps.touched, line)) {
      const Four<A> finished = finishFour(sum, offset, to.rule, to.factors);
      if (to.writes == Writes::kAdds)
        addFour(to.out, low + offset, end, to.aligned, finished);
      else
        storeFour(to.out, low + offset, end, to.aligned, stored<A, T>(finished));
    } else if (bitAt(maps.stale, line)) {
      storeFour(to.out, low + offset, end, to.aligned, Four<T>{});
    }
  }
}

// Non-finite entries are named by their ranks; whatever was summed there, a loss scaler must see a NaN.
template <class A, class T>
__device__ inline void poisonRange(const CombineOut<A, T>& to, uint64_t low, uint32_t length) {
  using Stored = typename Element<T>::Accumulate;
  if (to.poison.control == nullptr || to.poison.control->anyNonFinite == 0) return;
  __syncthreads();
  to.poison.forEach(low, length, [&](uint32_t offset) {
    const uint64_t i = low + offset;
    storeAlike(to.out + i, Element<T>::store(quietNaN(Stored{})));  // some ranks may name the same
    if (to.touchedLines != nullptr)
      atomicOr(reinterpret_cast<Wide*>(to.touchedLines + i / kLineElements / 64), Wide{1} << (i / kLineElements % 64));
  });
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads, kRangeBlocks<A>) combineRanges(Stretches at, CombineOut<A, T> to) {
  using Room = RangeSum<A, uint32_t>;
  SC_DYNAMIC_SHARED(Room, room);
  __shared__ LineMaps<A> maps;
  if (at.turn->sound == 0) return;
  to.factors = to.factors.now();
  for (uint32_t stretch = blockIdx.x; stretch < at.count; stretch += gridDim.x) {
    const uint64_t end = at.end(stretch);
    for (uint64_t low = at.begin(stretch); low < end; low += kRange<A>) {
      const uint32_t length = end - low < kRange<A> ? static_cast<uint32_t>(end - low) : kRange<A>;
      sumRange(at, stretch, low, to.rule, *room);
      if (to.writes != Writes::kAll) {
        uint64_t* const old = to.writes == Writes::kLines ? to.touchedLines + low / kLineElements / 64 : nullptr;
        mapLines(room->marks, old, length, maps);
      }
      if (to.writes == Writes::kAll || maps.lines != 0) writeRange(to, low, length, maps, *room);
      poisonRange(to, low, length);
    }
  }
}

}  // namespace

void combine(const CombineArgs& args, DeviceContext& device, Stream stream) {
  const ListSpace* const space = spaceFor("combine", args.lists.size(), device, stream);
  if (space == nullptr) return;
  withAccumulate(args.accumulateType, [&]<class A>(A) {
    withElement(args.outType, [&]<class T>(T) {
      const Stretches at = locate<A, uint32_t>(args.lists, {0, args.n}, {}, *space, device, stream);
      CombineOut<A, T> to;
      to.out = static_cast<T*>(args.out);
      to.touchedLines = args.touchedLines;
      to.factors = factorsOf<A>(args.finish);
      to.rule = {args.mode == Combine::kAssign, args.overContributors};
      to.writes = args.accumulate ? Writes::kAdds : args.touchedLines != nullptr ? Writes::kLines : Writes::kAll;
      to.aligned = inFours<T>(args.out);
      to.poison = {args.control};
      constexpr auto kernel = combineRanges<A, T>;
      const Grid grid = withShared("combine", kernel, device.gridFor(at.count, 1),
                                   rangeSumBytes<A, uint32_t>(args.overContributors), device);
      device.launch<kernel>("combine", args.n, grid, stream, at, to);
    });
  });
}

}  // namespace sparsecoll::cuda
