#include "cuda/flags.h"

#include <cuda.h>

#include "cuda/cuda_kernels.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kWordsBefore = 64;  // the word that says whether flags pass has a line of its own
constexpr int kDriverVersion = 12000;

using WaitValue = CUresult (*)(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);

// cudaGetDriverEntryPoint finds the function without linking to a driver that may not be there.
WaitValue findWaitValue() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, kDriverVersion, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint("cuStreamWaitValue32", &function, cudaEnableDefault, &found);
#endif
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess) return reinterpret_cast<WaitValue>(function);
  (void)cudaGetLastError();
  return nullptr;
}

class DeviceFlags final : public Flags {
 public:
  DeviceFlags(Buffer memory, const DeviceContext& device, WaitValue wait)
      : memory_(std::move(memory)), findings_(device.findings()), device_(device.ordinal()), waitValue_(wait) {}

  // To let pass what is not yet passed changes nothing, but has the kernel loaded: later that might have to wait for
  // streams that wait themselves.
  cudaError_t make() {
    const OnDevice current(device_);
    const cudaError_t error = stream_.make();
    return error != cudaSuccess ? error : letAllPass(nullptr, 0, memory_.as<uint32_t>() + 1, nullptr, {}, handle());
  }

  uint32_t* at(uint64_t flag) const override { return memory_.as<uint32_t>() + kWordsBefore + flag; }
  Stream stream() const override { return {stream_.get(), nullptr}; }
  void letPass(sparsecollResult_t why, int peer) override {
    const OnDevice current(device_);
    const Finding finding{static_cast<uint32_t>(why), peer, static_cast<uint32_t>(Found::kEnded), 0, 0};
    const uint64_t flags = memory_.bytes() / sizeof(uint32_t) - kWordsBefore;
    if (letAllPass(at(0), flags, memory_.as<uint32_t>(), findings_->as<Finding>(), finding, handle()) != cudaSuccess)
      (void)cudaGetLastError();  // on a device that runs nothing any more
  }

  const uint32_t* state() const { return memory_.as<uint32_t>(); }
  WaitValue waitValue() const { return waitValue_; }

 private:
  cudaStream_t handle() const { return stream_.get(); }

  Buffer memory_;
  const std::shared_ptr<const Buffer> findings_;  // these may outlive the kernels
  const int device_;
  const WaitValue waitValue_;
  OwnStream stream_;
};

const DeviceFlags& known(const Flags& flags) { return static_cast<const DeviceFlags&>(flags); }

}  // namespace

uint64_t flagBytes(uint64_t count) { return (kWordsBefore + count) * sizeof(uint32_t); }

Result<std::unique_ptr<Flags>> makeFlags(Buffer memory, const DeviceContext& device) {
  const WaitValue waitValue = findWaitValue();
  if (waitValue == nullptr) return std::unique_ptr<Flags>();
  auto flags = std::make_unique<DeviceFlags>(std::move(memory), device, waitValue);
  const cudaError_t error = flags->make();
  if (error == cudaSuccess) return std::unique_ptr<Flags>(std::move(flags));
  (void)cudaGetLastError();
  return fail(sparsecollCudaError, "a stream on device {}: {}", device.ordinal(), cudaGetErrorString(error));
}

void raise(const Flags& own, std::span<uint32_t* const> flags, std::span<uint64_t* const> counts, DeviceContext& device,
           Stream stream) {
  if (flags.empty() && counts.empty()) return;
  raiseAll(flags, known(own).state(), counts, device, stream);
}

void lower(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream) {
  if (flags.empty()) return;
  lowerAll(flags, known(own).state(), device, stream);
}

// "At least 1" is meant cyclically: what passes for ever is small enough.
void awaitRaised(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream) {
  for (uint32_t* const flag : flags) {
    const CUresult result = known(own).waitValue()(static_cast<CUstream>(stream.handle),
                                                   reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_GEQ);
    device.note("awaitRaised", flags.size(), static_cast<cudaError_t>(result));
  }
}

}  // namespace sparsecoll::cuda
