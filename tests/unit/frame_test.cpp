// Frames: their layout, and that nothing damaged or foreign is ever taken for one.
#include "core/frame.h"

#include "tests/support/catch.h"
#include <vector>

#include "core/control.h"
#include "host/host_kernels.h"
#include "tests/unit/data.h"

namespace sparsecoll {
namespace {

constexpr FrameExpectation kIdentity{41, 0x0123456789abcdefull};

constexpr FrameLayout kLayouts[] = {
    {40, 4, 4},  // pairs
    {40, 4, 8},  // pairs of doubles
    {40, 4, 0},  // indices
    {40, 0, 4},  // values
    {40, 0, 2},  // narrow values
    {0, 0, 0},   // a header alone
};

// A frame as kernels seal it; its bytes are exactly those that travel.
std::vector<std::byte> sealedFrame(const FrameLayout& layout, uint32_t count, bool withPayload,
                                   const std::vector<uint32_t>& nonFinite = {}) {
  std::vector<std::byte> frame(layout.capacityBytes(), std::byte{0});
  for (uint64_t i = kFrameHeaderBytes; i < layout.tailOffset(count); ++i) frame[i] = static_cast<std::byte>(i * 7 + 1);
  std::memcpy(frame.data() + offsetof(FrameHeader, count), &count, sizeof count);
  Control control{};
  control.announced = 0.25;
  control.nonFinite.count = static_cast<uint32_t>(nonFinite.size());
  for (size_t i = 0; i < nonFinite.size() && i < kMaxNonFiniteIndices; ++i) control.nonFinite.indices[i] = nonFinite[i];
  host::makeHostKernels()->seal({frame.data(), layout, kIdentity, &control, withPayload}, {});
  frame.resize(layout.usedBytes(readHeader(frame.data())));
  return frame;
}

// Puts the right checksum on a header that a test has changed.
void reseal(std::vector<std::byte>& frame, bool withPayload) {
  const uint32_t checksum = frameChecksum(frame.data(), frame.size(), withPayload);
  std::memcpy(frame.data() + kFrameChecksumOffset, &checksum, sizeof checksum);
}

Status checked(const std::vector<std::byte>& frame, const FrameLayout& layout, bool withPayload,
               FrameExpectation expected = kIdentity) {
  // A copy of the exact length, so that ASan sees a read past the frame.
  const std::vector<std::byte> exact(frame);
  return checkFrame(exact.data(), exact.size(), layout, expected, withPayload).takeStatusOrOk();
}

uint32_t crcOf(const char* text, uint32_t before = 0) {
  return crc32c({reinterpret_cast<const std::byte*>(text), std::strlen(text)}, before);
}

TEST_CASE("crc32c of known inputs") {
  CHECK(crcOf("123456789") == 0xe3069283u);
  CHECK(crcOf("") == 0);
  CHECK(crcOf("a") == 0xc1d04330u);
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{0})) == 0x8a9136aau);     // RFC 3720, B.4
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{0xff})) == 0x62a8ab43u);  // the same
}

TEST_CASE("crc32c goes on where it stopped") {
  CHECK(crcOf("6789", crcOf("12345")) == 0xe3069283u);
  CHECK(crcOf("", crcOf("123456789")) == 0xe3069283u);
}

TEST_CASE("offsets in a frame") {
  struct Row {
    FrameLayout layout;
    uint64_t count, values, tail, capacityBytes, used;
  };
  const Row rows[] = {
      {{10, 4, 4}, 0, 32, 32, 192, 32}, {{10, 4, 4}, 1, 48, 64, 192, 52},    {{10, 4, 4}, 4, 48, 64, 192, 64},
      {{10, 4, 4}, 5, 64, 96, 192, 84}, {{10, 4, 4}, 10, 80, 128, 192, 120}, {{10, 4, 8}, 10, 80, 160, 224, 160},
      {{10, 4, 0}, 3, 48, 48, 144, 44}, {{10, 0, 4}, 3, 32, 48, 144, 44},    {{10, 0, 2}, 5, 32, 48, 128, 42},
      {{0, 0, 0}, 0, 32, 32, 96, 32},
  };
  for (const Row& row : rows) {
    CAPTURE(row.layout.indexBytes, row.layout.valueBytes, row.count);
    FrameHeader header{};
    header.count = static_cast<uint32_t>(row.count);
    CHECK(row.layout.valuesOffset(row.count) == row.values);
    CHECK(row.layout.tailOffset(row.count) == row.tail);
    CHECK(row.layout.capacityBytes() == row.capacityBytes);
    CHECK(row.layout.usedBytes(header) == row.used);
    header.nonFinite = 1;
    CHECK(row.layout.usedBytes(header) == row.tail + 64);
    CHECK(row.layout.usedBytes(header) <= row.capacityBytes);
  }
}

TEST_CASE("offsets of very long frames do not wrap") {
  const FrameLayout layout{0xfffffffe, 4, 8};
  CHECK(layout.valuesOffset(layout.capacity) == alignUp(32 + 4 * uint64_t{0xfffffffe}, 16));
  CHECK(layout.capacityBytes() > 12 * uint64_t{0xfffffffe});
}

TEST_CASE("a sealed frame is accepted and says what was sealed") {
  for (const FrameLayout& layout : kLayouts)
    for (const bool withPayload : {false, true}) {
      const auto count = static_cast<uint32_t>(layout.capacity * 3 / 4);
      const auto frame = sealedFrame(layout, count, withPayload, {3, 5});
      auto header = checkFrame(frame.data(), frame.size(), layout, kIdentity, withPayload);
      REQUIRE(header.ok());
      CHECK(header->sequence == kIdentity.sequence);
      CHECK(header->plan == kIdentity.plan);
      CHECK(header->count == count);
      CHECK(header->flags == kFrameNonFinite);
      CHECK(header->nonFinite == 2);
      CHECK(unpackThreshold(header->threshold, false) == 0.25);
    }
}

