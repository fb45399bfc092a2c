// The need-th largest of keys by a radix descent, beside a sort, on every instruction set.
#include "host/descent.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "tests/unit/data.h"
#include "tests/unit/isas.h"

namespace sparsecoll::host {
namespace {

template <class Key>
std::vector<Key> drawn(uint64_t count, uint64_t zeros, Key most, uint64_t seed) {
  test::Random random(seed);
  std::vector<Key> keys(count, Key{0});
  for (uint64_t i = zeros; i < count; ++i) keys[i] = 1 + static_cast<Key>(random()) % most;
  std::shuffle(keys.begin(), keys.end(), random);
  return keys;
}

template <class Key>
void checkMany(const std::vector<Key>& keys) {
  std::vector<Key> sorted = keys;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const uint64_t count = keys.size();
  for (const Isa* const isa : test::availableIsas()) {
    const auto descent = std::make_unique<Descent<Key>>(*isa);
    for (const uint64_t need : {uint64_t{1}, count / 100 + 1, count / 3, count / 2, count - count / 10, count}) {
      CAPTURE(isa->name, count, need);
      const Boundary<Key> found = descent->findAmongMany([&](uint64_t i) { return keys[i]; }, count, need);
      const Key key = sorted[need - 1];
      CHECK(found.key == key);
      const auto above = std::lower_bound(sorted.begin(), sorted.end(), key, std::greater<>()) - sorted.begin();
      CHECK(found.equals == need - static_cast<uint64_t>(above));
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("the need-th largest of many keys, zeros among them", "", uint32_t, uint64_t) {
  constexpr TestType kMost = ~TestType{0} >> 1;  // magnitudes have no sign
  for (const uint64_t count : {uint64_t{3000}, kGatherMost, kGatherMost + 1, uint64_t{30000}})
    for (const uint64_t zeros : {uint64_t{0}, count / 4, count - 5, count})
      for (const TestType most : {kMost, TestType{3}, TestType{100000}}) {
        CAPTURE(zeros, most);
        checkMany(drawn<TestType>(count, zeros, most - 1, count + zeros));
      }
}

// Where the sample of a walk over many keys sees only those that are unlike the others, the bracket is wrong.
TEMPLATE_TEST_CASE("the need-th largest of keys that a sample misleads about", "", uint32_t, uint64_t) {
  constexpr uint64_t kCount = 20480;  // every tenth key is in the sample
  for (const bool zerosInSample : {false, true}) {
    CAPTURE(zerosInSample);
    std::vector<TestType> keys = drawn<TestType>(kCount, 0, 100000, 7);
    for (uint64_t i = 0; i < kCount; ++i)
      if ((i % 10 == 0) == zerosInSample) keys[i] = 0;
    checkMany(keys);
  }
}

}  // namespace sparsecoll::host
