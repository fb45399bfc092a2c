#include "core/crc32c.h"

#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace sparsecoll {

namespace {

uint32_t byTable(std::span<const std::byte> bytes, uint32_t crc) {
  for (const std::byte b : bytes) crc = detail::kCrc32cTable[(crc ^ std::to_integer<uint32_t>(b)) & 0xffu] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
// The instruction computes this very polynomial.
__attribute__((target("sse4.2"))) uint32_t byInstruction(std::span<const std::byte> bytes, uint32_t crc) {
  uint64_t wide = crc;
  size_t at = 0;
  for (; at + sizeof wide <= bytes.size(); at += sizeof wide) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  return byTable(bytes.subspan(at), static_cast<uint32_t>(wide));
}
#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (instruction) return ~byInstruction(bytes, ~before);
#endif
  return ~byTable(bytes, ~before);
}

}  // namespace sparsecoll
