// A state as bytes: what Export writes ends with a CRC-32C of all before it.
#pragma once

#include <cstring>
#include <span>

#include "core/crc32c.h"
#include "core/status.h"

namespace sparsecoll {

inline constexpr uint64_t kBlobSumBytes = sizeof(uint32_t);

// What stands before the checksum. Errors: Corrupted.
inline Result<std::span<const std::byte>> bodyOf(std::span<const std::byte> blob) {
  if (blob.size() < kBlobSumBytes) return fail(sparsecollCorrupted, "state of {} bytes", blob.size());
  const auto body = blob.first(blob.size() - kBlobSumBytes);
  uint32_t stored = 0;
  std::memcpy(&stored, blob.data() + body.size(), sizeof stored);
  if (crc32c(body) != stored) return fail(sparsecollCorrupted, "the state fails its checksum");
  return body;
}

// Errors: Capacity (room for fewer bytes than the state has).
inline Status fitsBlob(uint64_t need, uint64_t room) {
  return room < need ? fail(sparsecollCapacity, "the state has {} bytes, the buffer {}", need, room) : Status();
}

// Puts the checksum behind the body.
inline void seal(std::byte* blob, std::byte* end) {
  const uint32_t sum = crc32c({blob, end});
  std::memcpy(end, &sum, sizeof sum);
}

}  // namespace sparsecoll
