// Memory whose first writer has to wait there: so a rank can be held up in the middle of a step, where it writes its
// sum, until a test has seen what the other ranks make of that.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace sparsecoll::test {

// One at a time in a process.
class StalledMemory {
 public:
  explicit StalledMemory(size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    instance = this;
    struct sigaction action {};
    action.sa_sigaction = &onFault;
    action.sa_flags = SA_SIGINFO;
    (void)sigaction(SIGSEGV, &action, &before_);
  }
  ~StalledMemory() {
    (void)sigaction(SIGSEGV, &before_, nullptr);
    instance = nullptr;
    (void)munmap(data_, bytes_);
  }
  StalledMemory(const StalledMemory&) = delete;
  StalledMemory& operator=(const StalledMemory&) = delete;

  void* data() const { return data_; }
  // Waits until somebody writes.
  void awaitWriter() const {
    while (!arrived_) pause();
  }
  void letGo() { open_ = true; }

 private:
  static void pause() {
    const timespec millisecond{0, 1000000};
    (void)nanosleep(&millisecond, nullptr);
  }
  // Calls only what a signal's handler may.
  static void onFault(int, siginfo_t* info, void*) {
    StalledMemory* const memory = instance;
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    const auto begin = memory != nullptr ? reinterpret_cast<uintptr_t>(memory->data_) : 0;
    if (memory == nullptr || at < begin || at >= begin + memory->bytes_) {
      (void)signal(SIGSEGV, SIG_DFL);  // another one's: it comes again
      return;
    }
    memory->arrived_ = true;
    while (!memory->open_) pause();
    (void)mprotect(memory->data_, memory->bytes_, PROT_READ | PROT_WRITE);
  }

  static inline std::atomic<StalledMemory*> instance = nullptr;
  const size_t bytes_;
  void* const data_;
  std::atomic<bool> arrived_ = false, open_ = false;
  struct sigaction before_ {};
};

}  // namespace sparsecoll::test
