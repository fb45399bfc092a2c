// The memory that a communicator and its reducers hold on one rank: where it comes from, and how much of it there is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/kernels.h"
#include "core/status.h"

namespace sparsecoll {

// Of every piece, and what its length is a multiple of.
inline constexpr uint64_t kMemoryAlignment = SPARSECOLL_ALLOCATOR_ALIGNMENT;

// Where a back end's memory comes from, and goes back to. Any thread.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Zeros, which any stream may use at once. Errors: OutOfMemory, CudaError, InvalidUsage (it is not aligned).
  virtual Result<void*> allocate(uint64_t bytes) = 0;
  // Once nothing that was enqueued uses it any more.
  virtual void release(void* data, uint64_t bytes) noexcept = 0;
};

// bytes, rounded up, accounted where there is a budget.
Result<Buffer> takeBuffer(const std::shared_ptr<MemorySource>& source, uint64_t bytes,
                          const std::shared_ptr<MemoryBudget>& budget);

// What a caller's allocator gives, whatever is in it. Errors: OutOfMemory, InvalidUsage.
Result<void*> allocateFrom(const sparsecollAllocator_t& allocator, uint64_t bytes, sparsecollStream_t stream);
// Host memory of a caller's allocator.
std::shared_ptr<MemorySource> callersMemory(const sparsecollAllocator_t& allocator);

class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limitBytes, std::shared_ptr<MemoryBudget> parent = nullptr)
      : limit_(limitBytes), parent_(std::move(parent)) {}

  Status take(uint64_t bytes);
  void give(uint64_t bytes);
  uint64_t inUse() const { return inUse_.load(std::memory_order_relaxed); }
  uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  const std::shared_ptr<MemoryBudget> parent_;
  std::atomic<uint64_t> inUse_{0};
  std::atomic<uint64_t> peak_{0};
};

}  // namespace sparsecoll
