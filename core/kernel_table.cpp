#include "core/kernel_table.h"

#include <vector>

namespace sparsecoll {

namespace {

std::vector<const void*>& table() {
  static std::vector<const void*> kernels;
  return kernels;
}

}  // namespace

bool listKernel(const void* kernel) {
  table().push_back(kernel);
  return true;
}

std::span<const void* const> listedKernels() { return table(); }

}  // namespace sparsecoll
