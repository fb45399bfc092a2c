#include "cuda/flags.h"

#include <cuda.h>

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kWordsBefore = 64;  // the word that says that everything passes has a line of its own
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

// The device that was current before is so again afterwards.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    (void)cudaSetDevice(device);
  }
  ~OnDevice() { (void)cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

class DeviceFlags final : public Flags {
 public:
  DeviceFlags(Buffer memory, int device, WaitValue wait)
      : memory_(std::move(memory)), device_(device), waitValue_(wait) {}
  DeviceFlags(const DeviceFlags&) = delete;
  DeviceFlags& operator=(const DeviceFlags&) = delete;
  ~DeviceFlags() override {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  cudaError_t make() { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }

  uint32_t* at(uint64_t flag) const override { return memory_.as<uint32_t>() + kWordsBefore + flag; }
  Stream stream() const override { return {stream_, nullptr}; }
  // First what tells kernels to leave the flags passing, then the flags.
  void letPass() override {
    const OnDevice current(device_);
    const uint64_t first = kWordsBefore * sizeof(uint32_t);
    (void)cudaMemsetAsync(memory_.as<>(), 1, first, stream_);
    (void)cudaMemsetAsync(memory_.as<>() + first, 1, memory_.bytes() - first, stream_);
  }

  const uint32_t* passing() const { return memory_.as<uint32_t>(); }
  WaitValue waitValue() const { return waitValue_; }

 private:
  Buffer memory_;
  int device_;
  WaitValue waitValue_;
  cudaStream_t stream_ = nullptr;
};

const DeviceFlags& known(const Flags& flags) { return static_cast<const DeviceFlags&>(flags); }

}  // namespace

uint64_t flagBytes(uint64_t count) { return (kWordsBefore + count) * sizeof(uint32_t); }

Result<std::unique_ptr<Flags>> makeFlags(Buffer memory, const DeviceContext& device) {
  const WaitValue waitValue = findWaitValue();
  if (waitValue == nullptr) return std::unique_ptr<Flags>();
  const OnDevice current(device.ordinal());
  auto flags = std::make_unique<DeviceFlags>(std::move(memory), device.ordinal(), waitValue);
  const cudaError_t error = flags->make();
  if (error == cudaSuccess) return std::unique_ptr<Flags>(std::move(flags));
  (void)cudaGetLastError();
  return fail(sparsecollCudaError, "a stream on device {}: {}", device.ordinal(), cudaGetErrorString(error));
}

void raise(const Flags& own, std::span<uint32_t* const> flags, std::span<uint64_t* const> counts, DeviceContext& device,
           Stream stream) {
  if (flags.empty() && counts.empty()) return;
  setFlags(flags, 1, known(own).passing(), counts, device, stream);
}

void lower(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream) {
  if (flags.empty()) return;
  setFlags(flags, 0, known(own).passing(), {}, device, stream);
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
