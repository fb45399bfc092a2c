#include "cuda/flags.h"

#include <cuda.h>

#include <algorithm>
#include <array>

#include "cuda/cuda_kernels.h"
#include "cuda/objects.h"
#include "cuda/users.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kWordsBefore = 64;  // the word that says whether flags pass has a line of its own

using WaitValues = CUresult (*)(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags);
constexpr size_t kMostWaits = 256;  // in one call

class DeviceFlags final : public Flags {
 public:
  DeviceFlags(Buffer memory, const DeviceContext& device, std::shared_ptr<const OwnStreams> streams,
              std::shared_ptr<Users> users, size_t user, WaitValues wait)
      : memory_(std::move(memory)),
        findings_(device.findings()),
        device_(device.ordinal()),
        waitValues_(wait),
        streams_(std::move(streams)),
        users_(std::move(users)),
        user_(user) {}

  uint32_t* at(uint64_t flag) const override { return memory_.as<uint32_t>() + kWordsBefore + flag; }
  void endWaits(sparsecollResult_t why, int peer) override {
    const OnDevice current(device_);
    const Finding finding{static_cast<uint32_t>(why), peer, static_cast<uint32_t>(Found::kEnded), 0, 0};
    const uint64_t flags = memory_.bytes() / sizeof(uint32_t) - kWordsBefore;
    const cudaStream_t rescue = streams_->rescue.get();
    // Fails on a device that runs nothing any more.
    (void)taken(letAllPass(at(0), flags, memory_.as<uint32_t>(), findings_->as<Finding>(), finding, rescue));
    users_->mark(user_, rescue, false);  // memory that the kernel writes may be on its way back already
  }

  const uint32_t* state() const { return memory_.as<uint32_t>(); }
  WaitValues waitValues() const { return waitValues_; }

 private:
  Buffer memory_;
  const std::shared_ptr<const Buffer> findings_;  // these may outlive the kernels
  const int device_;
  const WaitValues waitValues_;
  const std::shared_ptr<const OwnStreams> streams_;
  const std::shared_ptr<Users> users_;
  const size_t user_;
};

const DeviceFlags& known(const Flags& flags) { return static_cast<const DeviceFlags&>(flags); }

}  // namespace

uint64_t flagBytes(uint64_t count) { return (kWordsBefore + count) * sizeof(uint32_t); }

Result<std::unique_ptr<Flags>> makeFlags(Buffer memory, const DeviceContext& device,
                                         std::shared_ptr<const OwnStreams> streams, std::shared_ptr<Users> users) {
  const WaitValues waitValues = reinterpret_cast<WaitValues>(driverFunction("cuStreamBatchMemOp"));
  if (waitValues == nullptr) return std::unique_ptr<Flags>();
  SC_TRY(const size_t user, users->add(device.ordinal()));
  return std::unique_ptr<Flags>(
      new DeviceFlags(std::move(memory), device, std::move(streams), std::move(users), user, waitValues));
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

// "At least 1" is meant cyclically: what passes for ever is small enough. All waits of one call are one node of a
// graph.
void awaitRaised(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream) {
  std::array<CUstreamBatchMemOpParams, kMostWaits> waits;
  while (!flags.empty()) {
    const size_t count = std::min(flags.size(), kMostWaits);
    for (size_t w = 0; w < count; ++w) {
      waits[w] = {};
      waits[w].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
      waits[w].waitValue.address = reinterpret_cast<CUdeviceptr>(flags[w]);
      waits[w].waitValue.value = 1;
      waits[w].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    }
    const CUresult result =
        known(own).waitValues()(static_cast<CUstream>(stream.handle), static_cast<unsigned>(count), waits.data(), 0);
    device.note("awaitRaised", count, static_cast<cudaError_t>(result));
    flags = flags.subspan(count);
  }
}

}  // namespace sparsecoll::cuda
