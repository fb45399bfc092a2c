// The tables of methods are consistent with each other and with what the C API tells.
#include "src/methods.h"

#include <cstring>
#include <set>
#include <string>
#include "tests/support/catch.h"

#include "core/numeric.h"
#include "src/nodes.h"
#include "src/reducer_spec.h"

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

TEST_CASE("chunks are as long as is asked for") {
  SelectionRequest request;
  request.n = 10000;
  request.density = request.maxDensity = 0.01;
  const auto windows = [&](int32_t chunk) {
    request.params.chunk = chunk;
    return (*(*findSelector(sparsecollSelectChunkTopK))->plan(request)).windows;
  };
  REQUIRE(windows(0).size() == 3);
  CHECK(windows(0)[0].end == 4096);
  REQUIRE(windows(300).size() == 34);
  CHECK(windows(300)[0].end == 300);
  CHECK(windows(300).back().end == request.n);
}

TEST_CASE("auto takes dense for short vectors and high densities, whether they are given so or as k") {
  const auto takesDense = [](uint64_t n, double density, uint64_t k) {
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    params.selector = sparsecollSelectTopK;
    params.density = density;
    params.k = k;
    auto spec = readReducerSpec(n, sparsecollFloat32, &params, nullptr);
    REQUIRE(spec.ok());
    return spec->dense();
  };
  CHECK(takesDense(65535, 0.001, 0));
  CHECK_FALSE(takesDense(65536, 0.001, 0));
  CHECK_FALSE(takesDense(65536, 0.25, 0));
  CHECK(takesDense(65536, 0.26, 0));
  CHECK_FALSE(takesDense(65536, 0, 65536 / 4));
  CHECK(takesDense(65536, 0, 65536 / 3));
}

TEST_CASE("transactional is refused for a method without a residual, unless auto has chosen it") {
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  params.collective = sparsecollCollDense;
  CHECK(readReducerSpec(100, sparsecollFloat32, &params, &config).takeStatusOrOk().result() ==
        sparsecollInvalidArgument);
  params.collective = sparsecollCollAuto;
  params.density = 0.1;
  auto chosen = readReducerSpec(100, sparsecollFloat32, &params, &config);
  REQUIRE(chosen.ok());
  CHECK(chosen->dense());
  CHECK_FALSE(chosen->transactional);
}

TEST_CASE("a method that cannot do what is asked for is refused by name") {
  const auto why = [](const sparsecollParams_t& params, const sparsecollReducerConfig_t* config) {
    Status status = readReducerSpec(100, sparsecollFloat32, &params, config).takeStatusOrOk();
    CHECK(status.result() == sparsecollUnsupported);
    return std::string(status.failure().text.view());
  };
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  params.density = 0.1;
  sparsecollSegment_t segments[] = {{40, 0.5, 0, 0}, {60, 0, 0, 0}};
  auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments;
  config.segmentCount = 2;
  params.selector = sparsecollSelectRandom;
  params.collective = sparsecollCollAllGather;
  CHECK(why(params, &config) == "selector random has no densities of single tensors");
  params.selector = sparsecollSelectTopK;
  params.op = sparsecollAvg;
  params.flags = SPARSECOLL_AVERAGE_CONTRIBUTORS;
  for (const auto& [collective, name] :
       {std::pair{sparsecollCollGTopk, "gtopk"}, std::pair{sparsecollCollSparDL, "spardl"}}) {
    params.collective = collective;
    CHECK(why(params, nullptr) == std::string("collective ") + name + " cannot tell how many ranks are in an entry");
  }
}

TEST_CASE("a shard gets its share of k and of the candidates, and never fewer candidates than entries") {
  const auto shardOf = [](double density, uint64_t k, uint64_t candidates) {
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    params.selector = sparsecollSelectRandomOfTop;
    params.collective = sparsecollCollAllGather;
    params.density = density;
    params.k = k;
    params.candidates = candidates;
    auto spec = readReducerSpec(1000, sparsecollFloat32, &params, nullptr);
    REQUIRE(spec.ok());
    return specOfShard(*spec, {500, 1000}).params;
  };
  CHECK(shardOf(0.02, 0, 60).candidates == 30);
  CHECK(shardOf(0.02, 0, 20).candidates == 10);
  CHECK(shardOf(0.02, 0, 20).k == 0);
  CHECK(shardOf(0, 20, 60).candidates == 30);
  CHECK(shardOf(0, 1, 1).candidates == 1);
  CHECK(shardOf(0, 1, 1).k == 1);
  CHECK(shardOf(0, 20, 0).candidates == 0);
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
