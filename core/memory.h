// Accounts for the memory a communicator and its reducers hold on one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/status.h"

namespace sparsecoll {

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
