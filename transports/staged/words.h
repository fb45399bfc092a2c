// Two words of pinned memory by which a stream and a thread of the host wait for each other. They count tickets: one
// says how far the stream has got, the other how far the thread has. Tickets are compared cyclically.
#pragma once

#include <atomic>
#include <memory>

#include "core/kernels.h"
#include "core/memory.h"

namespace sparsecoll::staged {

class Words {
 public:
  // Errors: Unsupported (a driver without stream memory operations), OutOfMemory.
  static Result<std::unique_ptr<Words>> make(Kernels& pinned, const std::shared_ptr<MemoryBudget>& budget);

  // On the stream: all work before it is done. Errors: CudaError.
  Status tell(uint32_t ticket, Stream stream) const;
  // On the stream: what comes now runs once the thread has passed the ticket. Errors: CudaError.
  Status awaitPassed(uint32_t ticket, Stream stream) const;

  // The thread's side, which calls nothing of CUDA's: it disturbs no capture.
  bool signalled(uint32_t ticket) const { return reached(word(kSignalled).load(std::memory_order_acquire), ticket); }
  void pass(uint32_t ticket) const { word(kPassed).store(ticket, std::memory_order_release); }

 private:
  static constexpr uint64_t kSignalled = 0, kPassed = 16;  // a line each

  Words(Buffer memory, void* write, void* wait) : memory_(std::move(memory)), write_(write), wait_(wait) {}
  static bool reached(uint32_t now, uint32_t ticket) { return static_cast<int32_t>(now - ticket) >= 0; }
  uint32_t* at(uint64_t index) const { return memory_.as<uint32_t>() + index; }
  std::atomic_ref<uint32_t> word(uint64_t index) const { return std::atomic_ref<uint32_t>(*at(index)); }

  const Buffer memory_;
  void* const write_;  // the driver's functions
  void* const wait_;
};

}  // namespace sparsecoll::staged
