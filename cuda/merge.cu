#include "cuda/lists.h"
#include "cuda/range_walk.h"
#include "cuda/union.h"
#include "cuda/vector_access.h"

namespace sparsecoll::cuda {

namespace {

template <class A, class Index>
void mergeLists(const MergeArgs& args, const ListSpace& space, DeviceContext& device, Stream stream) {
  const Stretches at = locate<A, Index>(args.lists, {0, args.n}, {}, space, device, stream);
  UnionRule rule;
  rule.sum = {args.mode == Combine::kAssign, args.overContributors};
  rule.finish = args.finish;
  rule.poison = {args.control};
  UnionOut out;
  out.indices = args.outIndices;
  out.values = args.outValues;
  out.type = args.outType;
  out.capacity = args.outCapacity;
  out.wideCount = args.outCount;
  out.mayOverflow = true;
  unite<A, Index>("merge", at, rule, out, space, device, stream);
}

// All values of the range as a run, where the lists become one.
template <class A>
__global__ void __launch_bounds__(kThreads, kRangeBlocks<A>)
    fillRun(Stretches at, A* run, bool aligned, FrameHeader* header) {
  using Room = RangeSum<A, uint32_t>;
  SC_DYNAMIC_SHARED(Room, room);
  if (at.turn->sound == 0 || at.turn->dense == 0) return;
  if (globalThread() == 0) header->count = static_cast<uint32_t>(at.length);
  for (uint32_t stretch = blockIdx.x; stretch < at.count; stretch += gridDim.x) {
    const uint64_t end = at.end(stretch);
    for (uint64_t low = at.begin(stretch); low < end; low += kRange<A>) {
      sumRange(at, stretch, low, {}, *room);
      for (uint32_t offset = threadIdx.x * kLanesWide; offset < kRange<A>; offset += blockDim.x * kLanesWide) {
        Four<A> four;
#pragma unroll
        for (uint32_t q = 0; q < kLanesWide; ++q)
          four.at[q] = room->marks.isTouched(offset + q) ? room->sums[offset + q] : A{0};
        storeFour(run, low + offset, end, aligned, four);
      }
    }
  }
}

template <class A>
void streamLists(const StreamArgs& args, const ListSpace& space, DeviceContext& device, Stream stream) {
  auto* const header = reinterpret_cast<FrameHeader*>(args.frame);
  const RunRule runs{args.denseFrom, header};
  const Stretches at = locate<A, uint32_t>(args.lists, {args.first, args.length}, runs, space, device, stream);
  UnionOut out;
  out.indices = args.frame + kFrameHeaderBytes;
  out.type = args.accumulateType;
  out.capacity = args.layout.capacity;
  out.count = &header->count;
  unite<A, uint32_t>("stream", at, {}, out, space, device, stream);
  auto* const run = reinterpret_cast<A*>(args.frame + kFrameHeaderBytes);
  constexpr auto kernel = fillRun<A>;
  const Grid grid =
      withShared("stream", kernel, device.gridFor(at.count, 1), rangeSumBytes<A, uint32_t>(false), device);
  device.launch<kernel>("stream", args.length, grid, stream, at, run, inFours<A>(run), header);
}

}  // namespace

void merge(const MergeArgs& args, DeviceContext& device, Stream stream) {
  const ListSpace* const space = spaceFor("merge", args.lists.size(), device, stream);
  if (space == nullptr) return;
  withAccumulate(args.accumulateType, [&]<class A>(A) {
    if (args.indexBytes == 8)
      mergeLists<A, uint64_t>(args, *space, device, stream);
    else
      mergeLists<A, uint32_t>(args, *space, device, stream);
  });
}

void stream(const StreamArgs& args, DeviceContext& device, Stream stream) {
  const ListSpace* const space = spaceFor("stream", args.lists.size(), device, stream);
  if (space == nullptr) return;
  withAccumulate(args.accumulateType, [&]<class A>(A) { streamLists<A>(args, *space, device, stream); });
}

}  // namespace sparsecoll::cuda
