// Feeds a target from clang's libFuzzer, which looks for inputs that reach new code.
#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sparsecoll::fuzz::look({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

// Three of four changes are made to pass checksums, the others find out whether these hold.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 == 0) return size;
  sparsecoll::fuzz::Bytes bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  sparsecoll::fuzz::repair(bytes);
  if (bytes.size() > most) return size;
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