TEST_CASE("a threshold fits a header as a float or as the upper half of a double") {
  for (const double x : {0.0, 0.25, 1e-30, 3e38}) {
    CAPTURE(x);
    CHECK(unpackThreshold(packThreshold(x, false), false) == static_cast<double>(static_cast<float>(x)));
    CHECK(unpackThreshold(packThreshold(x, true), true) == Approx(x).epsilon(1e-6));
    CHECK(unpackThreshold(packThreshold(x, true), true) <= x);
  }
  CHECK(unpackThreshold(packThreshold(1e300, true), true) == Approx(1e300).epsilon(1e-6));
}

TEST_CASE("every truncation is refused") {
  for (const FrameLayout& layout : kLayouts)
    for (const bool withPayload : {false, true})
      for (const auto& nonFinite : {std::vector<uint32_t>{}, std::vector<uint32_t>{1, 2}}) {
        auto frame = sealedFrame(layout, static_cast<uint32_t>(layout.capacity), withPayload, nonFinite);
        CHECK(checked(frame, layout, withPayload).ok());
        while (!frame.empty()) {
          frame.pop_back();
          REQUIRE(checked(frame, layout, withPayload).result() == sparsecollCorrupted);
        }
      }
}

TEST_CASE("every flipped bit of a header is refused") {
  for (const FrameLayout& layout : kLayouts)
    for (const bool withPayload : {false, true}) {
      auto frame = sealedFrame(layout, static_cast<uint32_t>(layout.capacity / 2), withPayload, {1});
      for (uint64_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
        CAPTURE(withPayload, bit);
        const std::byte mask = std::byte{1} << (bit % 8);
        frame[bit / 8] ^= mask;
        const sparsecollResult_t result = checked(frame, layout, withPayload).result();
        // Where the payload is covered, sequence and plan are compared before the length to check is known.
        const bool identity = withPayload && bit < 8 * offsetof(FrameHeader, count);
        REQUIRE(result == (identity ? sparsecollMismatch : sparsecollCorrupted));
        frame[bit / 8] ^= mask;
      }
    }
}

TEST_CASE("flipped bits of a payload are refused exactly where it is covered") {
  for (const FrameLayout& layout : kLayouts)
    for (const bool withPayload : {false, true}) {
      auto frame = sealedFrame(layout, static_cast<uint32_t>(layout.capacity / 2), withPayload, {1});
      for (uint64_t bit = 8 * kFrameHeaderBytes; bit < 8 * frame.size(); ++bit) {
        CAPTURE(withPayload, bit);
        const std::byte mask = std::byte{1} << (bit % 8);
        frame[bit / 8] ^= mask;
        REQUIRE(checked(frame, layout, withPayload).result() ==
                (withPayload ? sparsecollCorrupted : sparsecollSuccess));
        frame[bit / 8] ^= mask;
      }
    }
}

// Claims with a right checksum: made by a broken or hostile peer, not by a broken wire.
TEST_CASE("false claims are refused in spite of their checksum") {
  const FrameLayout layout{40, 4, 4};
  for (const bool withPayload : {false, true}) {
    for (const uint32_t count : {21u, 40u, 41u, 0x3fffffffu, 0xffffffffu}) {
      CAPTURE(withPayload, count);
      auto frame = sealedFrame(layout, 20, withPayload);
      std::memcpy(frame.data() + offsetof(FrameHeader, count), &count, sizeof count);
      reseal(frame, withPayload);
      CHECK(checked(frame, layout, withPayload).result() == sparsecollCorrupted);
    }
    for (const uint16_t nonFinite : {uint16_t{17}, uint16_t{255}, uint16_t{65535}}) {
      CAPTURE(withPayload, nonFinite);
      auto frame = sealedFrame(layout, 20, withPayload, {1});
      std::memcpy(frame.data() + offsetof(FrameHeader, nonFinite), &nonFinite, sizeof nonFinite);
      reseal(frame, withPayload);
      CHECK(checked(frame, layout, withPayload).result() == sparsecollCorrupted);
    }
    auto frame = sealedFrame(layout, 20, withPayload);
    const uint16_t one = 1;  // a tail that did not come
    std::memcpy(frame.data() + offsetof(FrameHeader, nonFinite), &one, sizeof one);
    reseal(frame, withPayload);
    CHECK(checked(frame, layout, withPayload).result() == sparsecollCorrupted);
  }
}

TEST_CASE("frames of other operations are mismatches that name the field") {
  const FrameLayout layout{40, 4, 4};
  for (const bool withPayload : {false, true}) {
    const auto frame = sealedFrame(layout, 20, withPayload);
    const Status later = checked(frame, layout, withPayload, {kIdentity.sequence + 1, kIdentity.plan});
    CHECK(later.result() == sparsecollMismatch);
    CHECK(later.failure().field == "sequence");
    const Status other = checked(frame, layout, withPayload, {kIdentity.sequence, kIdentity.plan ^ 1});
    CHECK(other.result() == sparsecollMismatch);
    CHECK(other.failure().field == "order");
    // A peer in another operation may have sent more than this rank has room for: still a mismatch, not damage.
    const Status larger = checked(frame, {10, 4, 4}, withPayload, {kIdentity.sequence, kIdentity.plan ^ 1});
    CHECK(larger.result() == sparsecollMismatch);
  }
}

}  // namespace
}  // namespace sparsecoll
