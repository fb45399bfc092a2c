// Barriers, exits, shared memory, atomics and the order of blocks.
#include <set>
#include <thread>

#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

__global__ void indices(uint32_t* to) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  to[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

TEST_CASE("indices have three dimensions") {
  underSchedules([] {
    const Device<uint32_t> to(3 * 2 * 2 * 5 * 4 * 2);
    REQUIRE(launch(indices, dim3(3, 2, 2), dim3(5, 4, 2), 0, to.operator uint32_t*()) == cudaSuccess);
    for (uint32_t i = 0; i < 480; ++i) REQUIRE(to[i] == i / 40 * 1000 + i % 40);
  });
}

__global__ void votes(int* to) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= 70) return;
  to[4 * i] = __syncthreads_or(i == 69);
  to[4 * i + 1] = __syncthreads_and(i < 69);
  to[4 * i + 2] = __syncthreads_count(i % 2);
  to[4 * i + 3] = __syncthreads_and(1);
}

TEST_CASE("barriers count the threads that are left") {
  underSchedules([] {
    const Device<int> to(4 * 70);
    REQUIRE(launch(votes, 1, 100, 0, to.operator int*()) == cudaSuccess);
    for (size_t i = 0; i < 70; ++i) {
      REQUIRE(to[4 * i] == 1);
      REQUIRE(to[4 * i + 1] == 0);
      REQUIRE(to[4 * i + 2] == 35);
      REQUIRE(to[4 * i + 3] == 1);
    }
    REQUIRE(errors().empty());
  });
}

