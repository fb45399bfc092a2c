// The main function of tests that were written for the emulation, on a real device. The linker puts it before Catch's,
// which it calls with memory that the device reaches: heap, and stack.
#include <cuda_runtime.h>
#include <pthread.h>

#include <cstdio>
#include <string_view>

#include "tests/cuda/reachable_memory.h"

extern "C" {
int __real_main(int argc, char** argv);
int __wrap_main(int argc, char** argv);
}

namespace {

constexpr size_t kMemory = size_t{1} << 30;
constexpr size_t kStack = size_t{16} << 20;
constexpr int kSkipped = 77;
constexpr int kBroken = 2;

struct Call {
  int argc;
  char** argv;
  int result;
};

void* run(void* argument) {
  auto* const call = static_cast<Call*>(argument);
  call->result = __real_main(call->argc, call->argv);
  return nullptr;
}

// Catch's options that only tell what there is.
bool lists(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--list") || word == "-l" || word == "-t" || word == "-h" || word == "--help") return true;
  }
  return false;
}

int end(int code, const char* why) {
  std::puts(why);
  return code;
}

}  // namespace

int __wrap_main(int argc, char** argv) {
  if (lists(argc, argv)) return __real_main(argc, argv);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    return end(kSkipped, "skipped: this machine has no CUDA device, or no driver for it");
  const char* const why = sparsecoll::test::startReachableMemory(kMemory);
  if (*why != '\0') return end(kBroken, why);
  void* const stack = sparsecoll::test::takeReachable(kStack, 4096);
  pthread_attr_t attributes;
  pthread_t thread;
  Call call{argc, argv, kBroken};
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstack(&attributes, stack, kStack) != 0 ||
      pthread_create(&thread, &attributes, run, &call) != 0 || pthread_join(thread, nullptr) != 0)
    return end(kBroken, "no thread with a stack of its own");
  return call.result;
}
