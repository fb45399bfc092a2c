#include "core/frame.h"

#include "core/control.h"

namespace sparsecoll {

namespace {

Status checkCounts(const FrameHeader& header, uint64_t bytes, const FrameLayout& layout) {
  if ((header.flags & kFrameDense) != 0) {
    if (layout.denseCount == 0 || header.count != layout.denseCount || header.nonFinite != 0)
      return fail(sparsecollCorrupted, "frame claims a run of {} values, expected {}", header.count, layout.denseCount);
  } else if (header.count > layout.capacity)
    return fail(sparsecollCorrupted, "frame claims {} entries, capacity {}", header.count, layout.capacity);
  if (header.nonFinite > kMaxNonFiniteIndices)
    return fail(sparsecollCorrupted, "frame claims {} non-finite indices", header.nonFinite);
  if (layout.usedBytes(header) > bytes)
    return fail(sparsecollCorrupted, "frame of {} bytes claims {} entries", bytes, header.count);
  return {};
}

}  // namespace

Result<FrameHeader> checkFrame(const std::byte* frame, uint64_t bytes, const FrameLayout& layout,
                               const FrameExpectation& expected, bool withPayload) {
  if (bytes < kFrameHeaderBytes) return fail(sparsecollCorrupted, "frame of {} bytes", bytes);
  const FrameHeader header = readHeader(frame);
  if (!withPayload && frameChecksum(frame, kFrameHeaderBytes, false) != header.checksum)
    return fail(sparsecollCorrupted, "frame header fails its checksum");
  // Another operation's frame has another layout, so what it is comes before what it holds.
  if (header.sequence != expected.sequence)
    return disagree(-1, "sequence", "the ranks are at different operations of the communicator");
  if (header.plan != expected.plan)
    return disagree(-1, "order", "the ranks called different operations, or one reducer with different densities");
  SC_TRY(checkCounts(header, bytes, layout));
  if (withPayload && frameChecksum(frame, layout.usedBytes(header), true) != header.checksum)
    return fail(sparsecollCorrupted, "frame fails its checksum");
  return header;
}

}  // namespace sparsecoll
