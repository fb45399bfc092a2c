#include "host/chunks.h"

#include <algorithm>
#include <cstring>

#include "core/list_span.h"

namespace sparsecoll::host {

void packChunks(const ListView& view, uint64_t chunk, std::byte* frame, const FrameLayout& layout,
                sparsecollDataType_t type) {
  withAccumulate(type, [&]<class A>(A) {
    const ListSpan<A> list = spanOf<A>(view);
    auto* const indices = reinterpret_cast<uint16_t*>(frame + kFrameHeaderBytes);
    for (uint32_t j = 0; j < list.count; ++j) indices[j] = static_cast<uint16_t>(list.indices[j] % chunk);
    std::copy_n(list.values, list.count, reinterpret_cast<A*>(frame + layout.valuesOffset(list.count)));
    std::memcpy(frame + offsetof(FrameHeader, count), &list.count, sizeof list.count);
  });
}

Status unpackChunks(const std::byte* frame, const FrameLayout& layout, uint64_t chunk, uint64_t perChunk,
                    sparsecollDataType_t type, const List& to) {
  const uint32_t count = readHeader(frame).count;
  if (count > to.capacity || (count != 0 && perChunk == 0))
    return fail(sparsecollCorrupted, "{} entries in chunks of {}", count, perChunk);
  const auto* const indices = reinterpret_cast<const uint16_t*>(frame + kFrameHeaderBytes);
  uint64_t base = 0;
  for (uint64_t j = 0; j < count; base += chunk)
    for (const uint64_t end = std::min<uint64_t>(j + perChunk, count); j < end; ++j)
      to.indices[j] = static_cast<uint32_t>(base + indices[j]);
  withAccumulate(type, [&]<class A>(A) {
    std::copy_n(reinterpret_cast<const A*>(frame + layout.valuesOffset(count)), count, static_cast<A*>(to.values));
  });
  *to.count = count;
  return {};
}

}  // namespace sparsecoll::host
