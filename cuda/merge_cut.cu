// The lists' sum cut to the largest magnitudes: a radix descent finds the least key that is kept, the sum's tiles are
// counted by it, and written where they belong.
#include "core/list_span.h"
#include "cuda/descent.h"
#include "cuda/lists.h"
#include "cuda/scan.h"
#include "cuda/union.h"

namespace sparsecoll::cuda {

namespace {

template <class A>
struct CutRule {
  using Key = typename Magnitude<A>::Key;

  const uint32_t* sumIndices;
  const A* sums;
  const uint32_t* count;
  const uint64_t* key;
  const uint64_t* limit;
  List target;
  List dropped;
  A droppedScale;
  uint64_t* keptKey;
  uint64_t tile;  // entries
  uint32_t* digits;
  uint64_t* tilesBefore;
  ListTurn* turn;
  Finding* finding;

#if SC_DEVICE_CODE
  __device__ Key least() const { return key != nullptr ? static_cast<Key>(*key) : Key{0}; }
#endif
};

// What is kept, once all keys have been counted: everything that passes, or nothing, or the largest.
template <class A>
__device__ inline void beginCut(const CutRule<A>& rule) {
  ListTurn& turn = *rule.turn;
  turn.kept = turn.passing < *rule.limit ? turn.passing : *rule.limit;
  turn.boundary = turn.kept != 0 ? rule.least() : ~uint64_t{0};
  turn.equals = turn.kept != 0 ? turn.kept : 0;
  turn.open = turn.kept != 0 && turn.kept < turn.passing ? 1 : 0;
  turn.need = turn.kept;
  turn.prefix = 0;
  turn.lowest = ~uint64_t{0};
  turn.passing = 0;
  if (turn.kept <= rule.target.capacity) return;
  report(rule.finding, sparsecollCorrupted, -1, Found::kCount, turn.kept, rule.target.capacity);
  turn.sound = 0;
  *rule.target.count = 0;
}

// The bin that the boundary lies in, by one block. Where all of the bin is kept, its lowest key will do as the
// boundary.
template <class A>
__device__ inline void takeDigit(const CutRule<A>& rule, uint32_t shift, uint32_t bits, DescentRoom& room) {
  ListTurn& turn = *rule.turn;
  const bool open = turn.open != 0;
  const uint64_t prefix = turn.prefix;
  if (open) {
    const Chosen chosen = chooseBin(turn.need, room, [&](uint32_t bin) { return uint64_t{__ldcg(rule.digits + bin)}; });
    if (threadIdx.x == 0) {
      turn.prefix = prefix << bits | chosen.bin;
      turn.need = turn.equals = chosen.need;
      turn.boundary = turn.prefix << shift;
      turn.open = shift != 0 && __ldcg(rule.digits + chosen.bin) != chosen.need ? 1 : 0;
    }
  }
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < kDigits; b += blockDim.x) rule.digits[b] = 0;
}

template <class A>
__global__ void __launch_bounds__(kThreads) countMergedDigits(CutRule<A> rule, uint32_t shift, uint32_t bits) {
  using Key = typename Magnitude<A>::Key;
  __shared__ uint32_t bins[kDigits];
  __shared__ DescentRoom room;
  ListTurn& turn = *rule.turn;
  const bool isFirst = shift + bits == kKeyBits<A>;
  if (turn.sound == 0) {
    if (isFirst && globalThread() == 0) {
      *rule.target.count = 0;
      if (rule.dropped.indices != nullptr) *rule.dropped.count = 0;
    }
    return;
  }
  if (!isFirst && turn.open == 0) return;
  for (uint32_t b = threadIdx.x; b < kDigits; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  const uint32_t count = *rule.count;
  const Key least = rule.least();
  const auto prefix = static_cast<Key>(isFirst ? 0 : turn.prefix);
  uint64_t passing = 0;
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    const Key key = keyOf(rule.sums[i]);
    passing += key >= least ? 1 : 0;
    const Key digits = key >> shift;
    if (digits >> bits == prefix) atomicAdd(&bins[digits & ((Key{1} << bits) - 1)], 1u);
  }
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < kDigits; b += blockDim.x)
    if (bins[b] != 0) atomicAdd(&rule.digits[b], bins[b]);
  if (isFirst) {
    const uint64_t sum = blockSum(passing, room.sums).total;
    if (threadIdx.x == 0 && sum != 0) atomicAddWide(&turn.passing, sum);
  }
  if (!lastOf(turn.done, gridDim.x)) return;
  if (isFirst && threadIdx.x == 0) beginCut(rule);
  __syncthreads();
  takeDigit(rule, shift, bits, room);
}

constexpr uint32_t kAboveShift = 32;  // both counts of a tile travel in one word

template <class Key>
__device__ inline uint64_t rankOf(Key key, Key boundary) {
  return key > boundary ? uint64_t{1} << kAboveShift : key == boundary ? 1 : 0;
}

