// States that no reducer has written, with the checksum of one.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/oracle/saved_states.h"

using namespace sparsecoll::test;

namespace {

uint32_t crc32c(const Blob& bytes, size_t count) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < count; ++i) {
    crc ^= static_cast<uint32_t>(bytes[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

// With the right checksum for what it holds.
void seal(Blob& blob) {
  const uint32_t crc = crc32c(blob, blob.size() - 4);
  std::memcpy(blob.data() + blob.size() - 4, &crc, 4);
}

}  // namespace

TEST_CASE("a forged blob with a right checksum does no harm") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful, method.transactional);
    const sparsecollReducerConfig_t config = configOf(method);
    Group group(1, 40, sparsecollFloat32, paramsOf(method), &config);
    runSteps(group, 1, 2);
    const Blob good = exported(group.reducer(0));
    REQUIRE(good.size() > 40);
    uint32_t stored = 0;
    std::memcpy(&stored, good.data() + good.size() - 4, 4);
    REQUIRE(stored == crc32c(good, good.size() - 4));
    Random random(99);
    size_t badResults = 0;
    size_t badSteps = 0;
    size_t badResiduals = 0;
    for (int forgery = 0; forgery < 3000; ++forgery) {
      Blob bad = good;
      if (random.chance(0.2)) bad.resize(4 + random.below(good.size() + 64));
      const size_t body = bad.size() - 4;
      for (uint64_t changes = 1 + random.below(4); changes != 0 && body > 0; --changes) {
        const uint64_t at = random.below(body);
        bad[at] = static_cast<std::byte>(random.chance(0.5) ? 0xff : random.below(256));
        if (random.chance(0.3))  // a whole number
          for (uint64_t i = at; i < std::min<uint64_t>(body, at + 8); ++i) bad[i] = bad[at];
      }
      seal(bad);
      const sparsecollResult_t result =
          sparsecollReducerImportFrom(group.reducer(0), bad.data(), bad.size(), random.chance(0.5) ? 1 : 0, nullptr);
      if (result != sparsecollSuccess && result != sparsecollInvalidArgument && result != sparsecollCorrupted &&
          result != sparsecollUnsupported)
        ++badResults;
      if (group.step() != all(1, sparsecollSuccess)) ++badSteps;
      const Elements residual = group.residual(0);
      for (uint64_t i = 0; i < residual.size() && !config.transactional; ++i)
        if (!std::isfinite(residual[i])) ++badResiduals;
    }
    CHECK(badResults == 0);
    CHECK(badSteps == 0);
    CHECK(badResiduals == 0);
    REQUIRE(importInto(group.reducer(0), good) == sparsecollSuccess);
    runSteps(group, 3, 2);
  }
}

// Found by fuzzing: what followed the selection's state was ignored.
TEST_CASE("a forged blob that holds more than a state is refused") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful, method.transactional);
    const sparsecollReducerConfig_t config = configOf(method);
    Group group(1, 40, sparsecollFloat32, paramsOf(method), &config);
    runSteps(group, 1, 2);
    const Blob good = exported(group.reducer(0));
    const size_t vectors = group.residual(0).byteCount() * (paramsOf(method).momentum != 0 ? 2 : 1);
    Blob longer = good;
    longer.insert(longer.end() - static_cast<std::ptrdiff_t>(vectors + 4), 8, std::byte{0});
    seal(longer);
    CHECK(importInto(group.reducer(0), longer) == sparsecollCorrupted);
    CHECK(exported(group.reducer(0)) == good);
  }
}

TEST_CASE("a blob of another version is refused by name") {
  constexpr size_t kVersionAt = 4;  // behind the magic
  Group group(1, 40, sparsecollFloat32, preset("exdyna", 0.1));
  runSteps(group, 1, 2);
  const Blob good = exported(group.reducer(0));
  for (const uint32_t version : {0u, 3u, 5u, 7u}) {
    CAPTURE(version);
    Blob other = good;
    std::memcpy(other.data() + kVersionAt, &version, sizeof version);
    seal(other);
    CHECK(importInto(group.reducer(0), other) == sparsecollUnsupported);
    CHECK(std::string(sparsecollGetLastError()).find("state of version " + std::to_string(version)) !=
          std::string::npos);
    CHECK(exported(group.reducer(0)) == good);
  }
}
