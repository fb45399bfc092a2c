// Lists whose indices travel as 16 bits inside their chunk.
#include "core/list_span.h"
#include "cuda/frames.h"

namespace sparsecoll::cuda {

namespace {

template <class A>
__global__ void __launch_bounds__(kThreads)
    packList(ListView view, uint64_t chunk, std::byte* frame, FrameLayout layout, Finding* finding) {
  if (!sound(finding)) return;
  const ListSpan<A> list = spanOf<A>(view);
  if (list.count > layout.capacity) {
    if (globalThread() == 0) report(finding, sparsecollCorrupted, -1, Found::kCount, list.count, layout.capacity);
    return;
  }
  auto* const indices = reinterpret_cast<uint16_t*>(frame + kFrameHeaderBytes);
  auto* const values = reinterpret_cast<A*>(frame + layout.valuesOffset(list.count));
  for (uint64_t j = globalThread(); j < list.count; j += globalThreads()) {
    indices[j] = static_cast<uint16_t>(list.indices[j] % chunk);
    values[j] = list.values[j];
  }
  if (globalThread() == 0) *reinterpret_cast<uint32_t*>(frame + offsetof(FrameHeader, count)) = list.count;
}

template <class A>
__global__ void __launch_bounds__(kThreads) unpackList(const std::byte* frame, FrameLayout layout, uint64_t chunk,
                                                       const uint64_t* perChunkAt, List to, Finding* finding) {
  if (!sound(finding)) return;
  const uint32_t count = *reinterpret_cast<const uint32_t*>(frame + offsetof(FrameHeader, count));
  const uint64_t perChunk = *perChunkAt;
  if (count > to.capacity || (count != 0 && perChunk == 0)) {
    if (globalThread() == 0) report(finding, sparsecollCorrupted, -1, Found::kCount, count, to.capacity);
    return;
  }
  const auto* const indices = reinterpret_cast<const uint16_t*>(frame + kFrameHeaderBytes);
  const auto* const from = reinterpret_cast<const A*>(frame + layout.valuesOffset(count));
  auto* const values = static_cast<A*>(to.values);
  for (uint64_t j = globalThread(); j < count; j += globalThreads()) {
    to.indices[j] = static_cast<uint32_t>(j / perChunk * chunk + indices[j]);
    values[j] = from[j];
  }
  if (globalThread() == 0) *to.count = count;
}

}  // namespace

void packChunks(const ListView& list, uint64_t chunk, std::byte* frame, const FrameLayout& layout,
                sparsecollDataType_t type, DeviceContext& device, Stream stream) {
  withAccumulate(type, [&]<class A>(A) {
    device.launch<packList<A>>("packChunks", layout.capacity, device.gridFor(layout.capacity), stream, list, chunk,
                               frame, layout, device.finding());
  });
}

void unpackChunks(const std::byte* frame, const FrameLayout& layout, uint64_t chunk, const uint64_t* perChunk,
                  sparsecollDataType_t type, const List& to, DeviceContext& device, Stream stream) {
  withAccumulate(type, [&]<class A>(A) {
    device.launch<unpackList<A>>("unpackChunks", to.capacity, device.gridFor(to.capacity), stream, frame, layout, chunk,
                                 perChunk, to, device.finding());
  });
}

}  // namespace sparsecoll::cuda
