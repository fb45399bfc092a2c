#include "core/memory.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"

namespace sparsecoll {

namespace {

class CallersMemory final : public MemorySource {
 public:
  explicit CallersMemory(const sparsecollAllocator_t& allocator) : allocator_(allocator) {}

  Result<void*> allocate(uint64_t bytes) override {
    SC_TRY(void* const data, allocateFrom(allocator_, bytes, nullptr));
    std::memset(data, 0, bytes);
    return data;
  }
  void release(void* data, uint64_t bytes) noexcept override {
    allocator_.release(allocator_.user, data, bytes, nullptr);
  }

 private:
  const sparsecollAllocator_t allocator_;
};

}  // namespace

Status MemoryBudget::take(uint64_t bytes) {
  if (parent_ != nullptr) SC_TRY(parent_->take(bytes));
  const uint64_t now = inUse_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limit_ != 0 && now > limit_) {
    give(bytes);
    return fail(sparsecollOutOfMemory, "{} bytes wanted, {} of {} in use", bytes, now - bytes, limit_);
  }
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return {};
}

void MemoryBudget::give(uint64_t bytes) {
  inUse_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_ != nullptr) parent_->give(bytes);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  source_->release(data_, bytes_);
  if (budget_ != nullptr) budget_->give(bytes_);
}

Result<Buffer> takeBuffer(const std::shared_ptr<MemorySource>& source, uint64_t bytes,
                          const std::shared_ptr<MemoryBudget>& budget) {
  const uint64_t rounded = alignUp(std::max<uint64_t>(bytes, 1), kMemoryAlignment);
  if (budget != nullptr) SC_TRY(budget->take(rounded));
  Result<void*> data = source->allocate(rounded);
  if (data.ok()) return Buffer(*data, rounded, source, budget);
  if (budget != nullptr) budget->give(rounded);
  return data.takeStatus();
}

Result<void*> allocateFrom(const sparsecollAllocator_t& allocator, uint64_t bytes, sparsecollStream_t stream) {
  void* const data = allocator.allocate(allocator.user, bytes, stream);
  if (data == nullptr) return fail(sparsecollOutOfMemory, "config.allocator gave none of {} bytes", bytes);
  if (reinterpret_cast<uintptr_t>(data) % kMemoryAlignment == 0) return data;
  allocator.release(allocator.user, data, bytes, stream);
  return fail(sparsecollInvalidUsage, "config.allocator gave memory that is not aligned to {} bytes", kMemoryAlignment);
}

std::shared_ptr<MemorySource> callersMemory(const sparsecollAllocator_t& allocator) {
  return std::make_shared<CallersMemory>(allocator);
}

}  // namespace sparsecoll
