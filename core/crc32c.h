// CRC-32C (Castagnoli), the checksum of frames and blobs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/portable.h"

namespace sparsecoll {

// One step of the division, which takes the lowest bit.
SC_BOTH constexpr uint32_t crc32cStep(uint32_t crc) { return (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u); }

namespace detail {
constexpr std::array<uint32_t, 256> crc32cTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc32cStep(crc);
    table[i] = crc;
  }
  return table;
}
inline constexpr auto kCrc32cTable = crc32cTable();
}  // namespace detail

// Checksum of bytes, continuing from the checksum of what came before.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace sparsecoll
