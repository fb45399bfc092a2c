#include "host/chunks.h"

#include <algorithm>
#include <cstring>

#include "core/list_span.h"
#include "core/random.h"
#include "host/prefetch.h"

namespace sparsecoll::host {

void draw(const CutArgs& args) {
  Control& control = *args.control;
  const uint64_t k = std::min(control.k, control.n);
  const uint64_t seed = mixBits(control.seed + control.iteration);
  withAccumulate(args.accumulateType, [&]<class A>(A) {
    const ListSlots<A> to = slotsOf<A>(args.target, k);
    const auto* const acc = static_cast<const A*>(args.acc);
    // j * n / k, from one j to the next: a division each would cost more than the rest.
    const uint64_t least = k != 0 ? control.n / k : 0;
    const uint64_t more = k != 0 ? control.n % k : 0;
    uint64_t low = 0;
    uint64_t remainder = 0;
    for (uint64_t j = 0; j < k; ++j) {
      remainder += more;
      const uint64_t carry = remainder >= k ? 1 : 0;
      remainder -= k * carry;
      const uint64_t length = least + carry;
      to.indices[j] = static_cast<uint32_t>(low + ((mixBits(seed + j) >> 32) * length >> 32));
      low += length;
    }
    for (uint64_t j = 0; to.values != nullptr && j < k; ++j) {
      askFor(acc + to.indices[std::min(j + kAhead, k - 1)]);
      to.values[j] = acc[to.indices[j]];
    }
  });
  control.selected = static_cast<uint32_t>(k);
  *args.target.count = control.selected;
}

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
