// Memory for measurements: it starts on a cache line, and every page of it is there before a clock runs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace bench {

class Memory {
 public:
  Memory() = default;
  // Zeroed.
  explicit Memory(uint64_t bytes) : bytes_((bytes / 64 + 1) * 64), data_(std::aligned_alloc(64, bytes_)) {
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes_);
  }

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  uint64_t bytes_ = 0;
  std::unique_ptr<void, Free> data_;
};

}  // namespace bench
