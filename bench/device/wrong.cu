#include "bench/device/wrong.h"

#include <algorithm>
#include <vector>

#include "bench/device/launch.h"
#include "core/numeric.h"

namespace bench {

namespace {

using Key = sparsecoll::Magnitude<float>;
using Count = unsigned long long;

constexpr uint64_t kSlice = 1u << 16;  // elements of a window that a block looks at

// What is seen of a window.
struct Tally {
  Count listed = 0;       // entries in the list,
  Count listedAbove = 0;  // those larger than the least of them,
  Count above = 0;        // and those of acc that are
  Count reaching = 0;     // entries of acc that reach the window's key
  uint32_t least = ~0u;   // key of the least entry in the list
};

__global__ void countDamaged(Taken taken, Count* count) {
  for (uint64_t i = firstItem(); i < taken.count; i += nextItem()) {
    const uint32_t index = taken.indices[i];
    const bool inOrder = i == 0 || taken.indices[i - 1] < index;
    const bool same = index < taken.n && __float_as_uint(taken.values[i]) == __float_as_uint(taken.acc[index]);
    if (!inOrder || !same) atomicAdd(count, Count{1});
  }
}

// The first place in the list whose index is not below `index`.
__device__ uint64_t placeOf(const Taken& taken, uint64_t index) {
  uint64_t low = 0;
  uint64_t high = taken.count;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (taken.indices[middle] < index)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Calls work(i) for this thread's part of [begin, end), which the blocks of a column of the grid share.
template <class Work>
__device__ void inSlices(uint64_t begin, uint64_t end, const Work& work) {
  for (uint64_t i = begin + uint64_t{blockIdx.y} * kThreads + threadIdx.x; i < end; i += uint64_t{gridDim.y} * kThreads)
    work(i);
}

// A column a window.
__global__ void tallyList(Taken taken, Tally* tallies) {
  const sparsecoll::Window& window = taken.windows[blockIdx.x];
  Tally& tally = tallies[blockIdx.x];
  inSlices(placeOf(taken, window.begin), placeOf(taken, window.end), [&](uint64_t i) {
    atomicAdd(&tally.listed, Count{1});
    atomicMin(&tally.least, Key::of(taken.values[i]));
  });
}

__global__ void tallyVector(Taken taken, Tally* tallies) {
  const sparsecoll::Window& window = taken.windows[blockIdx.x];
  Tally& tally = tallies[blockIdx.x];
  const uint64_t wanted = window.key > window.least ? window.key : window.least;
  const uint32_t least = tally.least;
  Count above = 0;
  Count reaching = 0;
  inSlices(window.begin, window.end, [&](uint64_t i) {
    const uint32_t key = Key::of(taken.acc[i]);
    above += key > least ? 1 : 0;
    reaching += key >= wanted ? 1 : 0;
  });
  Count listedAbove = 0;
  inSlices(placeOf(taken, window.begin), placeOf(taken, window.end),
           [&](uint64_t i) { listedAbove += Key::of(taken.values[i]) > least ? 1 : 0; });
  if (above != 0) atomicAdd(&tally.above, above);
  if (reaching != 0) atomicAdd(&tally.reaching, reaching);
  if (listedAbove != 0) atomicAdd(&tally.listedAbove, listedAbove);
}

uint64_t wrongOf(const sparsecoll::Window& window, const Tally& tally) {
  const uint64_t there = window.exact != 0 ? window.end - window.begin : tally.reaching;
  return difference(tally.listed, std::min(window.limit, there)) + difference(tally.above, tally.listedAbove);
}

template <class T>
std::vector<T> allOnHost(const T* device, uint64_t count) {
  std::vector<T> all(count);
  checkCuda(cudaMemcpy(all.data(), device, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
  return all;
}

}  // namespace

uint64_t wrongEntries(const Taken& taken, cudaStream_t stream) {
  const DeviceArray<Count> damaged(1);
  const DeviceArray<Tally> tallies(taken.windowCount);
  tallies.load(std::vector<Tally>(taken.windowCount).data(), taken.windowCount);
  const uint64_t slices = std::clamp<uint64_t>(taken.n / taken.windowCount / kSlice, 1, 1024);
  const dim3 grid(taken.windowCount, static_cast<unsigned>(slices));
  launch("countDamaged", gridFor(taken.count), stream, countDamaged, taken, damaged.get());
  launch("tallyList", grid, stream, tallyList, taken, tallies.get());
  launch("tallyVector", grid, stream, tallyVector, taken, tallies.get());
  checkCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const std::vector<Tally> seen = allOnHost(tallies.get(), taken.windowCount);
  const std::vector<sparsecoll::Window> windows = allOnHost(taken.windows, taken.windowCount);
  uint64_t wrong = onHost(damaged.get());
  uint64_t listed = 0;
  for (uint32_t w = 0; w < taken.windowCount; ++w) {
    wrong += wrongOf(windows[w], seen[w]);
    listed += seen[w].listed;
  }
  return wrong + difference(listed, taken.count);
}

}  // namespace bench
