#include "cuda/flags.h"

#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kPassing = 2;  // of a flag: passes for ever

// The word beside the flags, which is only ever raised. Where it is not kRuns a step of this rank may have been kept
// from taking effect, so nobody is to be told that a frame of a later one is whole.
enum : uint32_t { kRuns, kEnds, kPasses };

// The kernels before have ended, and what they wrote is to be seen by other devices before the flags are. Whom this
// leaves waiting is let pass, or runs into its deadline.
template <uint32_t kMost>
__global__ void __launch_bounds__(kThreads)
    raiseFlags(Table<uint32_t*, kMost> flags, const uint32_t* state, Table<uint64_t*, kFewItems> counts) {
  if (threadIdx.x < counts.count) ++*counts.items[threadIdx.x];
  __threadfence_system();
  if (seeWord(state) != kRuns) return;
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x) setWord(flags.items[f], 1);
}

// The stream has waited for the flags, but its wait does not order what other devices wrote before they raised them: a
// look at the flags and the fence behind it do, for this kernel and all that follow.
// All flags may be let pass at any moment, also between the look at the state and the writes here. So this looks again
// behind its writes, and letThrough says what it is about to do before it does it: the fences make one of the two see
// the other.
template <uint32_t kMost>
__global__ void __launch_bounds__(kThreads) lowerFlags(Table<uint32_t*, kMost> flags, const uint32_t* state) {
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x) (void)seeWord(flags.items[f]);
  __threadfence_system();
  const bool passes = seeWord(state) == kPasses;
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x) setWord(flags.items[f], passes ? kPassing : 0);
  __threadfence_system();
  if (passes || seeWord(state) != kPasses) return;
  for (uint32_t f = threadIdx.x; f < flags.count; f += blockDim.x) setWord(flags.items[f], kPassing);
}

// One block. First what keeps frames from being offered, then that nothing may take effect any more, then what tells
// whoever lowers flags, then the flags.
__global__ void __launch_bounds__(kThreads)
    letThrough(uint32_t* flags, uint64_t count, uint32_t* state, Finding* finding, Finding why) {
  if (threadIdx.x == 0) {
    setWord(state, kEnds);
    __threadfence_system();
    if (finding != nullptr) overrule(finding, why);
    __threadfence_system();
    setWord(state, kPasses);
  }
  __threadfence_system();
  __syncthreads();
  for (uint64_t f = threadIdx.x; f < count; f += blockDim.x) setWord(flags + f, kPassing);
}

}  // namespace

cudaError_t letAllPass(uint32_t* flags, uint64_t count, uint32_t* state, Finding* finding, const Finding& why,
                       cudaStream_t stream) {
  return launchOn<letThrough>({1, kThreads}, stream, flags, count, state, finding, why);
}

void raiseAll(std::span<uint32_t* const> flags, const uint32_t* state, std::span<uint64_t* const> counts,
              DeviceContext& device, Stream stream) {
  Table<uint64_t*, kFewItems> counted = {};
  counted.count = static_cast<uint32_t>(std::min<size_t>(counts.size(), kFewItems));
  for (uint32_t c = 0; c < counted.count; ++c) counted.items[c] = counts[c];
  withTable(flags, [&]<uint32_t kMost>(const Table<uint32_t*, kMost>& table) {
    device.launch<raiseFlags<kMost>>("raise", flags.size(), {1, kThreads}, stream, table, state, counted);
  });
}

void lowerAll(std::span<uint32_t* const> flags, const uint32_t* state, DeviceContext& device, Stream stream) {
  withTable(flags, [&]<uint32_t kMost>(const Table<uint32_t*, kMost>& table) {
    device.launch<lowerFlags<kMost>>("lower", flags.size(), {1, kThreads}, stream, table, state);
  });
}

}  // namespace sparsecoll::cuda
