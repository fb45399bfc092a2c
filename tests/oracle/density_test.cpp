// Densities that change, per-tensor rules, and the sparse form of a sum.
#include "tests/support/catch.h"

#include <algorithm>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

struct MethodRow {
  const char* preset;
  bool faithful;
};
constexpr MethodRow kMethods[] = {{"topka", false},  {"threshold", false}, {"micro", false},   {"micro", true},
                                  {"sage", false},   {"sage", true},       {"sidco-e", false}, {"sidco-gp", false},
                                  {"sidco-p", true}, {"gaussiank", false}, {"redsync", true},  {"cltk", false}};

sparsecollParams_t paramsOf(const MethodRow& row, double density) {
  sparsecollParams_t params = preset(row.preset, density);
  params.faithful = row.faithful ? 1 : 0;
  return params;
}

Results setDensity(const Group& group, double density) {
  return group.each([&](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, density); });
}

uint64_t nonZeros(const Elements& vector, uint64_t begin, uint64_t end) {
  uint64_t count = 0;
  for (uint64_t i = begin; i < end; ++i) count += vector[i] != 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a warm-up schedule goes through its densities") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.maxDensity = 0.25;
    Group group(2, 4000, sparsecollFloat32, paramsOf(method, 0.01), &config);
    REQUIRE(group.created() == all(2, sparsecollSuccess));
    const uint64_t capacity = group.info().capacity;
    for (const double density : {0.25, 0.0625, 0.015, 0.001, 0.1, 0.01}) {
      CAPTURE(density);
      REQUIRE(setDensity(group, density) == all(2, sparsecollSuccess));
      group.fillRandom(1);
      REQUIRE(group.step() == all(2, sparsecollSuccess));
      const auto k = static_cast<uint64_t>(std::floor(density * 4000 + 4e-6));
      CHECK(group.info().k == k);
      CHECK(group.info().capacity == capacity);
      CHECK(group.stats(0).lastRequested == k);
      if (std::string(method.preset) == "topka") CHECK(group.stats(0).lastSelected == k);
      CHECK(group.outsEqual());
    }
  }
}

// Not faithful MiCRO: there the first threshold follows from the first k, and from then on it is state.
TEST_CASE("a reducer whose density was set selects like one created with it") {
  for (const MethodRow& method : {kMethods[0], kMethods[1], kMethods[2]}) {
    CAPTURE(method.preset);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.maxDensity = 0.1;
    Group changed(2, 4000, sparsecollFloat32, paramsOf(method, 0.1), &config);
    Group created(2, 4000, sparsecollFloat32, paramsOf(method, 0.01), &config);
    REQUIRE(setDensity(changed, 0.01) == all(2, sparsecollSuccess));
    for (uint64_t step = 0; step < 4; ++step) {
      changed.fillRandom(step, 0.05);
      created.fillRandom(step, 0.05);
      REQUIRE(changed.step() == all(2, sparsecollSuccess));
      REQUIRE(created.step() == all(2, sparsecollSuccess));
      CHECK(changed.stats(0).lastThreshold == created.stats(0).lastThreshold);
      CHECK((changed.outs[0] == created.outs[0]));
    }
  }
}

TEST_CASE("densities that a reducer was not planned for are refused") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.maxDensity = 0.05;
    Group group(2, 4000, sparsecollFloat32, paramsOf(method, 0.01), &config);
    for (const double density : {0.06, 0.5, 1.0, 1.0001, 0.0, -0.1, double{HUGE_VAL}, std::nan("")}) {
      CAPTURE(density);
      CHECK(setDensity(group, density) == all(2, sparsecollInvalidArgument));
      CHECK(group.info().k == 40);
    }
    group.fillRandom(2);
    CHECK(group.step() == all(2, sparsecollSuccess));
    config.maxDensity = 0.005;
    Group below(2, 4000, sparsecollFloat32, paramsOf(method, 0.01), &config);
    CHECK(below.created() == all(2, sparsecollInvalidArgument));
  }
  Group dense(2, 4000, sparsecollFloat32, preset("dense", 0));
  CHECK(setDensity(dense, 0.1) == all(2, sparsecollUnsupported));
}

