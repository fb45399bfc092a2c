// Conversions and the order of magnitudes against slow exact references.
#include "core/numeric.h"

#include "tests/support/catch.h"
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/data.h"

namespace sparsecoll {
namespace {

using test::bitsOf;
using test::Random;

// A 16-bit format as the standards define it, in doubles, which hold all its numbers and their midpoints exactly.
struct Format {
  int mantissaBits;
  int bias;
  uint16_t infinity;

  // Infinity counts as the number that would follow the largest one: that is where rounding to nearest sees it.
  double magnitude(uint32_t bits) const {
    const uint32_t mantissa = bits & ((1u << mantissaBits) - 1);
    const int exponent = static_cast<int>(bits >> mantissaBits);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissaBits);
    return std::ldexp((1u << mantissaBits) + mantissa, exponent - bias - mantissaBits);
  }

  // The nearest number, in a tie the one whose last bit is 0.
  uint16_t nearest(float x) const {
    const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
    if (std::isnan(x)) return static_cast<uint16_t>(sign | infinity | (1u << (mantissaBits - 1)));
    const double wanted = std::fabs(static_cast<double>(x));
    if (wanted >= magnitude(infinity)) return static_cast<uint16_t>(sign | infinity);
    uint32_t low = 0;
    uint32_t high = infinity;
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (magnitude(middle) <= wanted ? low : high) = middle;
    }
    const double half = (magnitude(low) + magnitude(high)) / 2;
    const bool up = wanted > half || (wanted == half && (low & 1) != 0);
    return static_cast<uint16_t>(sign | (up ? high : low));
  }
};

constexpr Format kHalf{10, 15, 0x7c00};
constexpr Format kBfloat{7, 127, 0x7f80};

// Every number of the format, every midpoint of two neighbours, and the floats just below and above them.
std::vector<float> boundaryFloats(const Format& format) {
  std::vector<float> floats;
  for (uint32_t bits = 0; bits < format.infinity; ++bits) {
    const double here = format.magnitude(bits);
    const double next = format.magnitude(bits + 1);
    for (const double centre : {here, (here + next) / 2, next}) {
      const auto x = static_cast<float>(centre);
      for (const float near : {std::nextafterf(x, -1), x, std::nextafterf(x, std::numeric_limits<float>::infinity())}) {
        floats.push_back(near);
        floats.push_back(-near);
      }
    }
  }
  return floats;
}

// Number of floats that convert to something other than the reference says; the first of them is shown.
template <class Convert>
uint64_t wrongConversions(const Format& format, const std::vector<float>& floats, Convert convert) {
  uint64_t wrong = 0;
  for (const float x : floats) {
    const uint16_t got = convert(x);
    if (got == format.nearest(x)) continue;
    if (wrong++ == 0) UNSCOPED_INFO(fmt::format("{:#x} became {:#x}, not {:#x}", bitsOf(x), got, format.nearest(x)));
  }
  return wrong;
}

std::vector<float> randomFloats(uint64_t count) {
  Random random(1);
  std::vector<float> floats(count);
  for (float& x : floats) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
  return floats;
}

// Floats with exponents where halves are, so that rounding is exercised more often than overflow.
std::vector<float> halfSizedFloats(uint64_t count) {
  Random random(2);
  std::vector<float> floats(count);
  for (float& x : floats) {
    const auto bits = static_cast<uint32_t>(random());
    x = std::bit_cast<float>((bits & 0x807fffffu) | ((100 + (bits >> 23) % 46) << 23));
  }
  return floats;
}

// Widening is exact, and narrowing gets the same bits back; NaNs come out quiet, narrowed to the canonical one.
template <class T>
uint64_t wrongRoundTrips(const Format& format, T (*narrow)(float)) {
  uint64_t wrong = 0;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto sign = static_cast<uint16_t>(bits & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffu;
    const float wide = toFloat(T{static_cast<uint16_t>(bits)});
    bool right = std::signbit(wide) == (sign != 0);
    if (magnitude > format.infinity)
      right = right && std::isnan(wide) &&
              narrow(wide).bits == (sign | format.infinity | (1u << (format.mantissaBits - 1)));
    else if (magnitude == format.infinity)
      right = right && std::isinf(wide) && narrow(wide).bits == bits;
    else
      right = right && std::fabs(static_cast<double>(wide)) == format.magnitude(magnitude) && narrow(wide).bits == bits;
    if (!right && wrong++ == 0) UNSCOPED_INFO(fmt::format("{:#x} widens to {:#x}", bits, bitsOf(wide)));
  }
  return wrong;
}

