// Whole kernels, compiled from a .cu file, under many schedules.
#include "tests/simt/kernels.h"
#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

// Other ones every time: shared memory still holds what the block before left.
std::vector<uint32_t> numbers(size_t count) {
  static size_t made = 0;
  const size_t factor = 2654435761u + 2 * ++made;
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint32_t>(i * factor >> 20 & 0xfff);
  return values;
}

bool scansRight(bool barrier, unsigned count) {
  const std::vector<uint32_t> values = numbers(count);
  const Device<uint32_t> from(values), to(count);
  REQUIRE(launchScan(from, to, count, barrier) == cudaSuccess);
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (to[i] != sum) return false;
    sum += values[i];
  }
  return true;
}

TEST_CASE("a prefix sum over a block is right under every schedule") {
  underSchedules([] {
    for (const unsigned count : {1u, 31u, 1000u, 1024u}) REQUIRE(scansRight(true, count));
  });
}

TEST_CASE("a missing barrier shows under some schedule") {
#if defined(__SANITIZE_THREAD__)
  WARN("skipped: the race checker would end the program");
#else
  unsigned wrong = 0;
  underSchedules([&] { wrong += !scansRight(false, 1024); });
  CHECK(wrong > 0);
#endif
}

TEST_CASE("a histogram counts every entry once under every schedule") {
  constexpr unsigned count = 10'000;
  std::vector<uint8_t> values(count);
  std::vector<uint32_t> expected(256);
  for (unsigned i = 0; i < count; ++i) ++expected[values[i] = static_cast<uint8_t>(i * i >> 5)];
  underSchedules([&] {
    const Device<uint8_t> from(values);
    const Device<uint32_t> bins(std::vector<uint32_t>(256));
    REQUIRE(launchHistogram(from, bins, count, 5) == cudaSuccess);
    REQUIRE(bins.values() == expected);
  });
  REQUIRE(errors().empty());
}

}  // namespace
}  // namespace simt::test
