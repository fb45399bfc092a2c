// MiCRO: partitions, the published rule, and the default controller over many steps.
#include <cmath>
#include <numeric>
#include "tests/support/catch.h"

#include "selectors/ladder.h"
#include "tests/unit/cut_step.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;

SelectionRequest requestOf(uint64_t n, int ranks, double density, bool faithful = false) {
  SelectionRequest request;
  request.n = n;
  request.ranks = ranks;
  request.density = request.maxDensity = density;
  request.params.faithful = faithful ? 1 : 0;
  return request;
}

// The partition of a rank in an iteration, as the rule before the pass sets it.
Window windowOf(const SelectionPlan& plan, uint64_t n, uint32_t ranks, uint32_t rank, uint64_t iteration) {
  Window window{};
  window.room = plan.capacity;
  Control control{};
  control.iteration = iteration;
  control.k = plan.k;
  control.threshold = 0.5;
  control.rank = rank;
  control.ranks = ranks;
  control.n = n;
  control.windows = &window;
  control.windowCount = 1;
  std::vector<uint64_t> trials(kTrials);
  std::vector<double> counts(uint64_t{ranks} * kLadderRow);
  control.selector.as<LadderState>().trials = trials.data();
  control.selector.as<LadderState>().counts = counts.data();
  plan.before->onHost(control);
  return window;
}

TEST_CASE("partitions are the published ones") {
  const uint64_t begins[] = {0, 3, 6, 8, 10};
  for (const bool faithful : {false, true}) {
    auto plan = selectorRow(sparsecollSelectMicro)->plan(requestOf(10, 4, 0.5, faithful));
    for (uint64_t t = 0; t < 9; ++t)
      for (uint32_t rank = 0; rank < 4; ++rank) {
        CAPTURE(faithful, t, rank);
        const Window window = windowOf(*plan, 10, 4, rank, t);
        CHECK(window.begin == begins[(t + rank) % 4]);
        CHECK(window.end == begins[(t + rank) % 4 + 1]);
      }
  }
}

TEST_CASE("partitions are disjoint and cover the vector in every iteration") {
  for (const uint64_t n : {1, 5, 16, 17, 1000, 1003})
    for (uint32_t ranks = 1; ranks <= 17; ++ranks) {
      CAPTURE(n, ranks);
      auto plan = selectorRow(sparsecollSelectMicro)->plan(requestOf(n, static_cast<int>(ranks), 0.5));
      std::vector<std::vector<uint64_t>> owned(ranks);  // where the partitions of a rank began
      for (uint64_t t = 0; t < ranks; ++t) {
        std::vector<Window> windows;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          windows.push_back(windowOf(*plan, n, ranks, rank, t + 7 * uint64_t{ranks}));
          owned[rank].push_back(windows.back().begin * 1000 + windows.back().end);
        }
        const auto byBegin = [](const Window& a, const Window& b) {
          return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
        };
        std::sort(windows.begin(), windows.end(), byBegin);
        uint64_t at = 0;
        for (const Window& window : windows) {
          REQUIRE(window.begin == at);
          REQUIRE(window.end - window.begin <= (n + ranks - 1) / ranks);
          REQUIRE(window.end - window.begin >= n / ranks);
          at = window.end;
        }
        REQUIRE(at == n);
      }
      for (auto& partitions : owned) std::sort(partitions.begin(), partitions.end());
      for (const auto& partitions : owned) CHECK(partitions == owned[0]);  // every rank has had every one
    }
}

TEST_CASE("the published first threshold") {
  struct Row {
    uint64_t n, k;
    double threshold;
  };
  const Row rows[] = {{11173962, 11173, 4.73026e-3},
                      {11220132, 11220, 4.72034e-3},
                      {28949319, 28949, 2.93869e-3},
                      {31832577, 31832, 2.80245e-3}};
  for (const Row& row : rows) {
    auto plan = selectorRow(sparsecollSelectMicro)->plan(requestOf(row.n, 4, 0.001, true));
    CAPTURE(row.n);
    CHECK(plan->k == row.k);
    CHECK(plan->threshold == Approx(row.threshold).epsilon(1e-5));
    CHECK(plan->capacity == (row.n + 3) / 4);
  }
  SelectionRequest given = requestOf(1000, 4, 0.01, true);
  given.params.threshold = 0.25;
  CHECK(selectorRow(sparsecollSelectMicro)->plan(given)->threshold == 0.25);
}

TEST_CASE("the published factors as coded") {
  struct Row {
    uint64_t delivered;  // of 1000 wanted
    double factor;
  };
  const Row rows[] = {{1200, 1.005},  {1101, 1.005},  {1100, 1.00125}, {1050, 1.00125}, {1000, 1.00125},
                      {950, 1.00125}, {910, 1.00125}, {909, 0.995},    {500, 0.995},    {0, 0.995}};
  auto plan = selectorRow(sparsecollSelectMicro)->plan(requestOf(100000, 4, 0.01, true));
  for (const Row& row : rows) {
    CAPTURE(row.delivered);
    Control control{};
    control.k = 1000;
    control.threshold = 2;
    control.delivered = row.delivered;
    plan->afterExchange->onHost(control);
    CHECK(control.threshold == 2 * row.factor);
  }
}