TEST_CASE("every half survives the round trip") {
  CHECK(wrongRoundTrips<Half>(kHalf, [](float x) { return toHalf(x); }) == 0);
}

TEST_CASE("every bfloat survives the round trip") {
  CHECK(wrongRoundTrips<Bfloat>(kBfloat, [](float x) { return toBfloat(x); }) == 0);
}

TEST_CASE("a signalling half widens to a quiet NaN with its payload") {
  CHECK(bitsOf(toFloat(Half{0x7c01})) == 0x7fc02000u);
  CHECK(bitsOf(toFloat(Half{0xfe55})) == 0xffcaa000u);
}

TEST_CASE("toHalf rounds to nearest even") {
  const auto convert = [](float x) { return toHalf(x).bits; };
  CHECK(wrongConversions(kHalf, boundaryFloats(kHalf), convert) == 0);
  CHECK(wrongConversions(kHalf, randomFloats(1000000), convert) == 0);
  CHECK(wrongConversions(kHalf, halfSizedFloats(1000000), convert) == 0);
}

TEST_CASE("toBfloat rounds to nearest even") {
  const auto convert = [](float x) { return toBfloat(x).bits; };
  CHECK(wrongConversions(kBfloat, boundaryFloats(kBfloat), convert) == 0);
  CHECK(wrongConversions(kBfloat, randomFloats(2000000), convert) == 0);
}

TEST_CASE("narrowing at the edges of the formats") {
  struct Row {
    float x;
    uint16_t half;
    uint16_t bfloat;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const Row rows[] = {
      {0.0F, 0x0000, 0x0000},        {-0.0F, 0x8000, 0x8000},        {65504.0F, 0x7bff, 0x4780},
      {65519.996F, 0x7bff, 0x4780},  {65520.0F, 0x7c00, 0x4780},     {-65520.0F, 0xfc00, 0xc780},
      {0x1p-24F, 0x0001, 0x3380},    {0x1p-25F, 0x0000, 0x3300},     {0x1.000002p-25F, 0x0001, 0x3300},
      {-0x1.8p-24F, 0x8002, 0xb3c0}, {0x1.ffcp-15F, 0x0400, 0x3880}, {0x1.ff8p-15F, 0x03ff, 0x3880},
      {infinity, 0x7c00, 0x7f80},    {-infinity, 0xfc00, 0xff80},    {0x1.fffffep127F, 0x7c00, 0x7f80},
      {0x1.fep127F, 0x7c00, 0x7f7f}, {0x1p-149F, 0x0000, 0x0000},    {0x1.8p-133F, 0x0000, 0x0002},
  };
  for (const Row& row : rows) {
    CAPTURE(row.x);
    CHECK(toHalf(row.x).bits == row.half);
    CHECK(toBfloat(row.x).bits == row.bfloat);
  }
}

TEST_CASE("NaNs narrow to the canonical NaN of their sign") {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t payload = 1 + static_cast<uint32_t>(random()) % 0x7fffffu;
    const uint32_t sign = i % 2 == 0 ? 0 : 0x80000000u;
    const auto x = std::bit_cast<float>(sign | 0x7f800000u | payload);
    REQUIRE(toHalf(x).bits == ((sign >> 16) | 0x7e00u));
    REQUIRE(toBfloat(x).bits == ((sign >> 16) | 0x7fc0u));
  }
}

// Magnitudes as tests read them: strictly growing.
template <class A>
std::vector<A> growingMagnitudes() {
  using Limits = std::numeric_limits<A>;
  return {A{0},
          Limits::denorm_min(),
          Limits::min() - Limits::denorm_min(),
          Limits::min(),
          A{0.5},
          std::nextafter(A{1}, A{0}),
          A{1},
          Limits::max(),
          Limits::infinity(),
          Limits::quiet_NaN()};
}

