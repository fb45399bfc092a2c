// An allocator of the caller's that keeps books, and refuses what it is told to. Its memory comes from two functions,
// so that it can be the host's or a device's.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace sparsecoll::test {

// Pages, so that nothing of it is seen by who watches malloc.
struct Pages {
  static void* allocate(size_t bytes) {
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? nullptr : data;
  }
  static void release(void* data, size_t bytes) { (void)munmap(data, bytes); }
};

template <class Memory>
class BookedAllocator {
 public:
  BookedAllocator() {
    allocator_.user = this;
    allocator_.allocate = [](void* user, size_t bytes, sparsecollStream_t stream) {
      return static_cast<BookedAllocator*>(user)->allocate(bytes, stream);
    };
    allocator_.release = [](void* user, void* data, size_t bytes, sparsecollStream_t stream) {
      static_cast<BookedAllocator*>(user)->release(data, bytes, stream);
    };
  }
  BookedAllocator(const BookedAllocator&) = delete;
  BookedAllocator& operator=(const BookedAllocator&) = delete;

  const sparsecollAllocator_t* get() const { return &allocator_; }
  sparsecollConfig_t config() const {
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.allocator = &allocator_;
    config.opTimeoutMs = 60000;
    return config;
  }

  // The call after `skip` more of them gives nothing, and no other.
  void refuseAfter(uint64_t skip) {
    const std::lock_guard lock(mutex_);
    refuseAt_ = calls_ + skip;
    refused_ = false;
  }
  bool refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  void shiftBy(size_t bytes) { shift_ = bytes; }  // what is given is so far off a whole page

  uint64_t calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  uint64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  // Everything was given back once, as it had been got, and lengths were right.
  bool balanced() {
    const std::lock_guard lock(mutex_);
    return pieces_.empty() && bytes_ == 0 && wrong_ == 0;
  }
  uint64_t wrongCalls() {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }

 private:
  struct Piece {
    size_t bytes;
    sparsecollStream_t stream;
  };

  void* allocate(size_t bytes, sparsecollStream_t stream) {
    const std::lock_guard lock(mutex_);
    wrong_ += bytes == 0 || bytes % SPARSECOLL_ALLOCATOR_ALIGNMENT != 0 ? 1 : 0;
    if (calls_++ == refuseAt_) {
      refused_ = true;
      return nullptr;
    }
    auto* const data = static_cast<char*>(Memory::allocate(bytes + shift_));
    if (data == nullptr) return nullptr;
    pieces_[data + shift_] = {bytes, stream};
    bytes_ += bytes;
    return data + shift_;
  }
  void release(void* data, size_t bytes, sparsecollStream_t stream) {
    const std::lock_guard lock(mutex_);
    const auto piece = pieces_.find(data);
    if (piece == pieces_.end() || piece->second.bytes != bytes || piece->second.stream != stream) {
      ++wrong_;
      return;
    }
    pieces_.erase(piece);
    bytes_ -= bytes;
    Memory::release(static_cast<char*>(data) - shift_, bytes + shift_);
  }

  sparsecollAllocator_t allocator_ = SPARSECOLL_INIT(sparsecollAllocator_t);
  std::mutex mutex_;
  std::map<void*, Piece> pieces_;
  uint64_t bytes_ = 0;
  uint64_t calls_ = 0;
  uint64_t wrong_ = 0;
  uint64_t refuseAt_ = UINT64_MAX;
  size_t shift_ = 0;
  bool refused_ = false;
};

}  // namespace sparsecoll::test
