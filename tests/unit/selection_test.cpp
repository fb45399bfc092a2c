// What every method has in common: how many entries are asked for, plans, changing densities, saving and starting anew.
#include "selectors/selection.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "selectors/ladder.h"
#include "tests/support/catch.h"

#include "tests/unit/cut_step.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;

struct Method {
  const char* name;
  sparsecollSelect_t selector;
  bool faithful;
  bool clearsUnion;
};
constexpr Method kMethods[] = {{"topk", sparsecollSelectTopK, false, false},
                               {"threshold", sparsecollSelectThreshold, false, true},
                               {"micro", sparsecollSelectMicro, false, true},
                               {"micro, faithful", sparsecollSelectMicro, true, true}};

SelectionRequest requestOf(const Method& method, uint64_t n, double density, int ranks = 3) {
  SelectionRequest request;
  request.n = n;
  request.ranks = ranks;
  request.density = request.maxDensity = density;
  request.params.faithful = method.faithful ? 1 : 0;
  return request;
}

TEST_CASE("k is the floor of d n with a little help for rounded densities") {
  struct Row {
    double density;
    uint64_t n, k;
  };
  const Row rows[] = {
      {0, 10, 0},
      {-0.5, 10, 0},
      {0.1, 0, 0},
      {1e-9, 10, 1},
      {0.1, 10, 1},
      {0.19, 10, 1},
      {0.29, 100, 29},
      {0.57, 100, 57},
      {0.999, 1000, 999},
      {1, 7, 7},
      {1.5, 7, 7},
      {0.5, 1, 1},
      {0.001, 999, 1},
      {0.001, 2999, 2},
      {0.001, 11173962, 11173},
      {0.001, 11220132, 11220},
      {0.001, 28949319, 28949},
      {0.001, 31832577, 31832},
      {0.01, 0xfffffffe, 42949677},  // 42949672.94 and 1e-9 n = 4.29
  };
  for (const Row& row : rows) {
    CAPTURE(row.density, row.n);
    CHECK(entriesOf(row.density, row.n) == row.k);
  }
}

TEST_CASE("wanted entries come from k or from the density") {
  SelectionRequest request;
  request.n = 1000;
  request.density = 0.01;
  CHECK(wantedOf(request).now == 10);
  CHECK(wantedOf(request).most == 10);
  request.maxDensity = 0.25;
  CHECK(wantedOf(request).most == 250);
  request.density = 0;
  request.k = 300;
  CHECK(wantedOf(request).now == 300);
  CHECK(wantedOf(request).most == 300);
  request.k = 5000;
  CHECK(wantedOf(request).now == 1000);
  request.selectNothing = true;
  CHECK(wantedOf(request).now == 0);
  CHECK(wantedOf(request).most == 250);
}

TEST_CASE("every plan has room for what it may keep and candidates for more") {
  for (const Method& method : kMethods)
    for (const uint64_t n : {1, 2, 10, 1000, 100000})
      for (const double density : {0.001, 0.01, 0.3, 1.0}) {
        CAPTURE(method.name, n, density);
        auto plan = selectorRow(method.selector)->plan(requestOf(method, n, density));
        REQUIRE(plan.ok());
        CHECK(plan->k == entriesOf(density, n));
        uint64_t room = 0;
        for (const WindowPlan& window : plan->windows) {
          CHECK(window.limit <= window.room);
          CHECK(window.slots >= window.room);
          room += window.room;
        }
        CHECK(room == plan->capacity);
        CHECK(plan->capacity <= n);
        CHECK(plan->capacity >= 1);
      }
}

