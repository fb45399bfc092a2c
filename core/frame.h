// Frames: what travels. Little-endian, fixed capacity, the real count in the header.
//
//   offset 0   sequence      u64   operation number on the communicator
//          8   plan          u64   hash of what the ranks agreed on
//         16   count         u32   entries
//         20   flags         u16   kFrame* bits; kFrameDense: values from 32 on, no indices, no tail
//         22   nonFinite     u16   indices in the tail, 0 to 16
//         24   threshold     u32   selector's side value: a float, or the upper half of a double
//         28   checksum      u32   CRC-32C of bytes 0 to 27, and of the payload where the engine asks for it
//         32   indices       u32 * count, if the layout has them
//         ...  values        from the next multiple of 16
//         ...  tail          u32 * 16 from the next multiple of 16, only if nonFinite > 0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/checked.h"
#include "core/control.h"
#include "core/crc32c.h"
#include "core/numeric.h"
#include "core/portable.h"
#include "core/status.h"

namespace sparsecoll {

inline constexpr uint64_t kFrameHeaderBytes = 32;
inline constexpr uint64_t kFrameChecksumOffset = 28;
inline constexpr uint64_t kFrameTailBytes = 64;
inline constexpr uint16_t kFrameNonFinite = 1;       // this rank met NaN or Inf
inline constexpr uint16_t kFrameDense = 2;           // no indices: the values are a run
inline constexpr uint16_t kFrameNonFiniteHeard = 4;  // some rank met NaN or Inf

struct FrameHeader {
  uint64_t sequence;
  uint64_t plan;
  uint32_t count;
  uint16_t flags;
  uint16_t nonFinite;
  uint32_t threshold;
  uint32_t checksum;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

struct FrameLayout {
  uint64_t capacity = 0;    // most entries
  uint32_t indexBytes = 0;  // 0, 4, or 8 past 2^32 elements
  uint32_t valueBytes = 0;  // 0, 2, 4 or 8
  uint64_t denseCount = 0;  // length of the run that may come instead of entries; 0: none may

  SC_BOTH uint64_t valuesOffset(uint64_t count) const { return alignUp(kFrameHeaderBytes + indexBytes * count, 16); }
  SC_BOTH uint64_t tailOffset(uint64_t count) const { return alignUp(valuesOffset(count) + valueBytes * count, 16); }
  uint64_t capacityBytes() const {
    return std::max(tailOffset(capacity), alignUp(kFrameHeaderBytes + valueBytes * denseCount, 16)) + kFrameTailBytes;
  }

  // What has to travel of a frame with this header.
  SC_BOTH uint64_t usedBytes(const FrameHeader& header) const {
    if ((header.flags & kFrameDense) != 0) return kFrameHeaderBytes + uint64_t{valueBytes} * header.count;
    if (header.nonFinite != 0) return tailOffset(header.count) + kFrameTailBytes;
    if (valueBytes != 0) return valuesOffset(header.count) + uint64_t{valueBytes} * header.count;
    return kFrameHeaderBytes + uint64_t{indexBytes} * header.count;
  }
};

SC_BOTH inline uint32_t packThreshold(double x, bool isDouble) {
  return isDouble ? static_cast<uint32_t>(std::bit_cast<uint64_t>(x) >> 32)
                  : std::bit_cast<uint32_t>(canonical(static_cast<float>(x)));
}
SC_BOTH inline double unpackThreshold(uint32_t bits, bool isDouble) {
  return isDouble ? std::bit_cast<double>(uint64_t{bits} << 32) : static_cast<double>(std::bit_cast<float>(bits));
}

inline FrameHeader readHeader(const std::byte* frame) {
  FrameHeader header;
  std::memcpy(&header, frame, sizeof header);
  return header;
}

inline uint32_t frameChecksum(const std::byte* frame, uint64_t bytes, bool withPayload) {
  const uint32_t head = crc32c({frame, kFrameChecksumOffset});
  return withPayload ? crc32c({frame + kFrameHeaderBytes, bytes - kFrameHeaderBytes}, head) : head;
}

// A frame that is nothing but its header.
inline void sealHeader(FrameHeader header, std::byte* frame) {
  header.checksum = frameChecksum(reinterpret_cast<const std::byte*>(&header), kFrameHeaderBytes, true);
  std::memcpy(frame, &header, sizeof header);
}

struct FrameExpectation {
  uint64_t sequence = 0;
  uint64_t plan = 0;
  // Not nullptr: where the sequence stands in the kernels' memory, for calls that are recorded and run many times.
  const uint64_t* sequenceAt = nullptr;

  SC_BOTH uint64_t sequenceNow() const { return sequenceAt != nullptr ? *sequenceAt : sequence; }
};

// What may be wrong with a frame.
enum class FrameFault {
  kNone,
  kShort,  // no room for a header
  kHeaderChecksum,
  kSequence,
  kPlan,
  kRun,       // not the run that is expected
  kCapacity,  // more entries than the layout has room for
  kNonFinite,
  kLength,  // more entries than bytes
  kChecksum,
};

// All but the payload's checksum. headerSound: the header's own checksum holds, or that of the whole frame is to come.
SC_BOTH inline FrameFault faultOf(const FrameHeader& header, uint64_t bytes, const FrameLayout& layout,
                                  const FrameExpectation& expected, bool headerSound) {
  if (!headerSound) return FrameFault::kHeaderChecksum;
  // Another operation's frame has another layout, so what it is comes before what it holds.
  if (header.sequence != expected.sequenceNow()) return FrameFault::kSequence;
  if (header.plan != expected.plan) return FrameFault::kPlan;
  if ((header.flags & kFrameDense) != 0) {
    if (layout.denseCount == 0 || header.count != layout.denseCount || header.nonFinite != 0) return FrameFault::kRun;
  } else if (header.count > layout.capacity) {
    return FrameFault::kCapacity;
  }
  if (header.nonFinite > kMaxNonFiniteIndices) return FrameFault::kNonFinite;
  return layout.usedBytes(header) > bytes ? FrameFault::kLength : FrameFault::kNone;
}

// Checks a received frame of `bytes` bytes before anything in it is used.
Result<FrameHeader> checkFrame(const std::byte* frame, uint64_t bytes, const FrameLayout& layout,
                               const FrameExpectation& expected, bool withPayload);

}  // namespace sparsecoll
