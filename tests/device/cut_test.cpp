// Pass and cut on a device: what is selected, and everything the rules read, as on the host.
#include <optional>
#include <string>

#include "tests/device/backends.h"
#include "tests/unit/cut_step.h"

namespace sparsecoll {
namespace {

using test::CutStep;
using test::Fill;
using test::Selected;
using test::WindowSpec;

template <class A>
std::string stateOf(const CutStep<A>& step, size_t windows) {
  const Control& control = step.control;
  std::string state = fmt::format("selected {} candidates {} overflows {} fallbacks {} infinite {}:", control.selected,
                                  control.candidates, control.overflows, control.fallbacks, control.nonFinite.count);
  for (uint32_t i = 0; i < std::min(control.nonFinite.count, kMaxNonFiniteIndices); ++i)
    state += fmt::format(" {}", control.nonFinite.indices[i]);
  for (size_t w = 0; w < windows; ++w) {
    const Window& window = step.window(w);
    state +=
        fmt::format("\n{}: found {} limit {} kept {} key {:#x} equals {} forced {} missed {}", w, window.found,
                    window.limit, window.kept, window.keptKey, window.keptEquals, window.keptForced, window.missed);
  }
  return state;
}

// capacity: of the target, where it has not room for everything.
template <class A>
void checkSame(const std::vector<A>& acc, const std::vector<WindowSpec>& windows, List::Values where,
               std::optional<uint64_t> capacity = {}) {
  const WorkspaceNeed need{acc.size(), windows.size(), 1, 1};
  test::BackEnd host = test::hostBackEnd(need);
  CutStep<A> expected(acc, windows, where);
  if (capacity) expected.setCapacity(*capacity);
  const Selected<A> wanted = expected.run(*host, true, host.stream());
  test::underSchedules([&] {
    test::BackEnd device = test::deviceBackEnd(need);
    for (int turn = 0; turn < 2; ++turn) {  // tables must be left as they are to be found
      CutStep<A> step(acc, windows, where);
      if (capacity) step.setCapacity(*capacity);
      const Selected<A> got = step.run(*device, true, device.stream());
      CHECK(difference(got, wanted) == "");
      CHECK(stateOf(step, windows.size()) == stateOf(expected, windows.size()));
      CHECK(test::difference(step.acc(), expected.acc()) == "");
      CHECK(device->findings(device.stream(), Deadline::in(600000)).ok());
    }
  });
}

// The key that `reach` entries of a stretch reach; what is not finite always reaches it.
template <class A>
uint64_t keyFor(const std::vector<A>& acc, uint64_t begin, uint64_t end, uint64_t reach) {
  const auto order = test::sortedByMagnitude(acc, begin, end);
  const uint64_t key = Magnitude<A>::of(acc[order[std::min<uint64_t>(reach, order.size() - 1)]]);
  return std::min(key, infinityKey(sizeof(A) == 8));
}

constexpr Fill kFills[] = {Fill::kSmooth, Fill::kTies, Fill::kEqual, Fill::kZero, Fill::kRange, Fill::kHostile};
#ifdef SPARSECOLL_TEST_SANITIZED
constexpr uint64_t kLengths[] = {1, 31, 8193};
constexpr Fill kFillsOfWindows[] = {Fill::kHostile};
constexpr uint64_t kMany = 90003;
#else
constexpr uint64_t kLengths[] = {1, 31, 8193, 70001};
constexpr Fill kFillsOfWindows[] = {Fill::kSmooth, Fill::kTies, Fill::kHostile};
constexpr uint64_t kMany = 300007;
#endif

TEMPLATE_TEST_CASE("one window over everything", "", float, double) {
  using A = TestType;
  for (const uint64_t n : kLengths)
    for (const Fill fill : kFills) {
      const auto acc = test::makeElements<A>(fill, n, n);
      const uint64_t limit = std::max<uint64_t>(1, n / 50);
      CAPTURE(n, static_cast<int>(fill), limit);
      const uint64_t held = keyFor(acc, 0, n, 2 * limit);
      const uint64_t tooHigh = keyFor(acc, 0, n, limit / 2);
      for (const uint64_t key : {held, tooHigh, uint64_t{0}, infinityKey(sizeof(A) == 8)}) {
        CAPTURE(key);
        checkSame<A>(acc, {{0, n, limit, key, 3 * limit + 8, true}}, List::Values::kPacked);
      }
      checkSame<A>(acc, {{0, n, n, 0, n, true}}, List::Values::kApart);
      checkSame<A>(acc, {{0, n, limit, held, 3 * limit + 8, false}}, List::Values::kApart);
      checkSame<A>(acc, {{0, n, 4 * limit, held, 5 * limit + 8, false}}, List::Values::kPacked);
      checkSame<A>(acc, {{0, n, 4 * limit, infinityKey(sizeof(A) == 8), 9, false, n / 2}}, List::Values::kPacked);
    }
}

TEMPLATE_TEST_CASE("many windows, with gaps, some empty, some large", "", float, double) {
  using A = TestType;
  const uint64_t n = kMany;
  for (const Fill fill : kFillsOfWindows) {
    const auto acc = test::makeElements<A>(fill, n, 5);
    std::vector<WindowSpec> windows;
    const uint64_t ends[][2] = {{0, 7},           {7, 7},           {7, 4096},       {5000, 8192},     {8192, 8192},
                                {8192, 16384},    {16385, 90000},   {90000, 90001},  {100000, 170000}, {170000, 170013},
                                {170013, 240000}, {240000, 240000}, {240100, 299999}};
    for (const auto& [begin, end] : ends) {
      if (end > n) break;
      const uint64_t length = end - begin;
      const uint64_t limit = std::min(length, length / 40 + 1);
      const uint64_t key = length == 0 ? 1 : keyFor(acc, begin, end, windows.size() % 3 == 2 ? limit / 2 : 2 * limit);
      windows.push_back({begin, end, limit, key, 3 * limit + 4, windows.size() % 4 != 3});
    }
    CAPTURE(static_cast<int>(fill));
    checkSame<A>(acc, windows, List::Values::kPacked);
  }
}

// More than the threads of the block that plans them, short ones: every entry is kept, or the largest, or none, or what
// reaches the key. Those that find no room are the last ones.
TEST_CASE("hundreds of windows, in a message with and without room for them") {
  constexpr uint64_t kWindows = 519;
  std::vector<WindowSpec> windows;
  for (uint64_t w = 0, begin = 0; w < kWindows; ++w) {
    const uint64_t length = w % 5 + w % 3;
    const uint64_t limit = w % 16 == 7 ? length / 2 : w % 4 == 1 ? 0 : length;
    windows.push_back({begin, begin + length, limit, Magnitude<float>::of(1.0F), length, w % 2 == 0});
    begin += length + w % 2;
  }
  const auto acc = test::makeElements<float>(Fill::kSmooth, windows.back().end, 7);
  const uint64_t wanted = test::expectedSelection(acc, windows).indices.size();
  for (const uint64_t capacity : {wanted, wanted / 2}) {
    CAPTURE(wanted, capacity);
    checkSame<float>(acc, windows, List::Values::kPacked, capacity);
  }
}

// One window has most of the work of three hundred: all blocks take part in it, and in its neighbours. Of the other
// large ones acc is read for one, and of one nothing but the forced entry goes out.
TEST_CASE("one huge window among three hundred") {
  constexpr uint64_t kHuge = 140, kDense = 141, kForced = 142, kEnd = 300;
  std::vector<uint64_t> bounds = {0};
  for (uint64_t w = 0; w < kEnd; ++w)
    bounds.push_back(bounds.back() + (w == kHuge ? kMany : w == kDense || w == kForced ? 65537 + w : w % 50));
  const auto acc = test::makeElements<float>(Fill::kTies, bounds.back(), 7);
  std::vector<WindowSpec> windows;
  for (uint64_t w = 0; w < kEnd; ++w) {
    const uint64_t length = bounds[w + 1] - bounds[w];
    const uint64_t limit = length / 100;
    const uint64_t key = length == 0 ? 1 : keyFor(acc, bounds[w], bounds[w + 1], w == kDense ? limit / 2 : 2 * limit);
    windows.push_back({bounds[w], bounds[w + 1], limit, key, 3 * limit + 8, w != kForced});
  }
  windows[kForced].key = infinityKey(false);
  windows[kForced].forced = bounds[kForced] + 77;
  checkSame<float>(acc, windows, List::Values::kPacked);
}

TEST_CASE("windows that are not what their plan has said are found") {
  for (const uint64_t length : {100, 70001}) {
    const auto acc = test::makeElements<float>(Fill::kSmooth, length, 7);
    const std::vector<WindowSpec> windows = {{0, length, 9, 0, length, true}};
    for (const WindowFacts& facts : {WindowFacts{0, 65536}, WindowFacts{65537, ~uint64_t{0}}, WindowFacts{}}) {
      CAPTURE(length, facts.shortest, facts.longest);
      test::BackEnd device = test::deviceBackEnd({length, 1, 1, 1});
      CutStep<float> step(acc, windows);
      step.facts = facts;
      (void)step.run(*device, true, device.stream());
      const bool fits = length >= facts.shortest && length <= facts.longest;
      const Status found = device->findings(device.stream(), Deadline::in(600000));
      CHECK(found.result() == (fits ? sparsecollSuccess : sparsecollInternalError));
      if (!fits) CHECK(std::string(found.failure().text.c_str()).find("window 0") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace sparsecoll
