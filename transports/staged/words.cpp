#include "transports/staged/words.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include "cuda/calls.h"

namespace sparsecoll::staged {

namespace {

constexpr uint64_t kBytes = 128;

Status call(const char* name, void* function, Stream stream, uint32_t* word, uint32_t value, unsigned flags) {
  using Call = CUresult (*)(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  const CUresult result = reinterpret_cast<Call>(function)(static_cast<CUstream>(stream.handle), address, value, flags);
  if (result == CUDA_SUCCESS) return {};
  return fail(sparsecollCudaError, "{} failed with {}", name, static_cast<int>(result));
}

}  // namespace

Result<std::unique_ptr<Words>> Words::make(Kernels& pinned, const std::shared_ptr<MemoryBudget>& budget) {
  void* const write = cuda::driverFunction("cuStreamWriteValue32");
  void* const wait = cuda::driverFunction("cuStreamWaitValue32");
  if (write == nullptr || wait == nullptr)
    return unsupported("devices over an engine of messages, with a driver without stream memory operations");
  SC_TRY(Buffer memory, pinned.allocate(kBytes, budget));
  return std::unique_ptr<Words>(new Words(std::move(memory), write, wait));
}

Status Words::tell(uint32_t ticket, Stream stream) const {
  return call("cuStreamWriteValue32", write_, stream, at(kSignalled), ticket, CU_STREAM_WRITE_VALUE_DEFAULT);
}

Status Words::awaitPassed(uint32_t ticket, Stream stream) const {
  return call("cuStreamWaitValue32", wait_, stream, at(kPassed), ticket, CU_STREAM_WAIT_VALUE_GEQ);
}

}  // namespace sparsecoll::staged
