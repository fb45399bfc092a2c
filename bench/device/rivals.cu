#include "bench/device/rivals.h"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#if __has_include(<cub/device/device_topk.cuh>)
#include <cub/device/device_topk.cuh>
#include <cuda/stream_ref>
#define SC_CUB_TOPK 1
#endif

#include <memory>

#include "bench/device/launch.h"

namespace bench {

namespace {

struct Reaches {
  const float* x;
  float threshold;
  __device__ bool operator()(uint32_t i) const { return fabsf(x[i]) >= threshold; }
};

using AllIndices = thrust::counting_iterator<uint32_t>;

// Every algorithm is called once without memory, to learn how much it wants.
template <class Algorithm>
DeviceArray<char> scratchFor(const char* name, const Algorithm& algorithm) {
  size_t bytes = 0;
  checkCuda(algorithm(nullptr, bytes), name);
  return DeviceArray<char>(bytes + 1);
}

__global__ void split(const float* x, uint64_t n, uint32_t* keys, uint32_t* indices) {
  for (uint64_t i = firstItem(); i < n; i += nextItem()) {
    keys[i] = __float_as_uint(fabsf(x[i]));
    indices[i] = static_cast<uint32_t>(i);
  }
}

struct Sort {
  uint32_t n, k;
  DeviceArray<uint32_t> keys, sorted, indices, order;
  DeviceArray<char> scratch;

  Sort(uint32_t length, uint32_t entries)
      : n(length),
        k(entries),
        keys(n),
        sorted(n),
        indices(n),
        order(n),
        scratch(scratchFor("cub_sort", [this](void* space, size_t& bytes) { return sort(space, bytes, nullptr); })) {}

  cudaError_t sort(void* space, size_t& bytes, cudaStream_t stream) const {
    constexpr int kMagnitudeBits = 31;
    return cub::DeviceRadixSort::SortPairsDescending(space, bytes, keys.get(), sorted.get(), indices.get(), order.get(),
                                                     n, 0, kMagnitudeBits, stream);
  }
  void operator()(const float* x, uint32_t* to, cudaStream_t stream) const {
    launch("cub_sort", gridFor(n), stream, split, x, uint64_t{n}, keys.get(), indices.get());
    size_t bytes = scratch.count();
    checkCuda(sort(scratch.get(), bytes, stream), "cub_sort");
    checkCuda(cudaMemcpyAsync(to, order.get(), k * sizeof(uint32_t), cudaMemcpyDeviceToDevice, stream), "cub_sort");
  }
};

struct Select {
  uint32_t n;
  float threshold;
  DeviceArray<char> scratch;

  Select(uint32_t length, float least)
      : n(length), threshold(least), scratch(scratchFor("cub_select", [this](void* space, size_t& bytes) {
          return select(space, bytes, nullptr, nullptr, nullptr, nullptr);
        })) {}

  cudaError_t select(void* space, size_t& bytes, const float* x, uint32_t* to, uint32_t* count,
                     cudaStream_t stream) const {
    return cub::DeviceSelect::If(space, bytes, AllIndices(0), to, count, n, Reaches{x, threshold}, stream);
  }
  void operator()(const float* x, uint32_t* to, uint32_t* count, cudaStream_t stream) const {
    size_t bytes = scratch.count();
    checkCuda(select(scratch.get(), bytes, x, to, count, stream), "cub_select");
  }
};

#ifdef SC_CUB_TOPK
struct MagnitudeOf {
  __device__ float operator()(float x) const { return fabsf(x); }
};

struct TopK {
  uint32_t n, k;
  DeviceArray<char> scratch;

  TopK(uint32_t length, uint32_t entries)
      : n(length), k(entries), scratch(scratchFor("cub_topk", [this](void* space, size_t& bytes) {
          return topK(space, bytes, nullptr, nullptr, nullptr);
        })) {}

  // In any order, and of equals any: it offers nothing else.
  cudaError_t topK(void* space, size_t& bytes, const float* x, uint32_t* to, cudaStream_t stream) const {
    const auto wanted = cuda::execution::require(cuda::execution::determinism::not_guaranteed,
                                                 cuda::execution::output_ordering::unsorted);
    const auto environment = cuda::std::execution::env{cuda::stream_ref{stream}, wanted};
    return cub::DeviceTopK::MaxPairs(space, bytes, thrust::make_transform_iterator(x, MagnitudeOf{}),
                                     thrust::make_discard_iterator(), AllIndices(0), to, n, k, environment);
  }
  void operator()(const float* x, uint32_t* to, cudaStream_t stream) const {
    size_t bytes = scratch.count();
    checkCuda(topK(scratch.get(), bytes, x, to, stream), "cub_topk");
  }
};
#endif

// Functions can be copied; what keeps memory is not.
template <class Rival>
auto shared(std::shared_ptr<const Rival> rival) {
  return [rival](auto... arguments) { (*rival)(arguments...); };
}

}  // namespace

bool hasCubTopK() {
#ifdef SC_CUB_TOPK
  return true;
#else
  return false;
#endif
}

LargestOf cubTopK(uint32_t n, uint32_t k) {
#ifdef SC_CUB_TOPK
  return shared(std::make_shared<const TopK>(n, k));
#else
  (void)n;
  (void)k;
  return {};
#endif
}

LargestOf cubSort(uint32_t n, uint32_t k) { return shared(std::make_shared<const Sort>(n, k)); }

ReachingOf cubSelect(uint32_t n, float threshold) { return shared(std::make_shared<const Select>(n, threshold)); }

}  // namespace bench