TEST_CASE("without maxDensity the method's density is the most") {
  for (const bool asK : {false, true}) {
    CAPTURE(asK);
    sparsecollParams_t params = preset("topka", asK ? 0 : 0.01);
    params.k = asK ? 40 : 0;
    Group group(2, 4000, sparsecollFloat32, params);
    CHECK(setDensity(group, 0.02) == all(2, sparsecollInvalidArgument));
    CHECK(setDensity(group, 0.005) == all(2, sparsecollSuccess));
    CHECK(setDensity(group, 0.01) == all(2, sparsecollSuccess));
    group.fillRandom(3);
    CHECK(group.step() == all(2, sparsecollSuccess));
    CHECK(group.stats(0).lastSelected == 40);
  }
}

TEST_CASE("SELECT_NOTHING can be left and entered again") {
  sparsecollParams_t params = preset("topka", 0);
  params.flags = SPARSECOLL_SELECT_NOTHING;
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.1;
  Group group(2, 1000, sparsecollFloat32, params, &config);
  for (const double density : {0.0, 0.1, 0.0, 0.001}) {
    CAPTURE(density);
    REQUIRE(setDensity(group, density) == all(2, sparsecollSuccess));
    group.fillRandom(4);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.stats(0).lastSelected == static_cast<uint64_t>(density * 1000 + 0.5));
  }
}

TEST_CASE("ranks with different densities get Mismatch, and agree again afterwards") {
  for (const MethodRow& method : kMethods)
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(method.preset, method.faithful, ranks);
      sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
      config.maxDensity = 0.1;
      config.transactional = 1;
      Group group(ranks, 4000, sparsecollFloat32, paramsOf(method, 0.01), &config);
      group.fillRandom(5);
      REQUIRE(group.step() == all(ranks, sparsecollSuccess));
      std::vector<Elements> before;
      for (int rank = 0; rank < ranks; ++rank) before.push_back(group.residual(rank));
      REQUIRE(sparsecollReducerSetDensity(group.reducer(ranks - 1), 0.1) == sparsecollSuccess);
      CHECK(group.step() == all(ranks, sparsecollMismatch));
      for (int rank = 0; rank < ranks; ++rank) CHECK(group.residual(rank) == before[static_cast<size_t>(rank)]);
      REQUIRE(setDensity(group, 0.01) == all(ranks, sparsecollSuccess));
      CHECK(group.step() == all(ranks, sparsecollSuccess));
      CHECK(group.outsEqual());
    }
}

TEST_CASE("per-tensor rules: a dense tensor, tensors with densities of their own, and the method's for the rest") {
  const sparsecollSegment_t segments[] = {
      {100, 0, 1, 0}, {1000, 0.05, 0, 0}, {2000, 0, 0, 0}, {1, 0, 0, 0}, {10, 1e-9, 0, 0}};
  const uint64_t wanted[] = {100, 50, 20, 1, 1};  // the method's density is 0.01, at least one a tensor
  for (const sparsecollDataType_t type : kAllTypes) {
    CAPTURE(nameOf(type));
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.segments = segments;
    config.segmentCount = 5;
    Group group(1, 3111, type, preset("topka", 0.01), &config);
    REQUIRE(group.created() == all(1, sparsecollSuccess));
    CHECK(group.info().k == 172);
    for (uint64_t step = 0; step < 4; ++step) {
      group.fillRandom(10 + step);
      std::vector<double> acc(3111);
      const Elements before = group.residual(0);
      for (uint64_t i = 0; i < acc.size(); ++i)
        acc[i] = roundTo(accumulateType(type), before[i] + group.gradients[0][i]);
      REQUIRE(group.step() == all(1, sparsecollSuccess));
      const Elements after = group.residual(0);
      uint64_t begin = 0;
      for (size_t s = 0; s < 5; ++s) {
        const uint64_t end = begin + segments[s].length;
        CHECK(nonZeros(group.outs[0], begin, end) == wanted[s]);
        std::vector<double> sizes;
        for (uint64_t i = begin; i < end; ++i) sizes.push_back(std::abs(acc[i]));
        std::sort(sizes.rbegin(), sizes.rend());
        for (uint64_t i = begin; i < end; ++i)
          if (std::abs(acc[i]) > sizes[wanted[s] - 1] && after[i] != 0) FAIL("entry " << i << " stayed");
        begin = end;
      }
    }
  }
}

