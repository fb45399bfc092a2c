// The memory of tests that run on a real device (tests/cuda/reachable_memory.h).
#include "tests/cuda/reachable_memory.h"

#include <memory>

#include "tests/support/catch.h"

using namespace sparsecoll::test;

TEST_CASE("heap and stack of a test lie in memory that the device reaches") {
  int onStack = 0;
  CHECK(isReachable(&onStack));
  CHECK(isReachable(std::make_unique<int>().get()));
  CHECK(isReachable(std::make_unique<std::byte[]>(size_t{8} << 20).get()));
}

// More in all than there is.
TEST_CASE("memory that comes back is used again") {
  struct Size {
    size_t bytes, times;
  };
  for (const auto& [bytes, times] : {Size{100, 20000}, Size{100000, 20000}, Size{size_t{3} << 20, 1000}})
    for (size_t i = 0; i < times; ++i) {
      const std::unique_ptr<std::byte[]> taken(new std::byte[bytes]);
      REQUIRE(isReachable(taken.get()));
    }
}

TEST_CASE("alignments larger than the usual one") {
  for (const size_t alignment : {size_t{16}, size_t{64}, size_t{256}, size_t{4096}}) {
    void* const piece = takeReachable(100, alignment);
    CHECK(reinterpret_cast<uintptr_t>(piece) % alignment == 0);
    giveBackReachable(piece);
  }
}
