// The memory of tests that run on a real device (tests/cuda/reachable_memory.h).
#include "tests/cuda/reachable_memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "core/kernels.h"
#include "cuda/cuda_kernels.h"
#include "tests/device/checks.h"
#include "tests/simt/simt.h"
#include "tests/unit/data.h"

using namespace sparsecoll;
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
  for (const auto& [bytes, times] : {Size{100, 20000}, Size{100000, 20000}, Size{size_t{3} << 20, 1000},
                                     Size{size_t{8} << 20, 1000}, Size{size_t{600} << 20, 5}})
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

// Pieces of all sizes, a random one of which comes back where there is no room for the next.
TEST_CASE("pieces never overlap, and what is free comes together again") {
  struct Piece {
    std::byte* at;
    size_t bytes;
    std::byte mark;
  };
  Random random(1);
  std::vector<Piece> pieces;
  const auto giveBack = [&](size_t i) {
    const Piece piece = pieces[i];
    pieces[i] = pieces.back();
    pieces.pop_back();
    CHECK(std::all_of(piece.at, piece.at + piece.bytes, [&](std::byte b) { return b == piece.mark; }));
    giveBackReachable(piece.at);
  };
  for (uint64_t turn = 0; turn < 2000; ++turn) {
    const size_t bytes = below(random, size_t{1} << (4 + below(random, 23))) + 1;
    const size_t alignment = size_t{16} << below(random, 9);
    auto* at = static_cast<std::byte*>(takeReachable(bytes, alignment));
    for (; at == nullptr; at = static_cast<std::byte*>(takeReachable(bytes, alignment))) {
      REQUIRE(!pieces.empty());
      giveBack(below(random, pieces.size()));
    }
    REQUIRE(reinterpret_cast<uintptr_t>(at) % alignment == 0);
    pieces.push_back({at, bytes, static_cast<std::byte>(turn)});
    std::memset(at, static_cast<int>(turn & 0xff), bytes);
    if (below(random, 3) == 0) giveBack(below(random, pieces.size()));
  }
  while (!pieces.empty()) giveBack(below(random, pieces.size()));
  void* const most = takeReachable(size_t{800} << 20, 4096);
  CHECK(most != nullptr);
  CHECK(takeReachable(size_t{800} << 20, 16) == nullptr);
  if (most != nullptr) giveBackReachable(most);
}

TEST_CASE("threads take and give back at the same time") {
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      Random random(t);
      for (int turn = 0; turn < 2000; ++turn) {
        const std::unique_ptr<std::byte[]> piece(new std::byte[below(random, 1 << 20) + 1]);
        piece[0] = std::byte{1};
      }
    });
}

// Of all launches of this program.
const bool isLookedAt = (simt::lookAtArguments(unreachableIn), true);

// A launch with a vector that the device does not reach is named and refused, and the next one works.
class Naming {
 public:
  Naming() {
    auto kernels = cuda::makeCudaKernels(0);
    REQUIRE(kernels.ok());
    kernels_ = std::move(*kernels);
  }

  // What is said about a vector.
  std::string said(float* x) {
    const auto control = std::make_unique<Control>();
    control->anyNonFinite = 1;
    kernels_->clearNonFinite(x, sparsecollFloat32, 1, control.get(), {});
    std::string text;
    for (const simt::Error& error : simt::errors()) text += error.message;
    simt::clearErrors();
    (void)kernels_->findings({}, Deadline::in(60000));
    return text;
  }

 private:
  std::shared_ptr<Kernels> kernels_;
};

TEST_CASE("a vector that the device does not reach is named before anything is launched") {
  static float ofProgram = HUGE_VALF;
  Naming device;
  REQUIRE(isLookedAt);
  CHECK_THAT(device.said(&ofProgram), Catch::Contains("static data of") && Catch::Contains("argument 0, byte 0"));
  CHECK(ofProgram == HUGE_VALF);
  std::jthread([&] {
    float onStack = HUGE_VALF;
    CHECK_THAT(device.said(&onStack), Catch::Contains("stack"));
    CHECK(onStack == HUGE_VALF);
  }).join();
  const auto onHeap = std::make_unique<float>(HUGE_VALF);
  CHECK(device.said(onHeap.get()) == "");
  CHECK(*onHeap == 0);
}

TEST_CASE("numbers are not taken for pointers") {
  Random random(3);
  std::vector<uint64_t> numbers = {0, 1, ~uint64_t{0}, 0x3f8000003f800000, 0x0000000100000001, 0x00007fff};
  for (int i = 0; i < 1000; ++i) numbers.push_back(random());
  const std::span<const std::byte> argument = std::as_bytes(std::span(numbers));
  CHECK(unreachableIn({&argument, 1}) == "");
}
