// What the benchmarks of a device take for wrong: lists that are right, and every way in which one can be wrong.
#include "bench/device/wrong.h"

#include <functional>
#include <string>
#include <vector>

#include "bench/device/cuda_objects.h"
#include "core/numeric.h"
#include "tests/support/catch.h"

using namespace bench;

namespace {

uint64_t keyOf(float x) { return sparsecoll::Magnitude<float>::of(x); }

sparsecoll::Window windowOf(uint64_t begin, uint64_t end, uint64_t limit, bool exact, float threshold) {
  sparsecoll::Window window{};
  window.begin = begin;
  window.end = end;
  window.limit = limit;
  window.exact = exact ? 1 : 0;
  window.key = keyOf(threshold);
  return window;
}

// Two entries exactly, three at most from 4 on, and nothing of the rest.
struct Selected {
  std::vector<float> acc = {1, -5, 3, 0, 4, -4, 9, 0.5f, 7, 2};
  std::vector<sparsecoll::Window> windows = {windowOf(0, 4, 2, true, 100), windowOf(4, 8, 3, false, 4),
                                             windowOf(8, 10, 0, true, 1)};
  std::vector<uint32_t> indices = {1, 2, 4, 5, 6};
  std::vector<float> values = {-5, 3, 4, -4, 9};

  uint64_t wrong() const {
    const DeviceArray<float> accThere(acc.size()), valuesThere(8);
    const DeviceArray<sparsecoll::Window> windowsThere(windows.size());
    const DeviceArray<uint32_t> indicesThere(8);
    accThere.load(acc.data(), acc.size());
    windowsThere.load(windows.data(), windows.size());
    indicesThere.load(indices.data(), indices.size());
    valuesThere.load(values.data(), values.size());
    return wrongEntries({accThere.get(), acc.size(), windowsThere.get(), static_cast<uint32_t>(windows.size()),
                         indicesThere.get(), valuesThere.get(), static_cast<uint32_t>(indices.size())},
                        nullptr);
  }
};

}  // namespace

TEST_CASE("a list that is right, and lists that are not") {
  struct Row {
    std::string what;
    std::function<void(Selected&)> damage;
    uint64_t wrong;
  };
  const std::vector<Row> rows = {
      {"nothing", [](Selected&) {}, 0},
      {"the limit takes less than the threshold",
       [](Selected& s) {
         s.windows[1].limit = 1;
         s.indices = {1, 2, 6};
         s.values = {-5, 3, 9};
       },
       0},
      {"the cut's own threshold is higher than the pass's", [](Selected& s) { s.windows[1].least = keyOf(8); }, 2},
      {"another value", [](Selected& s) { s.values[4] = 8; }, 1},
      {"the other sign", [](Selected& s) { s.values[2] = -4; }, 1},
      // What it stands for is missing, and larger than what was taken; and it is in no window.
      {"an index beyond the vector", [](Selected& s) { s.indices[4] = 10; }, 4},
      {"two entries have changed places",
       [](Selected& s) {
         std::swap(s.indices[0], s.indices[1]);
         std::swap(s.values[0], s.values[1]);
       },
       1},
      {"one too few of a limit",
       [](Selected& s) {
         s.indices.erase(s.indices.begin() + 1);
         s.values.erase(s.values.begin() + 1);
       },
       1},
      {"one that does not reach the threshold",
       [](Selected& s) {
         s.indices = {1, 2, 4, 5, 6, 7};
         s.values = {-5, 3, 4, -4, 9, 0.5f};
       },
       1},
      {"a smaller one in place of a larger one",
       [](Selected& s) {
         s.indices[1] = s.indices[0];
         s.values[1] = s.values[0];
         s.indices[0] = 0;
         s.values[0] = 1;
       },
       1},
      {"one of a window that takes nothing",
       [](Selected& s) {
         s.indices.push_back(8);
         s.values.push_back(7);
       },
       1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Selected selected;
    row.damage(selected);
    CHECK(selected.wrong() == row.wrong);
  }
}
