// Included by every altered file: which mutants were chosen, and which places are reached. SPARSECOLL_MUTANT has their
// numbers, SPARSECOLL_REACHED names a file with a byte for each place, which the processes of a test share.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sparsecoll_mutants {
constexpr int kMost = 1 << 16;
inline bool chosen[kMost] = {};
inline volatile unsigned char* reached = nullptr;

// In every file: the first that runs is before anything else of its program or library.
__attribute__((constructor(101))) static void start() {
  for (const char* numbers = getenv("SPARSECOLL_MUTANT"); numbers != nullptr && *numbers != '\0';) {
    char* end = nullptr;
    const long number = strtol(numbers, &end, 10);
    if (end == numbers || number < 0 || number >= kMost) abort();
    chosen[number] = true;
    numbers = *end == ',' ? end + 1 : end;
  }
  const char* name = getenv("SPARSECOLL_REACHED");
  if (name == nullptr || reached != nullptr) return;
  const int file = open(name, O_RDWR | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) abort();
  void* bytes = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) abort();
  reached = static_cast<volatile unsigned char*>(bytes);
  close(file);
}
}  // namespace sparsecoll_mutants

// What the compiler computes stays as it is. The section tells of which places there is code.
template <int kNumber>
[[gnu::always_inline]] inline constexpr bool sparsecoll_mutant() {
  if (__builtin_is_constant_evaluated()) return false;
  asm(".pushsection .sparsecoll_mutants,\"\",@progbits\n.long %c0\n.popsection" ::"i"(kNumber));
  static_assert(kNumber < sparsecoll_mutants::kMost);
  if (sparsecoll_mutants::reached != nullptr && sparsecoll_mutants::reached[kNumber] == 0)
    sparsecoll_mutants::reached[kNumber] = 1;
  return sparsecoll_mutants::chosen[kNumber];
}
