// Scattered reads and writes of acc by lists, and sums of values that share their indices. While something is wrong acc
// stays as it is, but for what was decided before (conclude).
#include "core/list_span.h"
#include "cuda/conclude.h"
#include "cuda/device_workspace.h"
#include "cuda/lists.h"
#include "cuda/range_walk.h"
#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kMostEntries = uint64_t{1} << 32;

// The lengths of lists stand in the device's memory; this many entries they may have.
uint64_t mostEntries(uint64_t n, Stream stream) {
  if (stream.workspace == nullptr) return n;
  const uint64_t entries = workspaceOf(stream).lists().entries;
  return entries != 0 ? std::min(n, entries) : n;
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    gatherValues(const A* acc, uint64_t n, ListView list, A* values, uint32_t* outCount, Finding* finding) {
  const uint32_t count = sound(finding) ? *list.count : 0;
  const auto* const indices = static_cast<const uint32_t*>(list.indices);
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    const uint32_t index = indices[i];
    if (index < n)
      values[i] = acc[index];
    else
      report(finding, sparsecollCorrupted, -1, Found::kIndex, index, n);
  }
  if (globalThread() == 0) *outCount = count;
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    zeroListed(A* acc, uint64_t n, ListView list, const Control* decision, const Finding* finding) {
  if (!entriesLeave(decision, finding)) return;
  const uint32_t count = *list.count;
  const auto* const indices = static_cast<const uint32_t*>(list.indices);
  for (uint64_t i = globalThread(); i < count; i += globalThreads())
    if (indices[i] < n) acc[indices[i]] = 0;
}

template <class A, uint32_t kMost>
__global__ void __launch_bounds__(kThreads)
    sumRanks(Table<const void*, kMost> from, bool goesOn, const uint32_t* fromCount, A* to, uint32_t* outCount,
             const Finding* finding) {
  const uint32_t count = sound(finding) ? *fromCount : 0;
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    A sum = goesOn ? to[i] : A{0};
#pragma unroll 4
    for (uint32_t r = 0; r < from.count; ++r) sum += static_cast<const A*>(from.items[r])[i];
    to[i] = canonical(sum);
  }
  if (globalThread() == 0) *outCount = count;
}

// Calls each(index, value) for the entries of list that are in sum, too.
template <class A, class Each>
__device__ inline void forEachCommon(const ListView& view, const ListView& sumView, uint64_t n, uint64_t thread,
                                     uint64_t threads, Each each) {
  const ListSpan<A> sum = spanOf<A>(sumView);
  const ListSpan<A> list = spanOf<A>(view);
  if (sum.indices == nullptr || list.indices == nullptr) return;
  for (uint64_t i = thread; i < list.count; i += threads) {
    const uint32_t index = list.indices[i];
    const uint32_t at = firstNotBelow(sum.indices, 0, sum.count, index);
    if (at < sum.count && sum.indices[at] == index && index < n) each(index, i, list.values);
  }
}

// The grid is a multiple of the lists.
template <class A, uint32_t kMost>
__global__ void __launch_bounds__(kThreads) zeroSent(Table<ListView, kMost> sent, ListView sum, A* acc, uint64_t n,
                                                     const Control* decision, const Finding* finding) {
  if (!entriesLeave(decision, finding)) return;
  const uint64_t thread = uint64_t{blockIdx.x / sent.count} * blockDim.x + threadIdx.x;
  const uint64_t threads = uint64_t{gridDim.x / sent.count} * blockDim.x;
  forEachCommon<A>(sent.items[blockIdx.x % sent.count], sum, n, thread, threads,
                   [&](uint32_t index, uint64_t, const A*) { acc[index] = 0; });
}

template <class A>
__global__ void __launch_bounds__(kThreads) takeBack(ListView dropped, ListView sum, A* acc, uint64_t n, uint64_t* lost,
                                                     const Control* decision, const Finding* finding) {
  if (!entriesLeave(decision, finding)) return;
  uint32_t common = 0;
  forEachCommon<A>(dropped, sum, n, globalThread(), globalThreads(), [&](uint32_t index, uint64_t i, const A* values) {
    ++common;
    if (lost != nullptr) return;
    const A back = acc[index] + values[i];
    acc[index] = isFinite(back) ? back : A{0};  // never stored, also where a sum overflowed
  });
  if (lost != nullptr && common != 0) atomicAddWide(lost, common);
}

template <class A>
void settleAcc(const SettleArgs& args, DeviceContext& device, Stream stream) {
  auto* const acc = static_cast<A*>(args.acc);
  const uint64_t most = mostEntries(args.n, stream);
  const Finding* const finding = device.finding();
  withTables(args.sent, [&]<uint32_t kMost>(const Table<ListView, kMost>& sent, uint32_t, bool) {
    if (sent.count == 0) return;
    Grid grid = device.gridFor(most);
    grid.blocks = std::max<uint64_t>(1, grid.blocks / sent.count) * sent.count;
    device.launch<zeroSent<A, kMost>>("settle", args.n, grid, stream, sent, args.sum, acc, args.n, args.decision,
                                      finding);
  });
  // One after the other: they may share indices.
  for (const ListView& dropped : args.dropped)
    device.launch<takeBack<A>>("settle", args.n, device.gridFor(most), stream, dropped, args.sum, acc, args.n,
                               args.lost, args.decision, finding);
}

}  // namespace

void gather(const void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const List& to,
            DeviceContext& device, Stream stream) {
  withAccumulate(type, [&]<class A>(A) {
    device.launch<gatherValues<A>>("gather", n, device.gridFor(mostEntries(n, stream)), stream,
                                   static_cast<const A*>(acc), n, list, static_cast<A*>(to.values), to.count,
                                   device.finding());
  });
}

void sumValues(std::span<const void* const> from, sparsecollDataType_t type, const uint32_t* count, const List& to,
               DeviceContext& device, Stream stream) {
  const Grid grid = device.gridFor(mostEntries(kMostEntries, stream));
  const Finding* const finding = device.finding();
  withAccumulate(type, [&]<class A>(A) {
    auto* const sums = static_cast<A*>(to.values);
    withTables(from, [&]<uint32_t kMost>(const Table<const void*, kMost>& table, uint32_t first, bool) {
      device.launch<sumRanks<A, kMost>>("sumValues", from.size(), grid, stream, table, first != 0, count, sums,
                                        to.count, finding);
    });
  });
}

void settle(const SettleArgs& args, DeviceContext& device, Stream stream) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { settleAcc<A>(args, device, stream); });
}

void zeroAt(void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const Control* decision,
            DeviceContext& device, Stream stream) {
  withAccumulate(type, [&]<class A>(A) {
    const Finding* const finding = device.finding();
    device.launch<zeroListed<A>>("zeroAt", n, device.gridFor(mostEntries(n, stream)), stream, static_cast<A*>(acc), n,
                                 list, decision, finding);
  });
}

}  // namespace sparsecoll::cuda
