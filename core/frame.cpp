#include "core/frame.h"

#include "core/control.h"

namespace sparsecoll {

namespace {

Status mismatch(const char* field, const char* text) { return Status(Failure{sparsecollMismatch, -1, field, text}); }

}  // namespace

Result<FrameHeader> checkFrame(const std::byte* frame, uint64_t bytes, const FrameLayout& layout,
                               const FrameExpectation& expected, bool withPayload) {
  if (bytes < kFrameHeaderBytes) return fail(sparsecollCorrupted, "frame of {} bytes", bytes);
  const FrameHeader header = readHeader(frame);
  if (frameChecksum(frame, kFrameHeaderBytes, false) != header.checksum && !withPayload)
    return fail(sparsecollCorrupted, "frame header fails its checksum");
  if (header.sequence != expected.sequence)
    return mismatch("sequence", "the ranks are at different operations of the communicator");
  if (header.plan != expected.plan)
    return mismatch("order", "the ranks called different operations, or one reducer with different densities");
  if (header.count > layout.capacity)
    return fail(sparsecollCorrupted, "frame claims {} entries, capacity {}", header.count, layout.capacity);
  if (header.nonFinite > kMaxNonFiniteIndices)
    return fail(sparsecollCorrupted, "frame claims {} non-finite indices", header.nonFinite);
  if (layout.usedBytes(header) > bytes)
    return fail(sparsecollCorrupted, "frame of {} bytes claims {} entries", bytes, header.count);
  if (withPayload && frameChecksum(frame, layout.usedBytes(header), true) != header.checksum)
    return fail(sparsecollCorrupted, "frame fails its checksum");
  return header;
}

}  // namespace sparsecoll
