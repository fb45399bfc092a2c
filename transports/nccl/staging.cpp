#include "transports/nccl/staging.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "cuda/calls.h"

namespace sparsecoll::nccl {

namespace {

constexpr uint64_t kDoneMs = 100;  // for copies behind operations that have ended

Status check(cudaError_t error, const char* what) {
  if (cuda::taken(error) == cudaSuccess) return {};
  return fail(error == cudaErrorMemoryAllocation ? sparsecollOutOfMemory : sparsecollCudaError, "{} for NCCL: {}", what,
              cudaGetErrorString(error));
}

}  // namespace

class Staging::StagedWindow final : public FrameWindow {
 public:
  StagedWindow(Buffer memory, std::shared_ptr<HostMemory> host) : memory_(std::move(memory)), host_(std::move(host)) {}
  ~StagedWindow() override {
    if (host_ == nullptr) return;
    const std::lock_guard lock(host_->mutex);
    std::erase_if(host_->windows, [this](std::span<const std::byte> window) { return window.data() == data(); });
  }
  std::byte* data() const override { return memory_.as<>(); }

 private:
  Buffer memory_;
  std::shared_ptr<HostMemory> host_;  // nullptr: on the device
};

Result<std::unique_ptr<Staging>> Staging::make(Kernels& kernels, int ranks,
                                               const std::shared_ptr<MemoryBudget>& budget) {
  const cuda::BesideCaptures beside;
  std::unique_ptr<Staging> staging(new Staging(kernels, static_cast<uint64_t>(ranks)));
  const uint64_t bytes = 2 * staging->ranks_ * kSlotBytes;
  cudaStream_t stream = nullptr;
  SC_TRY(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
  staging->stream_ = stream;
  SC_TRY(check(cuda::takePinned(&staging->pinned_, bytes), "pinned memory"));
  std::memset(staging->pinned_, 0, bytes);
  SC_TRY(staging->device_, kernels.allocate(bytes, budget));
  staging->out_.reserve(staging->ranks_);
  staging->in_.reserve(staging->ranks_);
  return staging;
}

Staging::~Staging() {
  const cuda::BesideCaptures beside;
  const auto stream = static_cast<cudaStream_t>(stream_);
  const bool over = stream == nullptr || cuda::untilDone(stream, Deadline::in(kDoneMs)) != cudaErrorNotReady;
  // Memory to which something may come yet stays where it is: a rank may be missing for ever.
  if (!over) kernels_.noteOthersUse({stream, nullptr});
  if (stream != nullptr) (void)cuda::taken(cudaStreamDestroy(stream));
  if (pinned_ != nullptr && over) cuda::givePinned(pinned_);
}

Result<std::unique_ptr<FrameWindow>> Staging::makeWindow(Buffer memory, bool onHost) {
  if (!onHost) return std::unique_ptr<FrameWindow>(new StagedWindow(std::move(memory), nullptr));
  const std::span<const std::byte> bytes(memory.as<>(), memory.bytes());
  auto window = std::make_unique<StagedWindow>(std::move(memory), host_);
  const std::lock_guard lock(host_->mutex);
  host_->windows.push_back(bytes);
  return std::unique_ptr<FrameWindow>(std::move(window));
}

bool Staging::holds(std::span<const Outgoing> out) const {
  if (out.empty()) return false;
  const std::byte* const frame = out[0].frame;
  const std::lock_guard lock(host_->mutex);
  return std::any_of(host_->windows.begin(), host_->windows.end(), [frame](std::span<const std::byte> window) {
    return frame >= window.data() && frame < window.data() + window.size();
  });
}

Result<Staged> Staging::load(std::span<const Outgoing> out, std::span<const Incoming> in) {
  out_.assign(out.begin(), out.end());
  in_.assign(in.begin(), in.end());
  auto* const pinned = static_cast<std::byte*>(pinned_);
  for (size_t m = 0; m < out.size(); ++m) {
    const uint64_t bytes = out[m].layout.capacityBytes();
    if (bytes > kSlotBytes) return fail(sparsecollInternalError, "a frame of {} bytes in host memory", bytes);
    std::memcpy(pinned + m * kSlotBytes, out[m].frame, bytes);
    out_[m].frame = device_.as<>() + m * kSlotBytes;
  }
  for (Incoming& message : in_) {
    if (message.capacity > kSlotBytes)
      return fail(sparsecollInternalError, "a frame of {} bytes to host memory", message.capacity);
    message.landing = arrivals() + static_cast<uint64_t>(message.peer) * kSlotBytes;
  }
  SC_TRY(check(cudaMemcpyAsync(device_.as<>(), pinned, out.size() * kSlotBytes, cudaMemcpyHostToDevice,
                               static_cast<cudaStream_t>(stream_)),
               "a copy"));
  return Staged{out_, in_};
}

Status Staging::fetch() {
  return check(cudaMemcpyAsync(static_cast<std::byte*>(pinned_) + ranks_ * kSlotBytes, arrivals(), ranks_ * kSlotBytes,
                               cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream_)),
               "a copy");
}

void Staging::unload(std::span<Incoming> in) const {
  const std::byte* const came = static_cast<const std::byte*>(pinned_) + ranks_ * kSlotBytes;
  for (Incoming& message : in)
    std::memcpy(message.landing, came + static_cast<uint64_t>(message.peer) * kSlotBytes, message.capacity);
}

}  // namespace sparsecoll::nccl
