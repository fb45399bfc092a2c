// Every kernel of the library: a device has to have loaded them before anything waits on it. A first launch loads a
// kernel, which may take until all other work of the device has ended.
#pragma once

#include <span>

namespace sparsecoll {

// Adds one, before main. Returns true.
bool listKernel(const void* kernel);
std::span<const void* const> listedKernels();

// Whatever names the member has the kernel listed.
template <auto kKernel>
struct Listed {
  static inline const bool is = listKernel(reinterpret_cast<const void*>(kKernel));
};

}  // namespace sparsecoll
