// CRC-32C by the lanes of a warp: the division of 32 bits at once is linear, so each lane answers for one of them.
#pragma once

#include "core/frame.h"
#include "cuda/device.h"

namespace sparsecoll::cuda {

class WarpChecksum {
 public:
  __device__ explicit WarpChecksum(uint32_t before = 0) : crc_(~before), column_(1u << laneIndex()) {
    for (int bit = 0; bit < 32; ++bit) column_ = crc32cStep(column_);
  }

  // Every lane with the same word.
  __device__ void add(uint32_t word) {
    crc_ = __reduce_xor_sync(kAllLanes, ((crc_ ^ word) >> laneIndex() & 1u) != 0 ? column_ : 0u);
  }
  __device__ void addByte(uint32_t byte) {
    crc_ ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc_ = crc32cStep(crc_);
  }
  __device__ uint32_t value() const { return ~crc_; }

 private:
  uint32_t crc_;
  uint32_t column_;  // what becomes of this lane's bit
};

// A header is read and written by words.
inline constexpr uint32_t kHeaderWords = kFrameHeaderBytes / sizeof(uint32_t);
inline constexpr uint32_t kChecksumWord = kFrameChecksumOffset / sizeof(uint32_t);

union HeaderWords {
  FrameHeader header;
  uint4 quarters[kFrameHeaderBytes / sizeof(uint4)];
  uint32_t words[kHeaderWords];
};

__device__ inline uint32_t headerChecksum(const HeaderWords& header) {
  WarpChecksum checksum;
#pragma unroll
  for (uint32_t w = 0; w < kChecksumWord; ++w) checksum.add(header.words[w]);
  return checksum.value();
}

// Of `bytes` bytes behind a header, by one warp, word by word: for engines that leave the process, which are not about
// speed of this kind.
__device__ inline uint32_t payloadChecksum(const std::byte* payload, uint64_t bytes, uint32_t before) {
  WarpChecksum checksum(before);
  const auto* const words = reinterpret_cast<const uint32_t*>(payload);
  const uint64_t whole = bytes / sizeof(uint32_t);
  for (uint64_t w = 0; w < whole; ++w) checksum.add(words[w]);
  for (uint64_t b = whole * sizeof(uint32_t); b < bytes; ++b) checksum.addByte(static_cast<uint32_t>(payload[b]));
  return checksum.value();
}

}  // namespace sparsecoll::cuda
