#include <cuda_runtime.h>
#include <fmt/core.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tests/cuda/reachable_memory.h"

namespace sparsecoll::test {

namespace {

// Numbers of 32 bits are no pointers, nor are those that no process's memory reaches up to.
constexpr uintptr_t kLeast = uintptr_t{1} << 32;
constexpr uintptr_t kMost = uintptr_t{1} << 47;

// Where an address of this process's data lies: "" if nowhere.
std::string placeOf(uintptr_t address) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> maps(std::fopen("/proc/self/maps", "r"));
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char rights[5] = {};
    char name[256] = {};
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %255s", &begin, &end, rights, name) < 3) continue;
    if (address < begin || address >= end) continue;
    if (rights[0] != 'r' || rights[2] == 'x') return "";
    if (*name == '/') return fmt::format("static data of {}", name);
    return *name == '[' ? name : "a thread's stack or other memory";
  }
  return "";
}

bool isKnown(const void* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess)
    return attributes.type != cudaMemoryTypeUnregistered;
  (void)cudaGetLastError();
  return false;
}

}  // namespace

std::string unreachableIn(std::span<const std::span<const std::byte>> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i)
    for (size_t at = 0; at + sizeof(uintptr_t) <= arguments[i].size(); at += sizeof(uintptr_t)) {
      uintptr_t word = 0;
      std::memcpy(&word, arguments[i].data() + at, sizeof word);
      const auto* const memory = reinterpret_cast<const void*>(word);
      if (word < kLeast || word >= kMost || isReachable(memory) || isKnown(memory)) continue;
      if (const std::string place = placeOf(word); !place.empty())
        return fmt::format("argument {}, byte {}, points to {:#x}, which the device does not reach: {}", i, at, word,
                           place);
    }
  return "";
}

}  // namespace sparsecoll::test