TEST_CASE("top-k plans one window a segment as soon as one has a density, and none where tensors are sent dense") {
  SelectionRequest request;
  request.n = 1000;
  request.density = request.maxDensity = 0.01;
  std::vector<sparsecollSegment_t> segments = {{100, 0, 0, 0}, {300, 0, 0, 0}, {50, 0, 0, 0}, {550, 0, 0, 0}};
  request.segments = segments;
  CHECK(selectorRow(sparsecollSelectTopK)->plan(request)->windows.size() == 1);
  segments[1].density = 0.1;
  segments[2].dense = 1;
  auto plan = selectorRow(sparsecollSelectTopK)->plan(request);
  REQUIRE(plan->windows.size() == 3);
  const uint64_t begins[] = {0, 100, 450};
  const uint64_t ends[] = {100, 400, 1000};
  const uint64_t limits[] = {1, 30, 5};
  for (size_t w = 0; w < 3; ++w) {
    CAPTURE(w);
    CHECK(plan->windows[w].begin == begins[w]);
    CHECK(plan->windows[w].end == ends[w]);
    CHECK(plan->windows[w].limit == limits[w]);
  }
  CHECK(plan->k == 36);
  CHECK(plan->capacity == 36);
  request.maxDensity = 0.02;  // for the segments without a density
  CHECK(selectorRow(sparsecollSelectTopK)->plan(request)->capacity == 2 + 30 + 11);
  segments[1].density = 0;
  plan = selectorRow(sparsecollSelectTopK)->plan(request);
  REQUIRE(plan->windows.size() == 1);  // the rest as one
  CHECK(plan->k == 9);                 // 0.01 of 950
}

TEST_CASE("a threshold is Dutta's unless one is given") {
  SelectionRequest request;
  request.n = 100000;
  request.density = request.maxDensity = 0.01;
  auto plan = selectorRow(sparsecollSelectThreshold)->plan(request);
  CHECK(plan->threshold == 1 / (2 * std::sqrt(1000.0)));
  CHECK(plan->windows[0].key == keyOfThreshold(plan->threshold, false));
  CHECK(plan->capacity == 4000);
  request.params.threshold = 0.7;
  request.accumulateType = sparsecollFloat64;
  plan = selectorRow(sparsecollSelectThreshold)->plan(request);
  CHECK(plan->threshold == 0.7);
  CHECK(plan->windows[0].key == std::bit_cast<uint64_t>(0.7));
  request.density = request.maxDensity = 0.9;
  CHECK(selectorRow(sparsecollSelectThreshold)->plan(request)->capacity == 100000);
}

// A step with more candidates than there is room for must not change what passes in the next one.
TEST_CASE("a threshold stays where it is") {
  const uint64_t n = 20000;
  SelectionRequest request;
  request.n = n;
  request.density = request.maxDensity = 0.01;
  request.params.threshold = 4;
  SelectionRun<float> run(selectorRow(sparsecollSelectThreshold)->plan, request, true);
  for (uint64_t step = 0; step < 6; ++step) {
    CAPTURE(step);
    const double scale = step % 2 == 0 ? 1 : 50;
    run.step(gradientsOf<float>(1, n, step, scale));
    const test::WindowSpec window{0, n, 800, keyOfThreshold(4, false), n, false};
    REQUIRE(test::difference(run.lists[0], test::expectedSelection(run.accumulated[0], {window}).indices) == "");
    if (step % 2 == 1) std::fill(run.residuals[0].begin(), run.residuals[0].end(), 0.0F);
  }
}

TEST_CASE("a density can change up to the largest that was planned for") {
  for (const Method& method : kMethods) {
    CAPTURE(method.name);
    SelectionRequest request = requestOf(method, 20000, 0.01);
    request.maxDensity = 0.05;
    SelectionRun<float> run(selectorRow(method.selector)->plan, request, method.clearsUnion);
    Selection& selection = run[0];
    const uint64_t capacity = selection.capacity();
    CHECK(selection.k() == 200);
    REQUIRE(selection.setDensity(0.05).ok());
    CHECK(selection.k() == 1000);
    CHECK(selection.control()->k == 1000);
    REQUIRE(selection.setDensity(0.001).ok());
    CHECK(selection.k() == 20);
    CHECK(selection.capacity() == capacity);
    if (!method.faithful) {  // a faithful MiCRO has room for everything
      CHECK(selection.setDensity(0.2).result() == sparsecollInvalidArgument);
      CHECK(selection.k() == 20);
      CHECK(selection.control()->k == 20);
    }
  }
}

