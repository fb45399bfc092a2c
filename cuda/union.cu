#include "cuda/union.h"

#include "cuda/scan.h"

namespace sparsecoll::cuda {

namespace {

struct UnionTables {
  uint64_t* positions;
  ListTurn* turn;
  Finding* finding;
};

__device__ inline void setCount(const UnionOut& out, uint64_t count) {
  if (out.wideCount != nullptr) *out.wideCount = count;
  if (out.count != nullptr) *out.count = static_cast<uint32_t>(count);
}

// Bits of a range that are set, in every thread.
template <class A, class Index>
__device__ inline uint32_t touchedCount(RangeMarks<A, Index>& marks) {
  const uint32_t word = threadIdx.x < kRange<A> / 32 ? marks.touched[threadIdx.x] : 0;
  return blockSum(static_cast<uint32_t>(__popc(word)), marks.sums).total;
}

template <class A, class Index>
__global__ void __launch_bounds__(kThreads, kRangeBlocks<A>)
    countUnion(Stretches at, Poison poison, UnionOut out, UnionTables tables) {
  static_assert(kRange<A> / 32 <= kThreads);
  __shared__ RangeMarks<A, Index> marks;
  __shared__ BlockSums<uint64_t> room;
  if (at.turn->sound == 0 || at.turn->dense != 0) {
    if (at.turn->sound == 0 && globalThread() == 0) setCount(out, 0);
    return;
  }
  for (uint32_t stretch = blockIdx.x; stretch < at.count; stretch += gridDim.x) {
    const uint64_t end = at.end(stretch);
    uint64_t entries = 0;
    for (uint64_t low = nextRange(at, stretch, at.begin(stretch), poison, marks); low < end;
         low = nextRange(at, stretch, low + kRange<A>, poison, marks)) {
      __syncthreads();
      marks.clear();
      visitRange<false>(at, stretch, low, marks, [&](uint32_t offset, A) { marks.touch(offset); });
      poison.forEach(at.base + low, kRange<A>, [&](uint32_t offset) {
        if (low + offset < at.length) marks.touch(offset);
      });
      __syncthreads();
      entries += touchedCount(marks);
    }
    if (threadIdx.x == 0) tables.positions[stretch] = entries;
  }
  if (!lastOf(tables.turn->done, gridDim.x)) return;
  const uint64_t total = scanByBlock(tables.positions, at.count, room);
  if (threadIdx.x != 0) return;
  tables.turn->total = total;
  const bool fits = total <= out.capacity;
  if (!fits)
    report(tables.finding, out.mayOverflow ? sparsecollCapacity : sparsecollCorrupted, -1, Found::kOutput, total,
           out.capacity);
  if (!fits && !out.mayOverflow) tables.turn->sound = 0;
  setCount(out, fits || out.mayOverflow ? total : 0);
}

template <class T, class A>
__device__ inline void storeAt(void* values, uint64_t i, A x) {
  using Stored = typename Element<T>::Accumulate;
  static_cast<T*>(values)[i] = Element<T>::store(static_cast<Stored>(x));
}

template <class A>
__device__ inline void storeAs(sparsecollDataType_t type, void* values, uint64_t i, A x) {
  if (type == sparsecollFloat16)
    storeAt<Half>(values, i, x);
  else if (type == sparsecollBfloat16)
    storeAt<Bfloat>(values, i, x);
  else if (type == sparsecollFloat64)
    storeAt<double>(values, i, x);
  else
    storeAt<float>(values, i, x);
}

template <class A>
struct UnionWrite {
  FinishFactors<A> factors;
  SumRule sum;
  UnionOut out;
};

// A warp writes a word's entries together, next to each other. Returns how many the range has.
template <class A, class Index>
__device__ inline uint32_t writeUnion(const Stretches& at, uint64_t low, uint64_t position, const UnionWrite<A>& to,
                                      void* values, RangeSum<A, Index>& sum) {
  const uint32_t word = threadIdx.x < kRange<A> / 32 ? sum.marks.touched[threadIdx.x] : 0;
  const BlockSum<uint32_t> counts = blockSum(static_cast<uint32_t>(__popc(word)), sum.marks.sums);
  for (uint32_t left = __ballot_sync(kAllLanes, word != 0); left != 0; left &= left - 1) {
    const int lane = __ffs(static_cast<int>(left)) - 1;
    const uint32_t bits = __shfl_sync(kAllLanes, word, lane);
    const uint32_t below = __shfl_sync(kAllLanes, counts.below, lane);
    if ((bits >> laneIndex() & 1u) == 0) continue;
    const uint64_t slot = position + below + static_cast<uint32_t>(__popc(bits & lanesBelow()));
    if (slot >= to.out.capacity) continue;
    const uint32_t offset = (warpIndex() * kWarp + static_cast<uint32_t>(lane)) * 32 + laneIndex();
    static_cast<Index*>(to.out.indices)[slot] = static_cast<Index>(at.base + low + offset);
    storeAs(to.out.type, values, slot, finishOne(to.factors, averaged(sum, offset, to.sum)));
  }
  return counts.total;
}

template <class A, class Index>
__global__ void __launch_bounds__(kThreads, kRangeBlocks<A>)
    writeUnions(Stretches at, Poison poison, UnionWrite<A> to, const uint64_t* positions) {
  using Room = RangeSum<A, Index>;
  SC_DYNAMIC_SHARED(Room, room);
  if (at.turn->sound == 0 || at.turn->dense != 0) return;
  to.factors = to.factors.now();
  void* values = to.out.values;
  if (values == nullptr) values = static_cast<std::byte*>(to.out.indices) + alignUp(at.turn->total * sizeof(Index), 16);
  for (uint32_t stretch = blockIdx.x; stretch < at.count; stretch += gridDim.x) {
    const uint64_t end = at.end(stretch);
    uint64_t position = positions[stretch];
    if (position == (stretch + 1 < at.count ? positions[stretch + 1] : at.turn->total)) continue;
    for (uint64_t low = nextRange(at, stretch, at.begin(stretch), poison, room->marks); low < end;
         low = nextRange(at, stretch, low + kRange<A>, poison, room->marks)) {
      sumRange(at, stretch, low, to.sum, *room);
      poison.forEach(at.base + low, kRange<A>, [&](uint32_t offset) {
        if (low + offset >= at.length) return;
        room->marks.touch(offset);
        storeAlike(room->sums + offset, quietNaN(A{}));  // some ranks may name the same
      });
      __syncthreads();
      position += writeUnion(at, low, position, to, values, *room);
    }
  }
}

}  // namespace

template <class A, class Index>
void unite(const char* name, const Stretches& at, const UnionRule& rule, const UnionOut& out, const ListSpace& space,
           DeviceContext& device, Stream stream) {
  const Grid grid = device.gridFor(at.count, 1);
  const UnionTables tables{space.positions, space.turn, device.finding()};
  device.launch<countUnion<A, Index>>(name, at.length, grid, stream, at, rule.poison, out, tables);
  const UnionWrite<A> to{factorsOf<A>(rule.finish), rule.sum, out};
  constexpr auto kernel = writeUnions<A, Index>;
  device.launch<kernel>(name, at.length,
                        withShared(name, kernel, grid, rangeSumBytes<A, Index>(rule.sum.counts), device), stream, at,
                        rule.poison, to, static_cast<const uint64_t*>(space.positions));
}

template void unite<float, uint32_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&, const ListSpace&,
                                     DeviceContext&, Stream);
template void unite<double, uint32_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&,
                                      const ListSpace&, DeviceContext&, Stream);
template void unite<float, uint64_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&, const ListSpace&,
                                     DeviceContext&, Stream);
template void unite<double, uint64_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&,
                                      const ListSpace&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
