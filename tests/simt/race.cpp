// Threads hand values on through memory, with what orders it or, planted, without. Results are right both times: those
// of one block since round robin happens to run the writers first, those of several since a fence also ends a write
// where this runs. Only the race checker can tell.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "tests/simt/simt.h"

#include "cuda/block.h"

namespace {

constexpr unsigned kBlocks = 4, kThreads = 64, kLanes = 32;

enum class Fault { none, barrier, fenceBeforeWrite, fenceTooEarly, fenceTooNarrow, fenceAfterRead };

__global__ void handOn(int* to, Fault fault) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (fault != Fault::barrier) {
    __syncthreads();
  } else {
    __ballot_sync(0xffffffffu, 1);  // a vote orders no memory
  }
  to[threadIdx.x] = values[threadIdx.x ^ 1];
}

// The other half of the promise: __syncwarp and fences around a flag are enough.
__global__ void correct(int* to) {
  __shared__ int values[kThreads];
  __shared__ unsigned flag;
  if (threadIdx.x == 0) flag = 0;
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  to[threadIdx.x] = values[threadIdx.x ^ 1];
  __syncthreads();
  if (threadIdx.x == 0) {
    values[0] = 100;
    __threadfence();
    atomicExch(&flag, 1u);
  }
  if (threadIdx.x == 40) {
    while (atomicAdd(&flag, 0u) == 0) __nanosleep(20);
    __threadfence();
    to[40] = values[0];
  }
}

// Every block waits for the one before it, in a ring: all of them have to run at once. One lane fences for its warp.
__global__ void handRound(int* values, unsigned* flags, int* to, Fault fault) {
  const unsigned before = (blockIdx.x + gridDim.x - 1) % gridDim.x;
  if (fault == Fault::fenceTooEarly) __threadfence();
  values[blockIdx.x * kLanes + threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  if (threadIdx.x == 0) {
    if (fault == Fault::none || fault == Fault::fenceAfterRead) __threadfence();
    if (fault == Fault::fenceTooNarrow) __threadfence_block();
    atomicExch(&flags[blockIdx.x], 1u);
    while (__ldcg(&flags[before]) == 0) __nanosleep(20);
    if (fault != Fault::fenceAfterRead) __threadfence();
  }
  __syncwarp();
  to[blockIdx.x * kLanes + threadIdx.x] = values[before * kLanes + threadIdx.x];
}

// The way of the library's kernels. All threads fence, one counts.
__global__ void addUp(int* values, uint32_t* done, int* to) {
  values[sparsecoll::cuda::globalThread()] = 1;
  if (!sparsecoll::cuda::lastOf(*done, gridDim.x)) return;
  int sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += values[i * blockDim.x + (threadIdx.x ^ 1)];
  to[threadIdx.x] = sum;
}

template <class T>
T* zeros(size_t count) {
  T* all = nullptr;
  cudaMalloc(&all, count * sizeof *all);
  std::fill_n(all, count, T{});
  return all;
}

cudaLaunchConfig_t sizeOf(unsigned blocks, unsigned threads) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  return config;
}

bool oneBlock(Fault fault) {
  int* const to = zeros<int>(kThreads);
  const cudaLaunchConfig_t config = sizeOf(1, kThreads);
  cudaLaunchKernelEx(&config, handOn, to, fault);
  bool right = true;
  for (unsigned i = 0; i < kThreads; ++i) right = right && to[i] == static_cast<int>(i ^ 1);
  cudaLaunchKernelEx(&config, correct, to);
  right = right && to[40] == 100;
  cudaFree(to);
  return right;
}

bool ring(Fault fault) {
  int* const values = zeros<int>(kBlocks * kLanes);
  int* const to = zeros<int>(kBlocks * kLanes);
  unsigned* const flags = zeros<unsigned>(kBlocks);
  const cudaLaunchConfig_t config = sizeOf(kBlocks, kLanes);
  cudaLaunchKernelEx(&config, handRound, values, flags, to, fault);
  bool right = true;
  for (unsigned i = 0; i < kBlocks * kLanes; ++i) right = right && to[i] == static_cast<int>(i % kLanes);
  for (void* all : {static_cast<void*>(values), static_cast<void*>(to), static_cast<void*>(flags)}) cudaFree(all);
  return right;
}

bool lastBlock(Fault fault) {
  int* const values = zeros<int>(kBlocks * kThreads);
  int* const to = zeros<int>(kThreads);
  uint32_t* const done = zeros<uint32_t>(1);
  const cudaLaunchConfig_t config = sizeOf(kBlocks, kThreads);
  simt::blocksAtOnce(1);
  simt::watchFences();
  cudaLaunchKernelEx(&config, addUp, values, done, to);
  std::vector<simt::BarrierPlace> places = simt::fencesMet();
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  bool right = places.size() == 2;
  if (fault != Fault::none && right) simt::leaveOutFence(places[fault == Fault::fenceBeforeWrite ? 0 : 1]);
  simt::blocksAtOnce(kBlocks);
  cudaLaunchKernelEx(&config, addUp, values, done, to);
  right = right && *done == 0 && std::count(to, to + kThreads, static_cast<int>(kBlocks)) == kThreads;
  for (void* all : {static_cast<void*>(values), static_cast<void*>(to), static_cast<void*>(done)}) cudaFree(all);
  return right;
}

struct Case {
  std::string_view name;
  bool (*run)(Fault fault);
  Fault fault;
};
constexpr Case kCases[] = {
    {"none", oneBlock, Fault::none},
    {"planted", oneBlock, Fault::barrier},
    {"ring", ring, Fault::none},
    {"ring-planted-write", ring, Fault::fenceBeforeWrite},
    {"ring-planted-early", ring, Fault::fenceTooEarly},
    {"ring-planted-narrow", ring, Fault::fenceTooNarrow},
    {"ring-planted-read", ring, Fault::fenceAfterRead},
    {"last", lastBlock, Fault::none},
    {"last-planted-write", lastBlock, Fault::fenceBeforeWrite},
    {"last-planted-read", lastBlock, Fault::fenceAfterRead},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const Case* const found =
      std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& c) { return c.name == name; });
  if (found == std::end(kCases)) return 2;
#if !defined(__SANITIZE_THREAD__)
  if (found->fault != Fault::none) {
    std::puts("skipped: only a build with ThreadSanitizer sees the planted race");
    return 77;
  }
#endif
  simt::blocksAtOnce(kBlocks);
  const bool right = found->run(found->fault);
  for (const simt::Error& error : simt::errors()) std::puts(error.message.c_str());
  return right && simt::errors().empty() ? 0 : 1;
}