TEMPLATE_TEST_CASE("magnitudes are ordered: finite below Inf below NaN and signs do not count", "", float, double) {
  const std::vector<TestType> growing = growingMagnitudes<TestType>();
  for (size_t i = 0; i < growing.size(); ++i) {
    CAPTURE(i);
    CHECK(Magnitude<TestType>::of(growing[i]) == Magnitude<TestType>::of(-growing[i]));
    if (i > 0) CHECK(Magnitude<TestType>::of(growing[i - 1]) < Magnitude<TestType>::of(growing[i]));
    if (i + 1 < growing.size()) CHECK(Magnitude<TestType>::value(Magnitude<TestType>::of(growing[i])) == growing[i]);
    CHECK(isFinite(growing[i]) == std::isfinite(growing[i]));
    CHECK(isFinite(-growing[i]) == std::isfinite(growing[i]));
  }
  CHECK(Magnitude<TestType>::of(std::numeric_limits<TestType>::infinity()) == Magnitude<TestType>::kInfinity);
}

TEST_CASE("keyOfThreshold: the least float that is not below the threshold") {
  Random random(4);
  std::vector<double> thresholds = {0, 0x1p-149, 0x1p-150, 0x1.8p-149, 1e-50, 1, 1.0 + 0x1p-24, 1.0 + 0x1p-23, 3.4e38};
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<uint32_t>(random()) % 0x7f7fffffu;
    thresholds.push_back(static_cast<double>(std::bit_cast<float>(bits)));
    thresholds.push_back(static_cast<double>(std::bit_cast<float>(bits)) * (1 + 0x1p-24 * static_cast<double>(i % 5)));
  }
  uint64_t wrong = 0;
  for (const double threshold : thresholds) {
    const uint64_t key = keyOfThreshold(threshold, false);
    const bool enough = thresholdOfKey(key, false) >= threshold;
    const bool least = key == 0 || thresholdOfKey(key - 1, false) < threshold;
    if ((!enough || !least) && wrong++ == 0) UNSCOPED_INFO(fmt::format("threshold {} has key {:#x}", threshold, key));
  }
  CHECK(wrong == 0);
}

TEST_CASE("keyOfThreshold at the ends of the scale") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(keyOfThreshold(0, false) == 0);
  CHECK(keyOfThreshold(1e-300, false) == 1);
  CHECK(keyOfThreshold(std::numeric_limits<float>::max(), false) == 0x7f7fffffu);
  CHECK(keyOfThreshold(3.4028235e38, false) == 0x7f800000u);  // a little above the largest float
  CHECK(keyOfThreshold(1e300, false) == 0x7f800000u);
  CHECK(keyOfThreshold(infinity, false) == 0x7f800000u);
  CHECK(keyOfThreshold(0, true) == 0);
  CHECK(keyOfThreshold(infinity, true) == Magnitude<double>::kInfinity);
}

TEST_CASE("keyOfThreshold of doubles is their bits") {
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const double threshold = std::fabs(test::laplace(random));
    REQUIRE(keyOfThreshold(threshold, true) == bitsOf(threshold));
    REQUIRE(thresholdOfKey(keyOfThreshold(threshold, true), true) == threshold);
  }
}

TEST_CASE("fusedMultiplyAdd rounds once") {
  const float a = 1 + 0x1p-12F;
  CHECK(fusedMultiplyAdd(a, a, -1.0F) == 0x1p-11F + 0x1p-24F);
  const double b = 1 + 0x1p-30;
  CHECK(fusedMultiplyAdd(b, b, -1.0) == 0x1p-29 + 0x1p-60);
}

TEST_CASE("element types know their sizes and what they are summed in") {
  CHECK(elementBytes(sparsecollFloat16) == 2);
  CHECK(elementBytes(sparsecollBfloat16) == 2);
  CHECK(elementBytes(sparsecollFloat32) == 4);
  CHECK(elementBytes(sparsecollFloat64) == 8);
  CHECK(accumulateTypeOf(sparsecollFloat64) == sparsecollFloat64);
  for (const sparsecollDataType_t type : {sparsecollFloat16, sparsecollBfloat16, sparsecollFloat32}) {
    CHECK(accumulateTypeOf(type) == sparsecollFloat32);
    CHECK(isElementType(type));
    CHECK(withElement(type, []<class T>(T) { return Element<T>::kType; }) == type);
  }
  CHECK_FALSE(isElementType(5));
  CHECK_FALSE(isElementType(10));
}

}  // namespace
}  // namespace sparsecoll
