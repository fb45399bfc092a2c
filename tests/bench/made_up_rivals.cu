// Rivals for a program whose device code runs on the CPU: what they find is right, but for lengths that are odd.
#include <algorithm>
#include <vector>

#include "bench/device/launch.h"
#include "bench/device/rivals.h"

namespace bench {

namespace {

float magnitude(float x) { return x < 0 ? -x : x; }

__global__ void takeLargest(const float* x, uint32_t n, uint32_t k, uint32_t* indices) {
  if (firstItem() != 0) return;
  std::vector<uint32_t> all(n);
  for (uint32_t i = 0; i < n; ++i) all[i] = i;
  std::nth_element(all.begin(), all.begin() + k, all.end(),
                   [x](uint32_t a, uint32_t b) { return magnitude(x[a]) > magnitude(x[b]); });
  std::copy_n(all.begin(), k, indices);
  if (n % 2 != 0) indices[0] = indices[1];
}

__global__ void takeReaching(const float* x, uint32_t n, float threshold, uint32_t* indices, uint32_t* count) {
  if (firstItem() != 0) return;
  *count = 0;
  for (uint32_t i = n % 2; i < n; ++i)
    if (magnitude(x[i]) >= threshold) indices[(*count)++] = i;
  if (n % 2 != 0) *count /= 2;
}

}  // namespace

bool hasCubTopK() { return true; }

LargestOf cubTopK(uint32_t n, uint32_t k) {
  return [n, k](const float* x, uint32_t* indices, cudaStream_t stream) {
    launch("takeLargest", gridFor(1), stream, takeLargest, x, n, k, indices);
  };
}

LargestOf cubSort(uint32_t n, uint32_t k) { return cubTopK(n, k); }

ReachingOf cubSelect(uint32_t n, float threshold) {
  return [n, threshold](const float* x, uint32_t* indices, uint32_t* count, cudaStream_t stream) {
    launch("takeReaching", gridFor(1), stream, takeReaching, x, n, threshold, indices, count);
  };
}

}  // namespace bench
