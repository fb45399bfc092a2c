// The reader of bytes from outside, its writer, and the arithmetic of sizes.
#include "core/bytes.h"

#include "tests/support/catch.h"
#include <limits>
#include <vector>

#include "core/checked.h"
#include "tests/unit/data.h"

namespace sparsecoll {
namespace {

std::vector<std::byte> someBytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

TEST_CASE("what a writer wrote a reader reads") {
  Writer writer;
  writer.write<uint8_t>(0x11);
  writer.write<uint32_t>(0x22334455);
  writer.write<uint64_t>(0x66778899aabbccddull);
  writer.write<float>(-0.0F);
  writer.write<double>(1e-310);
  writer.append("tail", 4);
  CHECK(writer.bytes().size() == 1 + 4 + 8 + 4 + 8 + 4);

  Reader reader(writer.bytes());
  CHECK(reader.left() == writer.bytes().size());
  CHECK(*reader.read<uint8_t>() == 0x11);
  CHECK(*reader.read<uint32_t>() == 0x22334455);
  CHECK(*reader.read<uint64_t>() == 0x66778899aabbccddull);
  CHECK(test::bitsOf(*reader.read<float>()) == 0x80000000u);
  CHECK(*reader.read<double>() == 1e-310);
  auto tail = reader.take(4);
  REQUIRE(tail.ok());
  CHECK(std::memcmp(tail->data(), "tail", 4) == 0);
  CHECK(reader.left() == 0);
}

TEST_CASE("numbers are little-endian") {
  Writer writer;
  writer.write<uint32_t>(0x01020304);
  CHECK(std::to_integer<int>(writer.bytes()[0]) == 4);
  CHECK(std::to_integer<int>(writer.bytes()[3]) == 1);
}

// Reads a T from every place of a buffer: it succeeds exactly where sizeof(T) bytes are left.
template <class T>
void checkReadsOf() {
  for (size_t size = 0; size <= 2 * sizeof(T); ++size)
    for (size_t skip = 0; skip <= size; ++skip) {
      CAPTURE(sizeof(T), size, skip);
      const std::vector<std::byte> bytes = someBytes(size);
      Reader reader(bytes);
      REQUIRE(reader.take(skip).ok());
      auto value = reader.read<T>();
      REQUIRE(value.ok() == (size - skip >= sizeof(T)));
      if (value.ok()) {
        T wanted;
        std::memcpy(&wanted, bytes.data() + skip, sizeof wanted);
        CHECK(test::bitsOf(*value) == test::bitsOf(wanted));
        CHECK(reader.left() == size - skip - sizeof(T));
      } else {
        CHECK(value.takeStatus().result() == sparsecollCorrupted);
        CHECK(reader.left() == size - skip);  // a failed read takes nothing
      }
    }
}

TEST_CASE("a reader never reads past its bytes") {
  checkReadsOf<uint16_t>();
  checkReadsOf<uint32_t>();
  checkReadsOf<float>();
  checkReadsOf<uint64_t>();
  checkReadsOf<double>();
}

TEST_CASE("a reader takes parts up to its end and refuses more") {
  const std::vector<std::byte> bytes = someBytes(10);
  Reader reader(bytes);
  auto first = reader.take(7);
  REQUIRE(first.ok());
  CHECK(first->data() == bytes.data());
  for (const uint64_t length : {uint64_t{4}, uint64_t{10}, ~uint64_t{0}, ~uint64_t{0} - 6}) {
    CAPTURE(length);
    CHECK(reader.take(length).takeStatusOrOk().result() == sparsecollCorrupted);
    CHECK(reader.left() == 3);
  }
  CHECK(reader.take(3).ok());
  CHECK(reader.take(0).ok());
  CHECK_FALSE(reader.take(1).ok());
}

TEST_CASE("a reader of nothing") {
  Reader reader({});
  CHECK(reader.left() == 0);
  CHECK(reader.take(0).ok());
  CHECK_FALSE(reader.read<uint8_t>().ok());
}

using Wide = unsigned __int128;

void checkPair(uint64_t a, uint64_t b) {
  constexpr Wide kMost = std::numeric_limits<uint64_t>::max();
  auto product = checkedMul(a, b);
  auto sum = checkedAdd(a, b);
  const Wide wantedProduct = Wide{a} * b;
  const Wide wantedSum = Wide{a} + b;
  if (product.ok() == (wantedProduct <= kMost) && sum.ok() == (wantedSum <= kMost) &&
      (!product.ok() || *product == static_cast<uint64_t>(wantedProduct)) &&
      (!sum.ok() || *sum == static_cast<uint64_t>(wantedSum)))
    return;
  FAIL(fmt::format("{:#x} and {:#x}", a, b));
}

TEST_CASE("checked arithmetic against 128 bits") {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const uint64_t edges[] = {0,        1,   2, 3, 0xffffffff, 0x100000000, 0x100000001, most / 3, most / 2, most / 2 + 1,
                            most - 1, most};
  for (const uint64_t a : edges)
    for (const uint64_t b : edges) checkPair(a, b);
  test::Random random(1);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t a = random() >> test::below(random, 64);
    const uint64_t b = random() >> test::below(random, 64);
    checkPair(a, b);
    if (a != 0) checkPair(a, most / a);  // the edge itself
    if (a != 0 && most / a != most) checkPair(a, most / a + 1);
    checkPair(a, most - a);
    if (a != 0) checkPair(a, most - a + 1);
  }
  CHECK(checkedMul(most, 2).takeStatus().result() == sparsecollInvalidArgument);
  CHECK(checkedAdd(most, 1).takeStatus().result() == sparsecollInvalidArgument);
}

TEST_CASE("alignUp gives the least multiple that is not below") {
  for (const uint64_t alignment : {1, 2, 16, 64, 100})
    for (uint64_t value = 0; value < 300; ++value) {
      CAPTURE(alignment, value);
      const uint64_t aligned = alignUp(value, alignment);
      REQUIRE(aligned % alignment == 0);
      REQUIRE(aligned >= value);
      REQUIRE(aligned - value < alignment);
    }
  CHECK(alignUp((uint64_t{1} << 62) + 1, 16) == (uint64_t{1} << 62) + 16);
}

}  // namespace
}  // namespace sparsecoll
