// Memory for measurements: it starts on a cache line, and every page of it is there before a clock runs.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace bench {

class Memory {
 public:
  Memory() = default;
  enum class Pages { kUsual, kHuge };  // kHuge: where the system grants the wish, as the library wishes for its own

  // Zeroed.
  explicit Memory(uint64_t bytes, Pages pages = Pages::kUsual) {
    const uint64_t alignment = pages == Pages::kHuge ? 2u << 20 : 64;
    bytes_ = (bytes / alignment + 1) * alignment;
    data_.reset(std::aligned_alloc(alignment, bytes_));
    if (data_ == nullptr) throw std::bad_alloc();
    if (pages == Pages::kHuge) (void)madvise(data_.get(), bytes_, MADV_HUGEPAGE);
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
