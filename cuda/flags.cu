#include "cuda/flags.h"

#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kPasses = 2;

// The kernels before have ended, and what they wrote is to be seen by other devices before the flags are. All flags may
// be let pass at any moment, also between the look and the writes here. So this looks again behind its writes, and
// letThrough says what it is about to do before it does it: the fences make one of the two see the other.
template <uint32_t kMost>
__global__ void __launch_bounds__(kThreads) writeFlags(Table<uint32_t*, kMost> flags, uint32_t value,
                                                       const uint32_t* passing, Table<uint64_t*, kFewItems> counts) {
  if (threadIdx.x < counts.count) ++*counts.items[threadIdx.x];
  __threadfence_system();
  if (seeWord(passing) != 0) value = kPasses;
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x) setWord(flags.items[f], value);
  __threadfence_system();
  if (value == kPasses || seeWord(passing) == 0) return;
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x) setWord(flags.items[f], kPasses);
}

// First that nothing may take effect any more, then what tells writers, then the flags. One block.
__global__ void __launch_bounds__(kThreads)
    letThrough(uint32_t* flags, uint64_t count, uint32_t* passing, Finding* finding, Finding why) {
  if (threadIdx.x == 0 && finding != nullptr) overrule(finding, why);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) setWord(passing, 1);
  __threadfence_system();
  __syncthreads();
  for (uint64_t f = threadIdx.x; f < count; f += blockDim.x) setWord(flags + f, kPasses);
}

}  // namespace

cudaError_t letAllPass(uint32_t* flags, uint64_t count, uint32_t* passing, Finding* finding, const Finding& why,
                       cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, letThrough, flags, count, passing, finding, why);
}

void setFlags(std::span<uint32_t* const> flags, uint32_t value, const uint32_t* passing,
              std::span<uint64_t* const> counts, DeviceContext& device, Stream stream) {
  Table<uint64_t*, kFewItems> counted = {};
  counted.count = static_cast<uint32_t>(std::min<size_t>(counts.size(), kFewItems));
  std::copy_n(counts.begin(), counted.count, counted.items);
  withTable(flags, [&]<uint32_t kMost>(const Table<uint32_t*, kMost>& table) {
    device.launch("flags", flags.size(), writeFlags<kMost>, {1, kThreads}, stream, table, value, passing, counted);
  });
}

}  // namespace sparsecoll::cuda