TEST_CASE("top-k sends what the density of the step says") {
  SelectionRequest request = requestOf(kMethods[0], 20000, 0.01, 1);
  request.maxDensity = 0.1;
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, request, false);
  const double densities[] = {0.01, 0.1, 0.001, 0, 0.05, 0, 0.1};
  for (uint64_t step = 0; step < std::size(densities); ++step) {
    CAPTURE(step);
    REQUIRE(run[0].setDensity(densities[step]).ok());
    const uint64_t k = entriesOf(densities[step], 20000);
    CHECK(run.step(gradientsOf<float>(1, 20000, step)) == k);
    const auto wanted = test::expectedSelection(run.accumulated[0], {{0, 20000, k}}).indices;
    CHECK(test::difference(run.lists[0], wanted) == "");
  }
}

// Asked for by k, lowered, started anew and raised again: the messages are as long as they were planned.
TEST_CASE("a density that was lowered can be raised again after a reset") {
  for (const Method& method : kMethods) {
    CAPTURE(method.name);
    SelectionRequest request = requestOf(method, 20000, 0);
    request.k = 400;
    SelectionRun<float> run(selectorRow(method.selector)->plan, request, method.clearsUnion);
    const Window before = run.control().windows[0];
    REQUIRE(run[0].setDensity(0.005).ok());
    run[0].reset();
    REQUIRE(run[0].setDensity(0.02).ok());
    CHECK(run[0].k() == 400);
    CHECK(run.control().windows[0].room == before.room);
    CHECK(run.control().windows[0].limit == before.limit);
    CHECK(run.control().windows[0].slots == before.slots);
  }
}

// Lazy windows share their places; every other window has places of its own behind them.
TEST_CASE("no window's candidates lie where another's do") {
  std::vector<Method> methods(std::begin(kMethods), std::end(kMethods));
  methods.push_back({"deft", sparsecollSelectDeft, false, true});
  uint32_t lazy = 0;
  for (const Method& method : methods) {
    CAPTURE(method.name);
    const SelectionRequest request = requestOf(method, 20000, 0.01, 4);
    auto plan = selectorRow(method.selector)->plan(request);
    REQUIRE(plan.ok());
    SelectionRun<float> run(selectorRow(method.selector)->plan, request, method.clearsUnion);
    uint64_t next = plan->lazySlots;
    for (uint32_t w = 0; w < run.control().windowCount; ++w) {
      const Window& window = run.control().windows[w];
      CHECK(window.firstSlot == (window.lazy != 0 ? 0 : next));
      CHECK(window.slots == (window.lazy != 0 ? plan->lazySlots : plan->windows[w].slots));
      next += window.lazy != 0 ? 0 : window.slots;
      lazy += window.lazy != 0 ? 1 : 0;
    }
  }
  CHECK(lazy != 0);
}

// MiCRO's: what it knows of its threshold.
TEST_CASE("a state with a number that no step leaves is refused") {
  const SelectionRequest request = requestOf(kMethods[2], 20000, 0.01);
  const PlanFunction plan = selectorRow(sparsecollSelectMicro)->plan;
  SelectionRun<float> run(plan, request, true);
  for (uint64_t step = 0; step < 6; ++step) run.step(gradientsOf<float>(run.ranks(), request.n, step));
  Writer writer;
  run[0].save(writer);
  const std::vector<std::byte> saved(writer.bytes().begin(), writer.bytes().end());
  int refused = 0;
  for (size_t at = 0; at + sizeof(double) <= saved.size(); at += 4)
    for (const double value : {-0.5, 1.5, std::numeric_limits<double>::infinity(), std::nan("")}) {
      CAPTURE(at, value);
      std::vector<std::byte> damaged = saved;
      std::memcpy(damaged.data() + at, &value, sizeof value);
      SelectionRun<float> other(plan, request, true);
      Reader reader(damaged);
      if (!other[0].load(reader, false).ok()) {
        ++refused;
        continue;
      }
      Control control = other.control();
      const LadderState& state = ladder::of(control);
      for (const double one : {state.lowest, state.factor, state.last, state.high, control.threshold})
        CHECK((one >= 0 && one < std::numeric_limits<double>::infinity()));
      CHECK((state.spread >= 0 && state.spread <= 1));
      CHECK(std::abs(state.side) <= 1);
    }
  CHECK(refused > 20);
}

