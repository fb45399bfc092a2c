// What left a residual may be noted as a bit instead of written as a zero, until somebody looks (docs/algorithms/
// host_kernels.md). Nobody can tell the difference: of two groups with the same gradients one is looked at after every
// step, the other one after the last.
#include "tests/support/catch.h"

#include <string>

#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr uint64_t kLength = 9001;  // still more than a tile
constexpr int kRankCounts[] = {1, 3};
#else
constexpr uint64_t kLength = 20011;
constexpr int kRankCounts[] = {1, 3, 4};
#endif

bool sameOuts(const Group& a, const Group& b) { return a.outs == b.outs; }

bool sameResiduals(const Group& a, const Group& b) {
  for (int rank = 0; rank < a.count(); ++rank)
    if (!(a.residual(rank) == b.residual(rank))) return false;
  return true;
}

void look(const Group& group) {
  for (int rank = 0; rank < group.count(); ++rank) (void)group.residual(rank);
}

using Change = std::function<Results(Group&)>;

// before: what both groups do before a step, from the third one on.
void compare(int ranks, sparsecollDataType_t type, const sparsecollParams_t& params, uint64_t steps,
             const Change& before = {}) {
  Group seen(ranks, kLength, type, params);
  Group unseen(ranks, kLength, type, params);
  REQUIRE(unseen.created() == all(ranks, sparsecollSuccess));
  for (uint64_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    for (Group* const group : {&seen, &unseen}) {
      if (before && step >= 2) REQUIRE(before(*group) == all(ranks, sparsecollSuccess));
      group->fillRandom(step + 1);
      REQUIRE(group->step() == all(ranks, sparsecollSuccess));
    }
    look(seen);
    CHECK(sameOuts(seen, unseen));
  }
  CHECK(sameResiduals(seen, unseen));
}

}  // namespace

TEST_CASE("every method's steps are the same whether its residual is looked at or not") {
  for (const std::string& name : allPresets()) {
    if (name == "dense") continue;
    for (const int faithful : {0, 1})
      for (const int ranks : kRankCounts) {
        CAPTURE(name, faithful, ranks);
        sparsecollParams_t params = preset(name.c_str(), 0.02);
        params.faithful = faithful;
        params.momentum = 0;
        compare(ranks, sparsecollFloat32, params, 5);
      }
  }
}

TEST_CASE("with every element type, and with what changes the residual between steps") {
  for (const char* const name : {"topka", "sage", "gtopk", "deft", "micro"})
    for (const sparsecollDataType_t type : kAllTypes) {
      CAPTURE(name, nameOf(type));
      sparsecollParams_t params = preset(name, 0.05);
      compare(3, type, params, 4);
      compare(3, type, params, 5, [](Group& group) {
        return group.each([&](int rank, sparsecollReducer_t reducer) {
          return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
        });
      });
      compare(3, type, params, 5, [](Group& group) {
        return group.each([&](int rank, sparsecollReducer_t reducer) {
          return sparsecollReducerFlush(reducer, group.outs[static_cast<size_t>(rank)].data(), nullptr);
        });
      });
      compare(3, type, params, 5, [](Group& group) {
        return group.each([&](int, sparsecollReducer_t reducer) {
          const Blob blob = exported(reducer);
          return sparsecollReducerImportFrom(reducer, blob.data(), blob.size(), 1, nullptr);
        });
      });
      compare(3, type, params, 5, [](Group& group) {
        return group.each([&](int, sparsecollReducer_t r) { return sparsecollReducerReset(r, nullptr); });
      });
    }
}

TEST_CASE("a step with NaN that ends in an error takes nothing out of an unseen residual") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  for (const char* const name : {"topka", "sage", "gtopk", "spardl", "micro"}) {
    CAPTURE(name);
    const sparsecollParams_t params = preset(name, 0.05);
    Group seen(3, kLength, sparsecollFloat32, params, nullptr, &config);
    Group unseen(3, kLength, sparsecollFloat32, params, nullptr, &config);
    for (uint64_t step = 0; step < 6; ++step) {
      for (Group* const group : {&seen, &unseen}) {
        group->fillRandom(step + 1);
        if (step % 3 == 1) group->gradients[1].set(77, std::numeric_limits<double>::quiet_NaN());
        REQUIRE(group->step() == all(3, step % 3 == 1 ? sparsecollNonFinite : sparsecollSuccess));
      }
      look(seen);
      if (step % 3 != 1) CHECK(sameOuts(seen, unseen));
    }
    CHECK(sameResiduals(seen, unseen));
  }
}