__global__ void leaving(unsigned* to) {
  // In round i the lanes below i have gone; the last one votes alone.
  for (unsigned i = 0; i < threadIdx.x % 32 + 1; ++i) to[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
  if (threadIdx.x % 32 == 31) __syncthreads();
}

TEST_CASE("a lane that has left takes no part") {
  underSchedules([] {
    const Device<unsigned> to(64);
    REQUIRE(launch(leaving, 1, 64, 0, to.operator unsigned*()) == cudaSuccess);
    for (unsigned i = 0; i < 64; ++i) REQUIRE(to[i] == ~0u << i % 32);
    REQUIRE(errors().empty());
  });
}

__global__ void reverse(uint64_t* values, unsigned* garbage) {
  auto* shared = static_cast<uint64_t*>(simtDynamicShared());
  if (shared[threadIdx.x] == 0 || reinterpret_cast<uintptr_t>(shared) % 16 != 0) atomicAdd(garbage, 1u);
  shared[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  shared[threadIdx.x] = 0;
}

TEST_CASE("dynamic shared memory is garbage at first, in every block") {
  underSchedules([] {
    const Device<uint64_t> values(3 * 96);
    const Device<unsigned> odd(std::vector<unsigned>(1));
    for (size_t i = 0; i < 288; ++i) values[i] = i;
    REQUIRE(launch(reverse, 3, 96, 96 * 8, values.operator uint64_t*(), odd.operator unsigned*()) == cudaSuccess);
    for (size_t i = 0; i < 288; ++i) REQUIRE(values[i] == i / 96 * 96 + 95 - i % 96);
    REQUIRE(odd[0] == 0);
    REQUIRE(errors().empty());
  });
}

__global__ void tickets(unsigned* counter, unsigned* order) { order[atomicAdd(counter, 1u)] = blockIdx.x; }

TEST_CASE("blocks run in order, or in a random one that the seed decides") {
  std::set<std::vector<unsigned>> seen;
  for (const uint64_t seed : {0, 1, 2}) {
    scheduleThisThread(seed);
    const Device<unsigned> counter(std::vector<unsigned>(1)), order(50);
    REQUIRE(launch(tickets, 50, 1, 0, counter.operator unsigned*(), order.operator unsigned*()) == cudaSuccess);
    if (seed == 0) REQUIRE(std::is_sorted(order + 0, order + 50));
    scheduleThisThread(seed);
    counter[0] = 0;
    const std::vector<unsigned> first = order.values();
    REQUIRE(launch(tickets, 50, 1, 0, counter.operator unsigned*(), order.operator unsigned*()) == cudaSuccess);
    REQUIRE(order.values() == first);
    seen.insert(first);
  }
  scheduleThisThreadLikeAll();
  REQUIRE(seen.size() == 3);
}

__global__ void addAll(unsigned* sum, unsigned long long* wide) {
  atomicAdd(sum, threadIdx.x);
  atomicAdd(wide, 1ull << 33);
}

TEST_CASE("OS threads that launch at the same time share buffers") {
  const Device<unsigned> sum(std::vector<unsigned>(1));
  const Device<unsigned long long> wide(std::vector<unsigned long long>(1));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { launch(addAll, 20, 64, 0, sum.operator unsigned*(), wide.operator unsigned long long*()); });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(sum[0] == 4 * 20 * (63 * 64 / 2));
  REQUIRE(wide[0] == (4ull * 20 * 64) << 33);
}

__global__ void spin(unsigned* flag) {
  if (threadIdx.x == 0) {
    while (atomicCAS(flag, 1u, 2u) != 1u) {
    }
  } else if (threadIdx.x == 1) {
    atomicExch(flag, 1u);
  }
}

TEST_CASE("a thread that polls lets the others run") {
  underSchedules([] {
    const Device<unsigned> flag(std::vector<unsigned>(1));
    REQUIRE(launch(spin, 1, 2, 0, flag.operator unsigned*()) == cudaSuccess);
    REQUIRE(flag[0] == 2);
  });
}

// Every block waits for all others.
__global__ void meetAll(unsigned* arrived, unsigned* to) {
  __shared__ unsigned kept;
  auto* const dynamic = static_cast<unsigned*>(simtDynamicShared());
  if (threadIdx.x == 0) {
    kept = *dynamic = blockIdx.x + 1;
    atomicAdd(arrived, 1u);
    while (__ldcg(arrived) % gridDim.x != 0) __nanosleep(100);
  }
  __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = kept * 100 + *dynamic;
}

TEST_CASE("blocks at once wait for each other and have shared memory of their own") {
  constexpr unsigned kBlocks = 3, kThreads = 40;
  blocksAtOnce(kBlocks);
  underSchedules([] {
    const Device<unsigned> arrived(std::vector<unsigned>(1)), to(kBlocks * kThreads);
    REQUIRE(launch(meetAll, kBlocks, kThreads, 4, arrived.operator unsigned*(), to.operator unsigned*()) ==
            cudaSuccess);
    for (unsigned i = 0; i < kBlocks * kThreads; ++i) REQUIRE(to[i] == (i / kThreads + 1) * 101);
    REQUIRE(errors().empty());
  });
  blocksAtOnce(1);
}

__global__ void visit(unsigned* times) { atomicAdd(&times[blockIdx.x], 1u); }

TEST_CASE("of more blocks than may run at once every one runs once") {
  constexpr unsigned kBlocks = 50, kThreads = 33;
  blocksAtOnce(4);
  underSchedules([&] {
    const Work before = work();
    const Device<unsigned> times{std::vector<unsigned>(kBlocks)};
    REQUIRE(launch(visit, kBlocks, kThreads, 0, times.operator unsigned*()) == cudaSuccess);
    REQUIRE(times.values() == std::vector<unsigned>(kBlocks, kThreads));
    REQUIRE(work().kernels == before.kernels + 1);
    REQUIRE(work().blocks == before.blocks + kBlocks);
  });
  blocksAtOnce(1);
}

__global__ void trapOne(unsigned which, unsigned* times) {
  if (blockIdx.x == which) __trap();
  atomicAdd(&times[blockIdx.x], 1u);
}

TEST_CASE("what one of the blocks at once does wrong ends the grid") {
  constexpr unsigned kBlocks = 6;
  blocksAtOnce(2);
  for (unsigned which = 0; which < kBlocks; ++which) {
    const Device<unsigned> times{std::vector<unsigned>(kBlocks)};
    launch(trapOne, kBlocks, 64, 0, which, times.operator unsigned*());
    REQUIRE(errors().size() == 1);
    REQUIRE(errors()[0].misuse == Misuse::trap);
    for (unsigned i = which; i < kBlocks; i += 2) REQUIRE(times[i] == 0);  // the same OS thread's
    clearErrors();
    REQUIRE(launch(visit, kBlocks, 64, 0, times.operator unsigned*()) == cudaSuccess);
  }
  blocksAtOnce(1);
}

}  // namespace
}  // namespace simt::test
