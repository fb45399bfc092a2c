// Where frames that lie in host memory pass on their way through a device: a slot for each rank's out and in, on either
// side, and a stream. Made with the communicator, so that an agreement needs no memory.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

namespace sparsecoll::nccl {

// A round's messages as they lie on the device.
struct Staged {
  std::span<const Outgoing> out;
  std::span<Incoming> in;
};

class Staging {
 public:
  static constexpr uint64_t kSlotBytes = 1024;  // an agreement has less than half of it

  // kernels: lives as long as this.
  static Result<std::unique_ptr<Staging>> make(Kernels& kernels, int ranks,
                                               const std::shared_ptr<MemoryBudget>& budget);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // A window in memory that was allocated for it; frames in those of the host are known again.
  Result<std::unique_ptr<FrameWindow>> makeWindow(Buffer memory, bool onHost);
  bool holds(std::span<const Outgoing> out) const;

  void* stream() const { return stream_; }
  std::byte* arrivals() const { return device_.as<>() + ranks_ * kSlotBytes; }  // a slot a rank

  // Puts the frames on the device. Errors: CudaError, InternalError (a frame longer than a slot).
  Result<Staged> load(std::span<const Outgoing> out, std::span<const Incoming> in);
  // Has what came copied back; it is there when the stream is done, and unload gives it to its landings.
  Status fetch();
  void unload(std::span<Incoming> in) const;

 private:
  // Windows may outlive the engine.
  struct HostMemory {
    std::mutex mutex;
    std::vector<std::span<const std::byte>> windows;
  };
  class StagedWindow;

  Staging(Kernels& kernels, uint64_t ranks) : kernels_(kernels), ranks_(ranks), host_(std::make_shared<HostMemory>()) {}

  Kernels& kernels_;
  const uint64_t ranks_;
  const std::shared_ptr<HostMemory> host_;
  void* stream_ = nullptr;
  void* pinned_ = nullptr;
  Buffer device_;
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
};

}  // namespace sparsecoll::nccl
