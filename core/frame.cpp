#include "core/frame.h"

namespace sparsecoll {

namespace {

Status statusOf(FrameFault fault, const FrameHeader& header, uint64_t bytes, const FrameLayout& layout) {
  switch (fault) {
    case FrameFault::kNone:
      return {};
    case FrameFault::kShort:
      return fail(sparsecollCorrupted, "frame of {} bytes", bytes);
    case FrameFault::kHeaderChecksum:
      return fail(sparsecollCorrupted, "frame header fails its checksum");
    case FrameFault::kSequence:
      return disagree(-1, "sequence", "the ranks are at different operations of the communicator");
    case FrameFault::kPlan:
      return disagree(-1, "order", "the ranks called different operations, or one reducer with different densities");
    case FrameFault::kRun:
      return fail(sparsecollCorrupted, "frame claims a run of {} values, expected {}", header.count, layout.denseCount);
    case FrameFault::kCapacity:
      return fail(sparsecollCorrupted, "frame claims {} entries, capacity {}", header.count, layout.capacity);
    case FrameFault::kNonFinite:
      return fail(sparsecollCorrupted, "frame claims {} non-finite indices", header.nonFinite);
    case FrameFault::kLength:
      return fail(sparsecollCorrupted, "frame of {} bytes claims {} entries", bytes, header.count);
    case FrameFault::kChecksum:
      break;
  }
  return fail(sparsecollCorrupted, "frame fails its checksum");
}

}  // namespace

Result<FrameHeader> checkFrame(const std::byte* frame, uint64_t bytes, const FrameLayout& layout,
                               const FrameExpectation& expected, bool withPayload) {
  if (bytes < kFrameHeaderBytes) return statusOf(FrameFault::kShort, {}, bytes, layout);
  const FrameHeader header = readHeader(frame);
  const bool headerSound = withPayload || frameChecksum(frame, kFrameHeaderBytes, false) == header.checksum;
  FrameFault fault = faultOf(header, bytes, layout, expected, headerSound);
  if (fault == FrameFault::kNone && withPayload &&
      frameChecksum(frame, layout.usedBytes(header), true) != header.checksum)
    fault = FrameFault::kChecksum;
  if (fault != FrameFault::kNone) return statusOf(fault, header, bytes, layout);
  return header;
}

}  // namespace sparsecoll