TEST_CASE("segments without rules are one unit, and a schedule moves only tensors without a rule") {
  const sparsecollSegment_t plain[] = {{500, 0, 0, 0}, {500, 0, 0, 0}};
  const sparsecollSegment_t ruled[] = {{500, 0.5, 0, 0}, {500, 0, 0, 0}};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segmentCount = 2;
  config.maxDensity = 0.2;
  for (const bool rules : {false, true}) {
    CAPTURE(rules);
    config.segments = rules ? ruled : plain;
    Group group(2, 1000, sparsecollFloat32, preset("topka", 0.01), &config);
    for (Elements& gradient : group.gradients)
      for (uint64_t i = 0; i < 1000; ++i) gradient.set(i, i < 500 ? 10 + 0.01 * static_cast<double>(i) : 1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(nonZeros(group.outs[0], 0, 500) == (rules ? 250 : 10));
    CHECK(nonZeros(group.outs[0], 500, 1000) == (rules ? 5 : 0));
    REQUIRE(setDensity(group, 0.2) == all(2, sparsecollSuccess));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.stats(0).lastSelected == (rules ? 350 : 200));
  }
}

TEST_CASE("a sparse sum holds what the dense one does") {
  for (const MethodRow& method : kMethods)
    for (const sparsecollDataType_t type : kAllTypes) {
      CAPTURE(method.preset, method.faithful, nameOf(type));
      constexpr uint64_t kLength = 9001;
      Group dense(3, kLength, type, paramsOf(method, 0.02));
      Group sparse(3, kLength, type, paramsOf(method, 0.02));
      const uint64_t need = std::min(kLength, 3 * (sparse.info().capacity + SPARSECOLL_NON_FINITE_NAMED));
      for (uint64_t step = 0; step < 4; ++step) {
        dense.fillRandom(20 + step);
        sparse.fillRandom(20 + step);
        REQUIRE(dense.step() == all(3, sparsecollSuccess));
        std::vector<int> flagged(3);
        const Results results = sparse.each([&](int rank, sparsecollReducer_t reducer) {
          const auto r = static_cast<size_t>(rank);
          SparseVector out(type, kLength, need);
          const sparsecollResult_t result =
              sparsecollReducerRunSparse(reducer, sparse.gradients[r].data(), out.view(), nullptr);
          sparse.outs[r].fill(0);
          for (size_t e = 0; e < out.count(); ++e) sparse.outs[r].set(out.index(e), out.value(e));
          bool sorted = (out.view()->flags & SPARSECOLL_SORTED) != 0;
          for (size_t e = 1; e < out.count(); ++e) sorted = sorted && out.index(e - 1) < out.index(e);
          flagged[r] = sorted ? 1 : 0;
          return result;
        });
        REQUIRE(results == all(3, sparsecollSuccess));
        CHECK(flagged == std::vector<int>{1, 1, 1});
        CHECK(sparse.outs == dense.outs);
        for (int rank = 0; rank < 3; ++rank) CHECK(sparse.residual(rank) == dense.residual(rank));
      }
      // One slot fewer: nothing is done, on the rank that has it too few.
      const Elements before = sparse.residual(0);
      SparseVector small(type, kLength, need - 1);
      CHECK(sparsecollReducerRunSparse(sparse.reducer(0), sparse.gradients[0].data(), small.view(), nullptr) ==
            sparsecollCapacity);
      CHECK(small.count() == need);
      CHECK(sparse.residual(0) == before);
      REQUIRE(sparse.step() == all(3, sparsecollSuccess));
    }
}

TEST_CASE("OUT_PRESERVED gives the same out whatever came in between") {
  for (const sparsecollDataType_t type : kAllTypes) {
    CAPTURE(nameOf(type));
    sparsecollParams_t params = preset("topka", 0.01);
    Group plain(2, 9001, type, params);
    params.flags = SPARSECOLL_OUT_PRESERVED;
    Group kept(2, 9001, type, params);
    Elements other(type, 9001, 5.0);
    for (Elements& out : kept.outs) out.fill(3);  // unknown content before the first step
    for (uint64_t step = 0; step < 12; ++step) {
      plain.fillRandom(step);
      kept.fillRandom(step);
      if (step == 4) std::swap(kept.outs[0], other);  // another pointer, with old content
      if (step == 7) std::swap(kept.outs[0], other);  // and back
      if (step == 9) kept.gradients[1].set(8999, std::nan(""));
      if (step == 9) plain.gradients[1].set(8999, std::nan(""));
      REQUIRE(plain.step() == all(2, sparsecollSuccess));
      REQUIRE(kept.step() == all(2, sparsecollSuccess));
      CHECK(plain.outs[0] == kept.outs[0]);
      CHECK(plain.outs[1] == kept.outs[1]);
    }
  }
}
