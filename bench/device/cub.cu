// sparsecoll-cub: what CUDA's own library needs for the selection that sparsecoll-device measures: a radix sort of all
// magnitudes with their indices, and a compaction with a threshold that somebody already knows.
// usage: sparsecoll-cub [N] [DENSITY] [RUNS]   prints JSON
#include <thrust/iterator/counting_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "bench/device/cuda_objects.h"
#include "core/random.h"

namespace {

using bench::checkCuda;
using bench::DeviceArray;

constexpr uint32_t kThreads = 256;

// Normal noise, as sparsecoll-device has it, and its magnitudes as integers of the same order.
__global__ void fill(float* x, uint32_t* keys, uint32_t* indices, uint32_t n) {
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += uint64_t{gridDim.x} * kThreads) {
    const auto unit = [](uint64_t random) { return (static_cast<float>(random >> 41) + 0.5f) * 0x1p-23f; };
    const uint64_t random = sparsecoll::mixBits(sparsecoll::mixBits(2 * i));
    const uint64_t other = sparsecoll::mixBits(sparsecoll::mixBits(2 * i + 1));
    x[i] = sqrtf(-2 * logf(unit(random))) * cosf(6.2831853f * unit(other));
    keys[i] = __float_as_uint(fabsf(x[i]));
    indices[i] = static_cast<uint32_t>(i);
  }
}

__global__ void gather(const float* x, const uint32_t* indices, const uint32_t* count, float* values) {
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < *count; i += gridDim.x * kThreads)
    values[i] = x[indices[i]];
}

struct Reaches {
  const float* x;
  float threshold;
  __device__ bool operator()(uint32_t i) const { return fabsf(x[i]) >= threshold; }
};

struct Times {
  double median, best;
};

template <class Work>
Times timed(int runs, const Work& work) {
  work();
  checkCuda(cudaDeviceSynchronize(), "warm-up");
  std::vector<double> seconds;
  const bench::CudaEvent begin;
  const bench::CudaEvent end;
  for (int run = 0; run < runs; ++run) {
    begin.record(nullptr);
    work();
    end.record(nullptr);
    checkCuda(cudaDeviceSynchronize(), "run");
    seconds.push_back(end.secondsSince(begin));
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2] * 1e6, seconds.front() * 1e6};
}

void print(const char* name, const Times& times, const char* behind) {
  std::printf("    {\"name\": \"%s\", \"median_us\": %.3f, \"best_us\": %.3f}%s\n", name, times.median, times.best,
              behind);
}

void run(uint32_t n, double density, int runs) {
  const auto k = std::max<uint32_t>(static_cast<uint32_t>(density * n), 1);
  const DeviceArray<float> x(n);
  const DeviceArray<uint32_t> keys(n), sorted(n), indices(n), order(n);
  fill<<<4096, kThreads>>>(x.get(), keys.get(), indices.get(), n);
  checkCuda(cudaGetLastError(), "fill");

  size_t sortBytes = 0;
  checkCuda(cub::DeviceRadixSort::SortPairsDescending(nullptr, sortBytes, keys.get(), sorted.get(), indices.get(),
                                                      order.get(), n),
            "SortPairsDescending");
  const DeviceArray<char> sortSpace(sortBytes);
  const Times sort = timed(runs, [&] {
    size_t bytes = sortBytes;
    checkCuda(cub::DeviceRadixSort::SortPairsDescending(sortSpace.get(), bytes, keys.get(), sorted.get(), indices.get(),
                                                        order.get(), n),
              "SortPairsDescending");
  });
  const uint32_t key = bench::onHost(sorted.get() + k - 1);

  float threshold = 0;
  static_assert(sizeof threshold == sizeof key);
  std::copy_n(reinterpret_cast<const char*>(&key), sizeof key, reinterpret_cast<char*>(&threshold));
  const DeviceArray<uint32_t> selected(n), count(1);
  const DeviceArray<float> values(n);
  const Reaches reaches{x.get(), threshold};
  const thrust::counting_iterator<uint32_t> all(0);
  size_t selectBytes = 0;
  checkCuda(cub::DeviceSelect::If(nullptr, selectBytes, all, selected.get(), count.get(), n, reaches), "If");
  const DeviceArray<char> selectSpace(selectBytes);
  const Times select = timed(runs, [&] {
    size_t bytes = selectBytes;
    checkCuda(cub::DeviceSelect::If(selectSpace.get(), bytes, all, selected.get(), count.get(), n, reaches), "If");
    gather<<<256, kThreads>>>(x.get(), selected.get(), count.get(), values.get());
    checkCuda(cudaGetLastError(), "gather");
  });
  const uint32_t found = bench::onHost(count.get());

  std::printf("{\n  \"n\": %u, \"density\": %g, \"k\": %u, \"selected\": %u, \"runs\": %d,\n  \"benchmarks\": [\n", n,
              density, k, found, runs);
  print("cub_sort_pairs", sort, ",");
  print("cub_select_if", select, "");
  std::printf("  ]\n}\n");
  if (found < k) throw std::runtime_error("fewer entries than k reach the k-th magnitude");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10)) : 25000000u,
        argc > 2 ? std::strtod(argv[2], nullptr) : 0.001, argc > 3 ? std::atoi(argv[3]) : 30);
    return bench::kGood;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sparsecoll-cub: %s\n", error.what());
    return bench::kEnvironment;
  }
}
