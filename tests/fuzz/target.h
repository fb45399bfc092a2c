// A fuzz target: what a parser of foreign bytes holds to, whatever it is given. Each target's file defines look, seeds
// and repair; libfuzzer.cpp or driver.cpp feeds it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <vector>

namespace sparsecoll::fuzz {

using Bytes = std::vector<std::byte>;

// Ends the program where a promise is broken. Memory errors are the sanitizers' to find.
void look(std::span<const std::byte> input);

// Inputs that say something, to start from.
std::vector<Bytes> seeds();

// Makes checksums and lengths of a changed input right again, as somebody would who wants to get past them.
void repair(Bytes& input);

#define FUZZ_PROMISE(condition)                                                    \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

// Takes numbers off the front of an input, zeros once it has ended.
class Taker {
 public:
  explicit Taker(std::span<const std::byte> input) : input_(input) {}

  template <class T>
  T take() {
    T value{};
    const size_t length = std::min(sizeof value, input_.size());
    if (length != 0) std::memcpy(&value, input_.data(), length);
    input_ = input_.subspan(length);
    return value;
  }
  std::span<const std::byte> rest() const { return input_; }

 private:
  std::span<const std::byte> input_;
};

// Exactly as long as it is, and aligned as messages are, so that a sanitizer sees a read past its end.
class Exact {
 public:
  explicit Exact(std::span<const std::byte> bytes)
      : data_(static_cast<std::byte*>(::operator new (bytes.size(), std::align_val_t{kAlign}))) {
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~Exact() { ::operator delete (data_, std::align_val_t{kAlign}); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  std::byte* data() const { return data_; }

 private:
  static constexpr size_t kAlign = 64;
  std::byte* data_;
};

}  // namespace sparsecoll::fuzz
