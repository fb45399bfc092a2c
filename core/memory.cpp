#include "core/memory.h"

#include "core/kernels.h"

namespace sparsecoll {

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
  release_(data_);
  if (budget_ != nullptr) budget_->give(bytes_);
}

}  // namespace sparsecoll
