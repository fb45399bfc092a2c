// Vectors of every element type, seen as doubles. The conversions are written apart from the library's: they round by
// arithmetic, not on bits.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace sparsecoll::test {

inline constexpr sparsecollDataType_t kAllTypes[] = {sparsecollFloat16, sparsecollBfloat16, sparsecollFloat32,
                                                     sparsecollFloat64};

inline const char* nameOf(sparsecollDataType_t type) { return sparsecollDataTypeName(type); }

inline size_t bytesOf(sparsecollDataType_t type) {
  return type == sparsecollFloat64 ? 8 : type == sparsecollFloat32 ? 4 : 2;
}

inline sparsecollDataType_t accumulateType(sparsecollDataType_t type) {
  return type == sparsecollFloat64 ? sparsecollFloat64 : sparsecollFloat32;
}

// The 16-bit formats: fraction bits, least exponent of a normal number, largest exponent.
struct Format16 {
  int fraction, least, most;
};
inline Format16 formatOf(sparsecollDataType_t type) {
  return type == sparsecollFloat16 ? Format16{10, -14, 15} : Format16{7, -126, 127};
}

// The nearest value of the type, ties to even.
inline double roundTo(sparsecollDataType_t type, double x) {
  if (type == sparsecollFloat64) return x;
  if (type == sparsecollFloat32) return static_cast<double>(static_cast<float>(x));
  if (!std::isfinite(x) || x == 0) return x;
  const Format16 format = formatOf(type);
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(x), format.least) - format.fraction);
  const double rounded = std::nearbyint(x / quantum) * quantum;
  if (std::abs(rounded) >= std::ldexp(1.0, format.most + 1)) return std::copysign(HUGE_VAL, x);
  return rounded;
}

inline uint16_t encode16(sparsecollDataType_t type, double x) {
  const Format16 format = formatOf(type);
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000u : 0u);
  const auto infinity = static_cast<uint16_t>((2 * format.most + 1) << format.fraction);
  if (std::isnan(x)) return static_cast<uint16_t>(infinity | (1u << (format.fraction - 1)));
  const double value = std::abs(roundTo(type, x));
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), format.least);
  const auto digits = static_cast<unsigned>(std::ldexp(value, format.fraction - exponent));
  const unsigned leading = 1u << format.fraction;
  if (digits < leading) return static_cast<uint16_t>(sign | digits);  // subnormal
  return static_cast<uint16_t>(sign | (static_cast<unsigned>(exponent - format.least + 1) << format.fraction) |
                               (digits - leading));
}

inline double decode16(sparsecollDataType_t type, uint16_t bits) {
  const Format16 format = formatOf(type);
  const unsigned leading = 1u << format.fraction;
  const unsigned digits = bits & (leading - 1);
  const int exponent = (bits & 0x7fff) >> format.fraction;
  double value = 0;
  if (exponent == 2 * format.most + 1)
    value = digits != 0 ? std::numeric_limits<double>::quiet_NaN() : HUGE_VAL;
  else if (exponent == 0)
    value = std::ldexp(digits, format.least - format.fraction);
  else
    value = std::ldexp(digits + leading, exponent + format.least - 1 - format.fraction);
  return (bits & 0x8000) != 0 ? -value : value;
}

inline double loadElement(sparsecollDataType_t type, const void* data, size_t i) {
  const auto* const at = static_cast<const std::byte*>(data) + i * bytesOf(type);
  if (type == sparsecollFloat64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (type == sparsecollFloat32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return decode16(type, bits);
}

inline void storeElement(sparsecollDataType_t type, void* data, size_t i, double x) {
  auto* const at = static_cast<std::byte*>(data) + i * bytesOf(type);
  if (type == sparsecollFloat64) {
    std::memcpy(at, &x, sizeof x);
  } else if (type == sparsecollFloat32) {
    const auto value = static_cast<float>(x);
    std::memcpy(at, &value, sizeof value);
  } else {
    const uint16_t bits = encode16(type, x);
    std::memcpy(at, &bits, sizeof bits);
  }
}

class Elements {
 public:
  Elements() = default;
  Elements(sparsecollDataType_t type, size_t n, double fill = 0) : type_(type), size_(n), bytes_(n * bytesOf(type)) {
    if (fill != 0)
      for (size_t i = 0; i < n; ++i) set(i, fill);
  }
  // A copy of memory that the library shows.
  Elements(sparsecollDataType_t type, size_t n, const void* from) : Elements(type, n) {
    if (!bytes_.empty()) std::memcpy(bytes_.data(), from, bytes_.size());
  }

  sparsecollDataType_t type() const { return type_; }
  size_t size() const { return size_; }
  size_t byteCount() const { return bytes_.size(); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  double operator[](size_t i) const { return loadElement(type_, bytes_.data(), i); }
  void set(size_t i, double x) { storeElement(type_, bytes_.data(), i, x); }
  void fill(double x) {
    for (size_t i = 0; i < size_; ++i) set(i, x);
  }
  // The same bits.
  bool operator==(const Elements& other) const { return type_ == other.type_ && bytes_ == other.bytes_; }

 private:
  sparsecollDataType_t type_ = sparsecollFloat32;
  size_t size_ = 0;
  std::vector<std::byte> bytes_;
};

// Splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }
  double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  bool chance(double p) { return real() < p; }
  // About normal: the sum of four uniform numbers, variance 1.
  double bell() { return (real() + real() + real() + real() - 2) * 1.7320508; }
  double normal() { return std::sqrt(-2 * std::log(1 - real())) * std::cos(6.283185307179586 * real()); }
  template <class T, size_t kSize>
  const T& pick(const T (&from)[kSize]) {
    return from[below(kSize)];
  }

 private:
  uint64_t state_;
};

}  // namespace sparsecoll::test