TEST_CASE("a published threshold that only rises, or only falls, comes back") {
  auto plan = selectorRow(sparsecollSelectMicro)->plan(requestOf(100000, 4, 0.01, true));
  for (const bool isDouble : {true, false})
    for (const bool rises : {true, false}) {
      CAPTURE(isDouble, rises);
      const double most = isDouble ? 1e300 : 1e38;
      Control control{};
      control.k = 1000;
      control.isDouble = isDouble ? 1 : 0;
      control.threshold = 1;
      const auto move = [&](uint64_t delivered, int times) {
        control.delivered = delivered;
        for (int i = 0; i < times; ++i) plan->afterExchange->onHost(control);
      };
      move(rises ? 1200 : 0, 200000);
      CHECK(control.threshold == (rises ? most : 1 / most));
      const double at = control.threshold;
      move(rises ? 0 : 1200, 1);
      CHECK(control.threshold == at * (rises ? 0.995 : 1.005));
    }
}

TEST_CASE("a faithful rank that selects nothing sends one index of its partition") {
  const uint64_t n = 100;
  SelectionRequest request = requestOf(n, 4, 0.05, true);
  request.params.threshold = 1e6;
  SelectionRun<float> run(selectorRow(sparsecollSelectMicro)->plan, request, true);
  for (uint64_t t = 0; t < 60; ++t) {
    CAPTURE(t);
    CHECK(run.step(gradientsOf<float>(4, n, t)) == 4);
    for (size_t r = 0; r < 4; ++r) {
      const uint64_t part = (t + r) % 4;
      REQUIRE(run.lists[r].size() == 1);
      CHECK(run.lists[r][0] == part * 25 + t % 25);
      CHECK(test::sameBits(run.values[r][0], run.accumulated[r][run.lists[r][0]]));
    }
  }
}

TEST_CASE("nothing is forced where nothing is wanted or no element is owned") {
  SelectionRequest nothing = requestOf(100, 4, 0, true);
  nothing.maxDensity = 0.1;
  nothing.selectNothing = true;
  SelectionRun<float> silent(selectorRow(sparsecollSelectMicro)->plan, nothing, true);
  CHECK(silent.step(gradientsOf<float>(4, 100, 1)) == 0);
  SelectionRequest shorter = requestOf(3, 8, 1, true);
  shorter.params.threshold = 1e6;
  SelectionRun<float> few(selectorRow(sparsecollSelectMicro)->plan, shorter, true);
  for (uint64_t t = 0; t < 16; ++t) CHECK(few.step(gradientsOf<float>(8, 3, t)) == 3);
}

TEST_CASE("the first default step selects exactly its share in each partition") {
  const uint64_t n = 10007;
  SelectionRun<float> run(selectorRow(sparsecollSelectMicro)->plan, requestOf(n, 4, 0.01), true);
  CHECK(run.step(gradientsOf<float>(4, n, 1)) == 100);
  for (size_t r = 0; r < 4; ++r) {
    const uint64_t first = r * 2502;  // three partitions of 2502 elements, one of 2501
    const uint64_t last = std::min(n, first + 2502);
    const auto wanted = test::expectedSelection(run.accumulated[r], {{first, last, 25}});
    CHECK(test::difference(run.lists[r], wanted.indices) == "");
    CHECK(run.control(r).threshold == 0);  // there is no common one in such a step
  }
  run.step(gradientsOf<float>(4, n, 2));
  CHECK(run.control().threshold > 0);
  for (size_t r = 1; r < 4; ++r) CHECK(run.control(r).threshold == run.control(0).threshold);
}

TEST_CASE("a share that does not divide goes to the first partitions") {
  SelectionRun<float> run(selectorRow(sparsecollSelectMicro)->plan, requestOf(1000, 4, 0.01), true);
  CHECK(run.step(gradientsOf<float>(4, 1000, 1)) == 10);
  const size_t counts[] = {3, 3, 2, 2};
  for (size_t r = 0; r < 4; ++r) CHECK(run.lists[r].size() == counts[r]);
}

struct Course {
  std::vector<double> ratios;  // K / k of every step
  double mean(size_t from, size_t to) const {
    return std::accumulate(ratios.begin() + static_cast<int64_t>(from), ratios.begin() + static_cast<int64_t>(to),
                           0.0) /
           static_cast<double>(to - from);
  }
};

// Runs the default controller; scaleOf(step) is the gradients'.
template <class A, class Scale>
Course courseOf(uint64_t n, int ranks, double density, uint64_t steps, Scale scaleOf) {
  SelectionRun<A> run(selectorRow(sparsecollSelectMicro)->plan, requestOf(n, ranks, density), true);
  Course course;
  for (uint64_t step = 0; step < steps; ++step) {
    const uint64_t delivered = run.step(gradientsOf<A>(run.ranks(), n, step, scaleOf(step)));
    course.ratios.push_back(static_cast<double>(delivered) / static_cast<double>(run[0].k()));
    for (size_t r = 1; r < run.ranks(); ++r)
      if (!test::sameBits(run.control(r).threshold, run.control(0).threshold))
        FAIL("thresholds differ in step " << step);
  }
  return course;
}

