// The tables of methods are consistent with each other and with what the C API tells.
#include "src/methods.h"

#include <cstring>
#include <set>
#include <string>
#include "tests/support/catch.h"

#include "core/numeric.h"

namespace sparsecoll {
namespace {

template <class Row>
void checkRows(std::span<const Row* const> rows) {
  std::set<int32_t> ids;
  std::set<std::string> names;
  for (const Row* const row : rows) {
    CAPTURE(row->name);
    CHECK(ids.insert(row->id).second);
    CHECK(names.insert(row->name).second);
    CHECK(row->id != 0);  // 0 means the default
    CHECK(std::strlen(row->paper) > 0);
  }
}

TEST_CASE("rows have ids and names of their own") {
  checkRows(selectorRows());
  checkRows(collectiveRows());
  std::set<std::string> names;
  for (uint32_t i = 0; const PresetRow* const row = presetRow(i); ++i) CHECK(names.insert(row->name).second);
}

TEST_CASE("rows are found by their ids and nothing else is") {
  for (const SelectorRow* const row : selectorRows()) CHECK(*findSelector(row->id) == row);
  for (const CollectiveRow* const row : collectiveRows()) CHECK(*findCollective(row->id) == row);
  for (uint32_t i = 0; const PresetRow* const row = presetRow(i); ++i) CHECK(*findPreset(row->name) == row);
  for (const int32_t id : {-1, int{sparsecollSelectMaxEnum}, 1000})
    CHECK(findSelector(id).takeStatusOrOk().result() == sparsecollInvalidArgument);
  for (const int32_t id : {-1, int{sparsecollCollMaxEnum}, 1000})
    CHECK(findCollective(id).takeStatusOrOk().result() == sparsecollInvalidArgument);
  CHECK(findCollective(sparsecollCollHierarchical).takeStatusOrOk().result() == sparsecollUnsupported);
  for (const char* name : {"", "topk", "Dense", "dense ", static_cast<const char*>(nullptr)})
    CHECK(findPreset(name).takeStatusOrOk().result() == sparsecollInvalidArgument);
}

TEST_CASE("a refused preset's message lists the known ones") {
  const std::string text = findPreset("no such").takeStatus().failure().text.c_str();
  CAPTURE(text);
  for (uint32_t i = 0; const PresetRow* const row = presetRow(i); ++i) CHECK(text.find(row->name) != std::string::npos);
}

TEST_CASE("presets and selectors name rows that exist") {
  for (uint32_t i = 0; const PresetRow* const row = presetRow(i); ++i) {
    CAPTURE(row->name);
    CHECK(findSelector(row->selector).ok());
    CHECK(findCollective(row->collective).ok());
    CHECK(std::strlen(row->summary) > 0);
    CHECK(std::strlen(row->paper) > 0);
  }
  for (const SelectorRow* const row : selectorRows()) {
    CAPTURE(row->name);
    const CollectiveRow* const collective = *findCollective(row->collective);
    CHECK(collective->make != nullptr);  // Auto's sparse choice is a sparse collective
  }
}

TEST_CASE("only dense runs without a maker") {
  for (const CollectiveRow* const row : collectiveRows()) {
    CAPTURE(row->name);
    CHECK((row->make == nullptr) == (row->id == sparsecollCollDense));
  }
}

TEST_CASE("contributors are counted in lists that hold one rank's values only") {
  CHECK((*findCollective(sparsecollCollDense))->contributors == Contributors::kAll);
  CHECK((*findCollective(sparsecollCollAllGather))->contributors == Contributors::kLists);
  CHECK((*findCollective(sparsecollCollIndexUnion))->contributors == Contributors::kAll);
}

TEST_CASE("every selector plans within what it may") {
  for (const SelectorRow* const row : selectorRows())
    for (const bool faithful : {false, true}) {
      CAPTURE(row->name, faithful);
      SelectionRequest request;
      request.n = 1000;
      request.ranks = 4;
      request.density = request.maxDensity = 0.01;
      request.params.faithful = faithful ? 1 : 0;
      auto plan = row->plan(request);
      REQUIRE(plan.ok());
      CHECK(plan->k == 10);
      CHECK(plan->capacity <= request.n);
      CHECK_FALSE(plan->windows.empty());
      const MemoryBound bound = faithful ? row->faithfulBound : row->bound;
      CHECK(bound.perLength >= 1);
      CHECK(bound.perEntry >= 1);
    }
}

// Without it the entries that pass cannot all be candidates, and every step reads the vector again.
TEST_CASE("every window has slots for all that it may keep") {
  for (const SelectorRow* const row : selectorRows())
    for (const bool faithful : {false, true})
      for (const uint64_t n : {1u, 10u, 1000u, 100000u, 1000000u})
        for (const double density : {0.001, 0.02, 0.05, 0.07, 0.3, 1.0}) {
          CAPTURE(row->name, faithful, n, density);
          SelectionRequest request;
          request.n = n;
          request.ranks = 4;
          request.density = request.maxDensity = density;
          request.params.faithful = faithful ? 1 : 0;
          auto plan = row->plan(request);
          REQUIRE(plan.ok());
          for (const WindowPlan& window : plan->windows) {
            if (window.lazy)  // they share theirs, and no rank keeps all that each of them may
              CHECK(plan->lazySlots >= plan->capacity);
            else
              CHECK(window.slots >= std::min(window.room, window.end - window.begin));
          }
        }
}

TEST_CASE("the C API lists the presets in the table's order") {
  uint32_t i = 0;
  for (; const PresetRow* const row = presetRow(i); ++i) {
    REQUIRE(sparsecollPresetName(i) != nullptr);
    CHECK(std::string(sparsecollPresetName(i)) == row->name);
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    CHECK(sparsecollPreset(row->name, &params) == sparsecollSuccess);
    CHECK(params.selector == row->selector);
    CHECK(params.collective == row->collective);
    CHECK(params.momentum == row->momentum);
    CHECK(params.density == 0);
  }
  CHECK(sparsecollPresetName(i) == nullptr);
  CHECK(sparsecollPresetName(~uint32_t{0}) == nullptr);
}

}  // namespace
}  // namespace sparsecoll
