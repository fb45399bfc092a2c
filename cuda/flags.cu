#include "cuda/flags.h"

#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kPasses = 2;

// The kernels before have ended, and what they wrote is to be seen by other devices before the flags are.
template <uint32_t kMost>
__global__ void __launch_bounds__(kThreads) writeFlags(Table<uint32_t*, kMost> flags, uint32_t value,
                                                       const uint32_t* passing, Table<uint64_t*, kFewItems> counts) {
  if (threadIdx.x < counts.count) ++*counts.items[threadIdx.x];
  __threadfence_system();
  if (*static_cast<const volatile uint32_t*>(passing) != 0) value = kPasses;
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x)
    *static_cast<volatile uint32_t*>(flags.items[f]) = value;
}

}  // namespace

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