// Both runs go on with the same gradients and do the same.
void checkSame(SelectionRun<float>& a, SelectionRun<float>& b, uint64_t n, uint64_t steps, uint64_t seed) {
  for (uint64_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    const auto gradients = gradientsOf<float>(a.ranks(), n, seed + step);
    a.step(gradients);
    b.step(gradients);
    REQUIRE(a.lists == b.lists);
    for (size_t r = 0; r < a.ranks(); ++r) {
      REQUIRE(test::difference(a.values[r], b.values[r]) == "");
      REQUIRE(test::difference(a.residuals[r], b.residuals[r]) == "");
      REQUIRE(test::sameBits(a.control(r).threshold, b.control(r).threshold));
      REQUIRE(a.control(r).iteration == b.control(r).iteration);
      REQUIRE(a.control(r).candidates == b.control(r).candidates);
    }
  }
}

TEST_CASE("a saved selection goes on where it was") {
  const uint64_t n = 5000;
  for (const Method& method : kMethods) {
    CAPTURE(method.name);
    const SelectionRequest request = requestOf(method, n, 0.02);
    SelectionRun<float> run(selectorRow(method.selector)->plan, request, method.clearsUnion);
    for (uint64_t step = 0; step < 7; ++step) run.step(gradientsOf<float>(3, n, step));
    SelectionRun<float> restored(selectorRow(method.selector)->plan, request, method.clearsUnion);
    for (size_t r = 0; r < 3; ++r) {
      Writer writer;
      run[r].save(writer);
      Reader reader(writer.bytes());
      REQUIRE(restored[r].load(reader, false).ok());
      CHECK(reader.left() == 0);
    }
    restored.residuals = run.residuals;
    checkSame(run, restored, n, 10, 100);
  }
}

TEST_CASE("damaged states are refused and change nothing") {
  const uint64_t n = 5000;
  const SelectionRequest request = requestOf(kMethods[0], n, 0.02);
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, request, false);
  for (uint64_t step = 0; step < 3; ++step) run.step(gradientsOf<float>(3, n, step));
  Writer writer;
  run[0].save(writer);
  SelectionRun<float> fresh(selectorRow(sparsecollSelectTopK)->plan, request, false);
  for (uint64_t length = 0; length < writer.bytes().size(); ++length) {
    Reader reader(std::span(writer.bytes()).first(length));
    REQUIRE_FALSE(fresh[0].load(reader, false).ok());
  }
  SelectionRequest more = request;
  const sparsecollSegment_t segments[] = {{1000, 0.5, 0, 0}, {4000, 0, 0, 0}};
  more.segments = segments;
  SelectionRun<float> other(selectorRow(sparsecollSelectTopK)->plan, more, false);
  Writer two;
  other[0].save(two);
  Reader reader(two.bytes());
  CHECK(fresh[0].load(reader, false).result() == sparsecollInvalidArgument);
  SelectionRun<float> never(selectorRow(sparsecollSelectTopK)->plan, request, false);
  checkSame(fresh, never, n, 5, 50);
}

TEST_CASE("a reset selection is a new one") {
  const uint64_t n = 5000;
  for (const Method& method : kMethods) {
    CAPTURE(method.name);
    const SelectionRequest request = requestOf(method, n, 0.02);
    SelectionRun<float> run(selectorRow(method.selector)->plan, request, method.clearsUnion);
    for (uint64_t step = 0; step < 7; ++step) run.step(gradientsOf<float>(3, n, step));
    for (size_t r = 0; r < 3; ++r) {
      run[r].reset();
      std::fill(run.residuals[r].begin(), run.residuals[r].end(), 0.0F);
    }
    SelectionRun<float> fresh(selectorRow(method.selector)->plan, request, method.clearsUnion);
    checkSame(run, fresh, n, 10, 0);
  }
}

// Segments are the caller's; only their content counts after make.
TEST_CASE("a selection keeps no pointer to its request") {
  auto segments = std::make_unique<std::vector<sparsecollSegment_t>>();
  segments->push_back({1000, 0.5, 0, 0});
  segments->push_back({4000, 0, 0, 0});
  SelectionRequest request = requestOf(kMethods[0], 5000, 0.02, 1);
  request.segments = *segments;
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, request, false);
  segments.reset();
  REQUIRE(run[0].setDensity(0.01).ok());
  CHECK(run[0].k() == 540);
}

}  // namespace
}  // namespace sparsecoll
