// The one reader of bytes from outside and its writer: little-endian, bounds checked before every read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/status.h"

namespace sparsecoll {

static_assert(std::endian::native == std::endian::little, "frames and blobs are little-endian and copied as they are");

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t left() const { return bytes_.size() - offset_; }

  template <class T>
  Result<T> read() {
    static_assert(std::is_arithmetic_v<T>);
    if (sizeof(T) > left()) return tooShort(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  Result<std::span<const std::byte>> take(uint64_t length) {
    if (length > left()) return tooShort(length);
    const auto part = bytes_.subspan(offset_, length);
    offset_ += length;
    return part;
  }

 private:
  Status tooShort(uint64_t wanted) const {
    return fail(sparsecollCorrupted, "{} bytes expected at offset {}, {} left", wanted, offset_, left());
  }
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

class Writer {
 public:
  template <class T>
  void write(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append(&value, sizeof(T));
  }
  // Not inlined: GCC 12 follows a vector through many of these and then warns of writes that nobody makes.
  [[gnu::noinline]] void append(const void* data, uint64_t length) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + length);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace sparsecoll
