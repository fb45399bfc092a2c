// Lists one behind the other, and runs of neighbouring ranges.
#include <vector>

#include "core/list_span.h"
#include "cuda/device_workspace.h"
#include "cuda/lists.h"
#include "cuda/range_walk.h"
#include "cuda/scan.h"
#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

struct PartTables {
  LocatedPart* parts;
  ListTurn* turn;
  Finding* finding;
  uint32_t first;
  uint32_t isLast;
};

__device__ inline bool isOff(const uint32_t* unless) { return unless != nullptr && *unless != 0; }

template <class A>
__device__ inline LocatedPart locatePart(const ListPart& part, uint64_t& length) {
  const ListSpan<A> list = spanOf<A>(part.list);
  length = 0;
  if (list.indices == nullptr) return {};
  const uint64_t low = part.lowAt != nullptr ? *part.lowAt : part.low;
  const uint64_t high = part.highAt != nullptr ? *part.highAt : part.high;
  const uint32_t begin = firstNotBelow(list.indices, 0, list.count, low);
  const uint32_t end = firstNotBelow(list.indices, begin, list.count, high);
  length = end - begin;
  return {list.indices + begin, list.values + begin, 0};
}

// One block. Tables of one call follow each other; the entries of the earlier ones stand in turn->total.
template <class A, uint32_t kMost>
__global__ void __launch_bounds__(kThreads)
    locateParts(Table<ListPart, kMost> parts, PartTables tables, List to, const uint32_t* unless) {
  static_assert(kMost <= kThreads);
  __shared__ BlockSums<uint64_t> room;
  if (isOff(unless)) return;
  ListTurn& turn = *tables.turn;
  const bool fine = soundForAll(tables.finding);
  const uint64_t before = tables.first != 0 ? turn.total : 0;
  LocatedPart part{};
  uint64_t length = 0;
  if (fine && threadIdx.x < parts.count) part = locatePart<A>(parts.items[threadIdx.x], length);
  const BlockSum<uint64_t> sums = blockSum(length, room);
  part.outAt = before + sums.below;
  if (threadIdx.x < parts.count) tables.parts[tables.first + threadIdx.x] = part;
  if (threadIdx.x != 0) return;
  turn.total = before + sums.total;
  if (tables.isLast == 0) return;
  tables.parts[tables.first + parts.count].outAt = turn.total;
  if (fine && turn.total > to.capacity)
    report(tables.finding, sparsecollCorrupted, -1, Found::kCount, turn.total, to.capacity);
  turn.sound = fine && turn.total <= to.capacity ? 1 : 0;
  *to.count = turn.sound != 0 ? static_cast<uint32_t>(turn.total) : 0;
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    copyParts(const LocatedPart* parts, uint32_t count, const ListTurn* turn, List to, const uint32_t* unless) {
  if (isOff(unless) || turn->sound == 0) return;
  const uint64_t total = turn->total;
  const ListSlots<A> slots = slotsOf<A>(to, total);
  for (uint64_t i = globalThread(); i < total; i += globalThreads()) {
    const LocatedPart& part = parts[firstWhere(1, count, [&](uint32_t p) { return parts[p].outAt > i; }) - 1];
    const uint64_t j = i - part.outAt;
    slots.indices[i] = part.indices[j];
    slots.values[i] = static_cast<const A*>(part.values)[j];
  }
}

template <class A>
void concatenateParts(std::span<const ListPart> parts, const List& to, const uint32_t* unless, DeviceContext& device,
                      Stream stream) {
  if (stream.workspace == nullptr || workspaceOf(stream).lists().parts < parts.size())
    return device.note("concatenate", parts.size(), cudaErrorInvalidValue);
  const ListSpace& space = workspaceOf(stream).lists();
  withTables(parts, [&]<uint32_t kMost>(const Table<ListPart, kMost>& table, uint32_t first, bool isLast) {
    const PartTables tables{space.part, space.turn, device.finding(), first, isLast ? 1u : 0u};
    device.launch<locateParts<A, kMost>>("concatenate", to.capacity, {}, stream, table, tables, to, unless);
  });
  device.launch<copyParts<A>>("concatenate", to.capacity, device.gridFor(to.capacity), stream,
                              static_cast<const LocatedPart*>(space.part), static_cast<uint32_t>(parts.size()),
                              static_cast<const ListTurn*>(space.turn), to, unless);
}

// A part of a run that is being joined.
struct RunPart {
  ListView list;
  uint64_t low;
  uint64_t length;
  uint64_t outAt;
};

struct JoinRule {
  const uint32_t* dense;
  FrameHeader* header;
  uint64_t length;  // of all parts together
  uint64_t room;
  uint32_t isFirst;
  Finding* finding;
};

constexpr uint32_t kJoinTile = 2048;

// Where a part is a list, its own entries are put between zeros; where it is a run, it is that.
template <class A>
__device__ inline void joinTile(const RunPart& part, const ListSpan<A>& list, uint64_t begin, A* run) {
  const uint64_t end = part.length - begin > kJoinTile ? begin + kJoinTile : part.length;
  A* const out = run + part.outAt;
  for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    out[i] = list.indices == nullptr ? list.values[i] : A{0};
  if (list.indices == nullptr) return;
  const uint32_t first = firstNotBelow(list.indices, 0, list.count, part.low + begin);
  __syncthreads();
  for (uint64_t i = first + uint64_t{threadIdx.x}; i < list.count; i += blockDim.x) {
    const uint64_t at = list.indices[i] - part.low;
    if (at - begin >= end - begin) break;
    out[at] = list.values[i];
  }
  __syncthreads();
}

template <class A, uint32_t kMost>
__global__ void __launch_bounds__(kThreads) joinRuns(Table<RunPart, kMost> parts, JoinRule rule) {
  const bool fine = soundForAll(rule.finding);
  const bool dense = *rule.dense != 0;
  const bool fits = rule.length <= rule.room;
  if (globalThread() == 0 && rule.isFirst != 0) {
    rule.header->flags = dense ? kFrameDense : 0;
    if (dense) rule.header->count = fine && fits ? static_cast<uint32_t>(rule.length) : 0;
    if (fine && dense && !fits) report(rule.finding, sparsecollCorrupted, -1, Found::kCount, rule.length, rule.room);
  }
  if (!fine || !dense || !fits) return;
  auto* const run = reinterpret_cast<A*>(rule.header + 1);
  for (uint32_t p = 0; p < parts.count; ++p) {
    const RunPart& part = parts.items[p];
    const ListSpan<A> list = spanOf<A>(part.list);
    if (list.indices == nullptr && list.count != part.length) {
      if (globalThread() == 0)
        report(rule.finding, sparsecollCorrupted, -1, Found::kCountsDiffer, list.count, part.length);
      continue;
    }
    for (uint64_t begin = uint64_t{blockIdx.x} * kJoinTile; begin < part.length;
         begin += uint64_t{gridDim.x} * kJoinTile)
      joinTile(part, list, begin, run);
  }
}

template <class A>
void joinParts(const JoinArgs& args, DeviceContext& device, Stream stream) {
  std::vector<RunPart> runs;
  uint64_t length = 0;
  for (const ListPart& part : args.parts) {
    if (part.list.form == ListView::Form::kList) continue;
    runs.push_back({part.list, part.low, part.high - part.low, length});
    length += runs.back().length;
  }
  auto* const header = reinterpret_cast<FrameHeader*>(args.frame);
  withTables(
      std::span<const RunPart>(runs), [&]<uint32_t kMost>(const Table<RunPart, kMost>& table, uint32_t first, bool) {
        const JoinRule rule{args.dense, header, length, args.layout.denseCount, first == 0 ? 1u : 0u, device.finding()};
        device.launch<joinRuns<A, kMost>>("join", length, device.gridFor(length, kJoinTile), stream, table, rule);
      });
  List list;
  list.indices = reinterpret_cast<uint32_t*>(args.frame + kFrameHeaderBytes);
  list.count = &header->count;
  list.capacity = args.layout.capacity;
  list.where = List::Values::kPacked;
  concatenateParts<A>(args.parts, list, args.dense, device, stream);
}

}  // namespace

void concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to, DeviceContext& device,
                 Stream stream) {
  withAccumulate(type, [&]<class A>(A) { concatenateParts<A>(parts, to, nullptr, device, stream); });
}

void join(const JoinArgs& args, DeviceContext& device, Stream stream) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { joinParts<A>(args, device, stream); });
}

}  // namespace sparsecoll::cuda
