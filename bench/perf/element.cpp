#include "bench/perf/element.h"

#include <bit>

#include "bench/common/errors.h"

namespace bench {

namespace {

constexpr ElementType kElementTypes[] = {
    {sparsecollFloat32, 4, 4, 0x1p24, "float"},
    {sparsecollFloat16, 2, 4, 0x1p11, "half"},
    {sparsecollBfloat16, 2, 4, 0x1p8, "bfloat16"},
    {sparsecollFloat64, 8, 8, 0x1p53, "double"},
};

}  // namespace

std::string elementTypeNames() {
  std::string names;
  for (const ElementType& type : kElementTypes) names += (names.empty() ? "" : ", ") + std::string(type.name());
  return names;
}

const ElementType& elementType(const std::string& name) {
  for (const ElementType& type : kElementTypes)
    if (name == type.name() || name == type.alias) return type;
  throw UsageError("--dtype " + name + ": there are " + elementTypeNames());
}

// x = units * 2^(exponent - 11) with 1024 <= units < 2048, or fewer below 2^-14; a carry of units moves into the
// exponent by itself.
template <>
Half fromDouble<Half>(double x) {
  const uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  if (x == 0) return {static_cast<uint16_t>(sign)};
  int exponent = 0;
  static_cast<void>(std::frexp(x, &exponent));
  exponent = std::clamp(exponent, -13, 17);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::min(std::abs(x), 0x1p17), 11 - exponent)));
  const uint32_t bits = (static_cast<uint32_t>(exponent + 13) << 10) + units;
  return {static_cast<uint16_t>(sign | std::min(bits, 0x7c00u))};
}

template <>
Bfloat fromDouble<Bfloat>(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

template <>
double toDouble<Half>(Half x) {
  const int exponent = x.bits >> 10 & 0x1f;
  const int mantissa = x.bits & 0x3ff;
  double magnitude = std::ldexp(mantissa + 1024, exponent - 25);
  if (exponent == 0) magnitude = std::ldexp(mantissa, -24);
  if (exponent == 0x1f) magnitude = mantissa == 0 ? HUGE_VAL : NAN;
  return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <>
double toDouble<Bfloat>(Bfloat x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16);
}

}  // namespace bench