// Largest |K / k - 1| from a step on.
double worst(const Course& course, size_t from) {
  double most = 0;
  for (size_t step = from; step < course.ratios.size(); ++step)
    most = std::max(most, std::abs(course.ratios[step] - 1));
  return most;
}

TEST_CASE("every step is near k, also while residuals grow") {
  struct Row {
    uint64_t n;
    int ranks;
    double density;
    double most;
  };
  for (const Row& row : {Row{24000, 4, 0.01, 0.1}, Row{24000, 8, 0.01, 0.1}, Row{24000, 1, 0.01, 0.1},
                         Row{100000, 4, 0.001, 0.1}, Row{24000, 2, 0.1, 0.1}}) {
    CAPTURE(row.n, row.ranks, row.density);
    const Course course = courseOf<float>(row.n, row.ranks, row.density, 150, [](uint64_t) { return 1.0; });
    CHECK(worst(course, 0) <= row.most);
    CHECK(course.mean(5, 150) == Approx(1).margin(0.02));
  }
}

TEST_CASE("a tenfold change of scale, up and down, is followed within five steps") {
  const Course course = courseOf<float>(24000, 4, 0.01, 200, [](uint64_t step) {
    return step < 60 ? 1.0 : step < 130 ? 0.1 : 2.0;
  });
  CHECK(worst(course, 0) <= 0.1);
}

TEST_CASE("a message too short keeps the largest and the rest stays") {
  const uint64_t n = 4000;
  SelectionRun<float> run(selectorRow(sparsecollSelectMicro)->plan, requestOf(n, 4, 0.01), true);
  REQUIRE(run[0].capacity() == 25);  // 2.5 k / P
  // From the second step on, what is large lies in one partition.
  const auto hot = [&](uint64_t step) {
    auto gradients = gradientsOf<float>(4, n, step);
    for (auto& gradient : gradients)
      for (uint64_t i = 0; i < n; ++i) gradient[i] *= i < 1000 ? 100.0F : 1e-3F;
    return gradients;
  };
  // The ranks' first magnitudes are a hundred thousand times apart; a common threshold is found by halving that.
  uint64_t steps = 0;
  while (run.control().threshold == 0 && steps < 8) {
    const uint64_t delivered = run.step(hot(++steps));
    CHECK(delivered == (run.control().threshold == 0 ? 40 : 25));
  }
  REQUIRE(run.control().threshold > 0);
  const size_t owner = (4 - (steps - 1) % 4) % 4;  // of the first partition
  CHECK(run.control(owner).overflows == 1);
  const auto wanted = test::expectedSelection(run.accumulated[owner], {{0, 1000, 25}});
  CHECK(test::difference(run.lists[owner], wanted.indices) == "");
}

TEST_CASE("silence is followed by exact steps until there is a threshold again") {
  const uint64_t n = 4000;
  SelectionRun<float> run(selectorRow(sparsecollSelectMicro)->plan, requestOf(n, 4, 0.01), true);
  const std::vector<std::vector<float>> zeros(4, std::vector<float>(n));
  for (int step = 0; step < 3; ++step) run.step(zeros);
  CHECK(run.control().threshold == 0);
  CHECK(run.step(gradientsOf<float>(4, n, 1)) == 40);
  const auto delivered = static_cast<double>(run.step(gradientsOf<float>(4, n, 2)));
  CHECK(delivered == Approx(40).margin(4));
}

TEST_CASE("silence after steps with a threshold is followed by steps near k again") {
  const uint64_t n = 4000;
  SelectionRun<float> run(selectorRow(sparsecollSelectMicro)->plan, requestOf(n, 4, 0.01), true);
  std::vector<std::vector<float>> few(4, std::vector<float>(n));
  for (auto& gradient : few)
    for (uint64_t i = 0; i < n; i += 100) gradient[i] = 1 + static_cast<float>(i) / 1000;  // all that a step sends
  CHECK(run.step(few) == 40);
  const std::vector<std::vector<float>> zeros(4, std::vector<float>(n));
  for (int step = 0; step < 4; ++step) run.step(zeros);
  uint64_t delivered = 0;
  for (uint64_t step = 1; step < 6; ++step) delivered = run.step(gradientsOf<float>(4, n, step));
  CHECK(static_cast<double>(delivered) == Approx(40).margin(4));
}

// A threshold travels as a float. Doubles beyond its range used to make it Inf, which no step comes down from.
TEST_CASE("gradients of any size of a double are followed") {
  for (const double scale : {1e-200, 1e-42, 1.0, 1e30, 1e200}) {
    CAPTURE(std::log10(scale));
    const Course course = courseOf<double>(8000, 4, 0.01, 30, [&](uint64_t) { return scale; });
    CHECK(course.mean(0, 30) == Approx(1).margin(0.03));
  }
}

}  // namespace
}  // namespace sparsecoll