template <class A>
__global__ void __launch_bounds__(kThreads) countCutTiles(CutRule<A> rule) {
  using Key = typename Magnitude<A>::Key;
  __shared__ BlockSums<uint64_t> room;
  __shared__ uint64_t lowest;
  ListTurn& turn = *rule.turn;
  if (turn.sound == 0) return;
  const uint64_t count = *rule.count;
  const uint64_t tiles = (count + rule.tile - 1) / rule.tile;
  const auto boundary = static_cast<Key>(turn.boundary);
  if (threadIdx.x == 0) lowest = ~uint64_t{0};
  __syncthreads();
  for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint64_t end = count - tile * rule.tile > rule.tile ? (tile + 1) * rule.tile : count;
    uint64_t ranks = 0;
    Key least = ~Key{0};
    for (uint64_t i = tile * rule.tile + threadIdx.x; i < end; i += blockDim.x) {
      const Key key = keyOf(rule.sums[i]);
      ranks += rankOf(key, boundary);
      if (key >= boundary && key < least) least = key;
    }
    if (least != ~Key{0}) atomicMinWide(&lowest, least);
    const uint64_t sum = blockSum(ranks, room).total;
    if (threadIdx.x == 0) rule.tilesBefore[tile] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0 && lowest != ~uint64_t{0}) atomicMinWide(&turn.lowest, lowest);
  if (!lastOf(turn.done, gridDim.x)) return;
  scanByBlock(rule.tilesBefore, tiles, room);
  if (threadIdx.x != 0) return;
  *rule.target.count = static_cast<uint32_t>(turn.kept);
  if (rule.dropped.indices != nullptr) *rule.dropped.count = static_cast<uint32_t>(count - turn.kept);
  if (rule.keptKey != nullptr && turn.kept != 0) *rule.keptKey = turn.lowest;
}

template <class A>
__global__ void __launch_bounds__(kThreads) writeCut(CutRule<A> rule) {
  using Key = typename Magnitude<A>::Key;
  __shared__ BlockSums<uint64_t> room;
  const ListTurn& turn = *rule.turn;
  if (turn.sound == 0) return;
  const uint64_t count = *rule.count;
  const auto boundary = static_cast<Key>(turn.boundary);
  const uint64_t equals = turn.equals;
  const ListSlots<A> to = slotsOf<A>(rule.target, turn.kept);
  const ListSlots<A> rest = slotsOf<A>(rule.dropped, 0);
  for (uint64_t tile = blockIdx.x; tile * rule.tile < count; tile += gridDim.x) {
    uint64_t before = rule.tilesBefore[tile];
    const uint64_t end = count - tile * rule.tile > rule.tile ? (tile + 1) * rule.tile : count;
    for (uint64_t begin = tile * rule.tile; begin < end; begin += blockDim.x) {
      const uint64_t i = begin + threadIdx.x;
      const A sum = i < end ? rule.sums[i] : A{0};
      const uint64_t rank = i < end ? rankOf(keyOf(sum), boundary) : 0;
      const BlockSum<uint64_t> ranks = blockSum(rank, room);
      const uint64_t below = before + ranks.below;
      const uint64_t equalBelow = below & ((uint64_t{1} << kAboveShift) - 1);
      const uint64_t slot = (below >> kAboveShift) + (equalBelow < equals ? equalBelow : equals);
      before += ranks.total;
      if (i >= end) continue;
      if (rank > 1 || (rank == 1 && equalBelow < equals)) {
        to.indices[slot] = rule.sumIndices[i];
        to.values[slot] = sum;
      } else if (rest.indices != nullptr) {
        rest.indices[i - slot] = rule.sumIndices[i];
        rest.values[i - slot] = canonical(sum * rule.droppedScale);
      }
    }
  }
}

template <class A>
void cutSum(const MergeCutArgs& args, const ListSpace& space, DeviceContext& device, Stream stream) {
  CutRule<A> rule;
  rule.sumIndices = args.scratch.indices;
  rule.sums = static_cast<const A*>(args.scratch.values);
  rule.count = args.scratch.count;
  rule.key = args.key;
  rule.limit = args.limit;
  rule.target = args.target;
  rule.dropped = args.dropped;
  rule.droppedScale = static_cast<A>(args.droppedScale);
  rule.keptKey = args.keptKey;
  rule.tile = std::max(kCutTile, alignUp((args.scratch.capacity + space.tiles - 1) / space.tiles, kThreads));
  rule.digits = space.digits;
  rule.tilesBefore = space.tilesBefore;
  rule.turn = space.turn;
  rule.finding = device.finding();
  const Grid grid = device.gridFor(args.scratch.capacity, kCutTile);
  for (uint32_t shift = kKeyBits<A>; shift != 0;) {
    const uint32_t bits = std::min(kDigitBits, shift);
    shift -= bits;
    device.launch<countMergedDigits<A>>("mergeCut", args.scratch.capacity, grid, stream, rule, shift, bits);
  }
  device.launch<countCutTiles<A>>("mergeCut", args.scratch.capacity, grid, stream, rule);
  device.launch<writeCut<A>>("mergeCut", args.scratch.capacity, grid, stream, rule);
}

}  // namespace

void mergeCut(const MergeCutArgs& args, DeviceContext& device, Stream stream) {
  const ListSpace* const space = spaceFor("mergeCut", args.lists.size(), device, stream);
  if (space == nullptr) return;
  withAccumulate(args.accumulateType, [&]<class A>(A) {
    const Stretches at = locate<A, uint32_t>(args.lists, {0, args.n}, {}, *space, device, stream);
    UnionOut out;
    out.indices = args.scratch.indices;
    out.values = args.scratch.values;
    out.type = args.accumulateType;
    out.capacity = args.scratch.capacity;
    out.count = args.scratch.count;
    unite<A, uint32_t>("mergeCut", at, {}, out, *space, device, stream);
    cutSum<A>(args, *space, device, stream);
  });
}

}  // namespace sparsecoll::cuda
