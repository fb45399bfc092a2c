// Everything that a device would answer with a hang or with nonsense is found and named.
#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

constexpr unsigned kAll = 0xffffffffu;

__global__ void mixedCollectives(int) {
  if (threadIdx.x % 2 == 0) {
    __ballot_sync(kAll, 1);
  } else {
    __shfl_sync(kAll, 1, 0);
  }
}
__global__ void mixedMasks(int) { __ballot_sync(threadIdx.x < 16 ? kAll : 0xffff0000u, 1); }
__global__ void foreignMask(int) { __ballot_sync(1u, 1); }
__global__ void mixedBarriers(int) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads_or(1);
  }
}
__global__ void barrierAgainstVote(int) {
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    __any_sync(kAll, 0);
  }
}
__global__ void waitsForEver(unsigned* flag) {
  while (__ldcg(flag) == 0) __nanosleep(100);
}
__global__ void absentLane(int) {
  if (threadIdx.x == 3) return;
  __shfl_sync(kAll, 1, 3);
}
__global__ void halfWarp(int) { __shfl_xor_sync(kAll, 1, 16); }
__global__ void overrun(int by) { static_cast<char*>(simtDynamicShared())[by] = 1; }
__global__ void traps(int) {
  if (threadIdx.x == 7) __trap();
  __syncthreads();
}
__global__ void oddWidth(int) { __shfl_sync(kAll, 1, 0, 3); }
__global__ void launches(int) {
  cudaLaunchConfig_t config{};
  cudaLaunchKernelEx(&config, traps, 0);
}
__global__ void fine(int* to) {
  const int count = __syncthreads_count(1);
  if (threadIdx.x == 0) *to = count;
}

// The launch itself is fine; whoever waits for it hears of it, until it is cleared.
void expect(Misuse misuse, const std::string& part) {
  const std::vector<Error> found = errors();
  REQUIRE(found.size() == 1);
  CHECK(found[0].misuse == misuse);
  CHECK_THAT(found[0].message, Catch::Contains(part));
  CHECK(cudaStreamSynchronize(nullptr) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(launch(mixedBarriers, 1, 1, 0, 0) == cudaErrorLaunchFailure);
  clearErrors();
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  const Device<int> to(1);
  REQUIRE(launch(fine, 1, 100, 0, to.operator int*()) == cudaSuccess);
  CHECK(to[0] == 100);
}

template <class T>
void fails(void (*kernel)(T), unsigned threads, size_t sharedBytes, T argument, Misuse misuse,
           const std::string& part) {
  underSchedules([&] {
    REQUIRE(launch(kernel, 2, threads, sharedBytes, argument) == cudaSuccess);
    expect(misuse, part);
  });
}

TEST_CASE("lanes at different collectives") {
  fails(mixedCollectives, 64, 0, 0, Misuse::mixedCollectives, "__shfl_sync at misuse_test.cpp:");
  fails(mixedMasks, 32, 0, 0, Misuse::mixedCollectives, "mask");
  fails(foreignMask, 32, 0, 0, Misuse::mixedCollectives, "without its own lane");
}
TEST_CASE("threads at different barriers") {
  fails(mixedBarriers, 64, 0, 0, Misuse::mixedBarriers, "__syncthreads_or at misuse_test.cpp:");
}
TEST_CASE("a deadlock names who waits where") {
  fails(barrierAgainstVote, 32, 0, 0, Misuse::deadlock, "1 threads wait at __syncthreads (misuse_test.cpp:");
}
TEST_CASE("a block that only polls is given up") {
  patience(50);
  const Device<unsigned> flag(std::vector<unsigned>(1));
  fails(waitsForEver, 40, 0, flag.operator unsigned*(), Misuse::deadlock, "polled for 50 ms");
  patience(60'000);
}
TEST_CASE("a shuffle from a lane that is not there") {
  fails(absentLane, 32, 0, 0, Misuse::absentLane, "__shfl_sync at misuse_test.cpp:");
  fails(halfWarp, 16, 0, 0, Misuse::absentLane, "__shfl_xor_sync");
}
TEST_CASE("dynamic shared memory beyond the launch's") {
  fails(overrun, 1, 100, 100, Misuse::sharedOverrun, "0 bytes behind the 100");
  fails(overrun, 1, 100, -1, Misuse::sharedOverrun, "1 bytes before");
  fails(overrun, 1, 0, 0, Misuse::sharedOverrun, "0 bytes behind the 0");
}
TEST_CASE("a trap ends the grid") { fails(traps, 64, 0, 0, Misuse::trap, "__trap at misuse_test.cpp:"); }
TEST_CASE("a width that is no power of two") { fails(oddWidth, 32, 0, 0, Misuse::badCall, "width of 3"); }
TEST_CASE("a launch from within a kernel") {
  REQUIRE(launch(launches, 1, 1, 0, 0) == cudaSuccess);
  expect(Misuse::badCall, "from within a kernel");
}
TEST_CASE("a barrier outside of a kernel") { CHECK_THROWS(__syncthreads()); }

}  // namespace
}  // namespace simt::test
