// Scratch memory of one owner's kernels. Tables that a kernel must find zero are left zero by their last user.
#pragma once

#include "core/checked.h"
#include "core/kernels.h"

namespace sparsecoll::cuda {

// Places tables one behind the other: once to learn how much room they need, once to set the pointers.
class Placement {
 public:
  explicit Placement(std::byte* base) : base_(base) {}

  template <class T>
  void take(T*& table, uint64_t count) {
    table = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += alignUp(count * sizeof(T), 64);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  uint64_t bytes_ = 0;
};

}  // namespace sparsecoll::cuda
