#include "cuda/driver.h"

#include "cuda/calls.h"

namespace sparsecoll::cuda {

namespace {

constexpr int kDriverVersion = 12000;

}  // namespace

void* driverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      taken(cudaGetDriverEntryPointByVersion(name, &function, kDriverVersion, cudaEnableDefault, &found));
#else
  const cudaError_t error = taken(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess) return function;
  return nullptr;
}

}  // namespace sparsecoll::cuda
