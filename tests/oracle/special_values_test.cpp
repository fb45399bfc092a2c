// Ties, zeros, subnormals, full and empty selections, full messages (T03, T04, T14, T16, T17, T22, T29).
#include "tests/support/catch.h"

#include <algorithm>
#include <cfloat>
#include <numeric>

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

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr int kRuns = 5;
#else
constexpr int kRuns = 100;
#endif

sparsecollParams_t paramsOf(const MethodRow& row, double density) {
  sparsecollParams_t params = preset(row.preset, density);
  params.faithful = row.faithful ? 1 : 0;
  return params;
}

// A published fit without a loop on what was found may put its threshold above everything for ever, if the vector has
// only a few distinct magnitudes.
bool fitsAsPublished(const MethodRow& method) { return std::string(method.preset) == "sidco-p" && method.faithful; }

std::vector<uint64_t> nonZeros(const Elements& vector) {
  std::vector<uint64_t> found;
  for (uint64_t i = 0; i < vector.size(); ++i)
    if (vector[i] != 0) found.push_back(i);
  return found;
}

std::vector<uint64_t> firstIndices(uint64_t count) {
  std::vector<uint64_t> indices(count);
  std::iota(indices.begin(), indices.end(), uint64_t{0});
  return indices;
}

}  // namespace

TEST_CASE("of equal values the lowest indices are taken, in every run") {
  constexpr uint64_t kLength = 1u << 16;
  for (const sparsecollDataType_t type : kAllTypes)
    for (const double sign : {1.0, -1.0}) {
      CAPTURE(nameOf(type), sign);
      sparsecollParams_t params = preset("topka", 0);
      params.k = 1000;
      Group group(2, kLength, type, params);
      group.gradients[0].fill(3 * sign);
      group.gradients[1].fill(-5);
      for (int run = 0; run < kRuns; ++run) {
        REQUIRE(group.each([](int, sparsecollReducer_t r) { return sparsecollReducerReset(r, nullptr); }) ==
                all(2, sparsecollSuccess));
        REQUIRE(group.step() == all(2, sparsecollSuccess));
        REQUIRE(nonZeros(group.outs[0]) == firstIndices(1000));
      }
      // What was left is all equal again, next to zeros: the next thousand of the rest.
      group.gradients[0].fill(0);
      group.gradients[1].fill(0);
      REQUIRE(group.step() == all(2, sparsecollSuccess));
      const std::vector<uint64_t> taken = nonZeros(group.outs[0]);
      CHECK(taken.front() == 1000);
      CHECK(taken.back() == 1999);
      CHECK(taken.size() == 1000);
    }
}

TEST_CASE("equal magnitudes of both signs tie") {
  Group group(1, 64, sparsecollFloat32, preset("topka", 0.125));
  for (uint64_t i = 0; i < 64; ++i) group.gradients[0].set(i, i % 3 == 0 ? -2 : 2);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(nonZeros(group.outs[0]) == firstIndices(8));
}

TEST_CASE("+0 and -0 are equal, and out shows +0 where nothing was sent") {
  Group group(2, 128, sparsecollFloat32, preset("topka", 0.25));
  for (uint64_t i = 0; i < 128; ++i) {
    group.gradients[0].set(i, i < 64 ? -0.0 : 0.0);
    group.gradients[1].set(i, i < 64 ? 0.0 : -0.0);
  }
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  CHECK(group.outs[0] == Elements(sparsecollFloat32, 128));
  CHECK(group.outsEqual());
  CHECK(group.stats(0).lastSelected == 32);
}

TEST_CASE("zeros stay zeros and do no harm") {
  for (const MethodRow& method : kMethods)
    for (const sparsecollDataType_t type : kAllTypes) {
      CAPTURE(method.preset, method.faithful, nameOf(type));
      Group group(3, 3000, type, paramsOf(method, 0.01));
      for (int step = 0; step < 40; ++step) REQUIRE(group.step() == all(3, sparsecollSuccess));
      CHECK(group.outs[0] == Elements(type, 3000));
      for (int rank = 0; rank < 3; ++rank) {
        CHECK(nonZeros(group.residual(rank)).empty());
        CHECK(std::isfinite(group.stats(rank).lastThreshold));
        CHECK(group.stats(rank).opsNonFinite == 0);
      }
      group.fillIntegers(1);
      for (int step = 0; step < 200 && nonZeros(group.outs[0]).empty(); ++step)
        REQUIRE(group.step() == all(3, sparsecollSuccess));
      if (!fitsAsPublished(method)) CHECK_FALSE(nonZeros(group.outs[0]).empty());
    }
}

TEST_CASE("subnormals are selected and summed like other numbers") {
  struct Row {
    sparsecollDataType_t type;
    double least;  // the smallest positive number
  };
  for (const Row& row : {Row{sparsecollFloat16, 0x1p-24}, Row{sparsecollBfloat16, 0x1p-133},
                         Row{sparsecollFloat32, 0x1p-149}, Row{sparsecollFloat64, 0x1p-1074}}) {
    CAPTURE(nameOf(row.type));
    Group group(2, 1000, row.type, preset("topka", 0.01));
    for (uint64_t i = 0; i < 1000; ++i) {
      group.gradients[0].set(i, row.least * static_cast<double>(i % 100));
      group.gradients[1].set(i, row.least * static_cast<double>(i % 100));
    }
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    for (uint64_t i = 0; i < 1000; ++i) REQUIRE(group.outs[0][i] == (i % 100 == 99 ? row.least * 198 : 0));
    CHECK(group.residual(0)[998] == row.least * 98);
  }
}

TEST_CASE("sums may leave the range of the type, the residual does not") {
  Group half(2, 64, sparsecollFloat16, preset("topka", 0.5));
  half.gradients[0].set(3, 65504);
  half.gradients[1].set(3, 65504);
  REQUIRE(half.step() == all(2, sparsecollSuccess));
  CHECK(half.outs[0][3] == HUGE_VAL);
  CHECK(half.stats(0).opsNonFinite == 0);
  CHECK(nonZeros(half.residual(0)).empty());

  // 1 is selected and 0 is not, until the residual of 0 has grown: 65504 + 65504 fits the float it is kept in.
  Group grows(1, 2, sparsecollFloat16, preset("topka", 0.5));
  for (const double big : {65504.0, 0.0}) {
    grows.gradients[0].set(0, 60000);
    grows.gradients[0].set(1, big);
    REQUIRE(grows.step() == all(1, sparsecollSuccess));
  }
  CHECK(grows.outs[0][0] == HUGE_VAL);
  CHECK(grows.residual(0)[0] == 0);

  Group single(1, 2, sparsecollFloat32, preset("topka", 0.5));
  for (int step = 0; step < 2; ++step) {
    single.gradients[0].fill(static_cast<double>(FLT_MAX));
    REQUIRE(single.step() == all(1, sparsecollSuccess));
  }
  CHECK(std::isnan(single.outs[0][1]));  // FLT_MAX + FLT_MAX overflowed while it was accumulated
  CHECK(single.stats(0).opsNonFinite == 1);
  CHECK(std::isfinite(single.residual(0)[1]));
}

TEST_CASE("k = n has the bits of dense on integers") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const int ranks : {1, 2, 3, 5, 8})
      for (const sparsecollRedOp_t op : {sparsecollSum, sparsecollAvg}) {
        CAPTURE(nameOf(type), ranks, op);
        sparsecollParams_t full = preset("topka", 0);
        full.k = 5000;  // more than n means n
        sparsecollParams_t dense = preset("dense", 0);
        sparsecollParams_t everything = preset("threshold", 1);
        everything.threshold = 1e-30;
        full.op = dense.op = everything.op = op;
        std::vector<Elements> outs;
        for (const sparsecollParams_t& params : {full, dense, everything}) {
          Group group(ranks, 4097, type, params);
          for (uint64_t step = 0; step < 2; ++step) {
            group.fillIntegers(40 + step);
            REQUIRE(group.step() == all(ranks, sparsecollSuccess));
          }
          CHECK(group.outsEqual());
          outs.push_back(group.outs[0]);
        }
        CHECK(outs[0] == outs[1]);
        CHECK(outs[2] == outs[1]);
      }
}

TEST_CASE("SELECT_NOTHING sends headers only, and everything stays in the residual") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    sparsecollParams_t params = paramsOf(method, 0);
    params.flags = SPARSECOLL_SELECT_NOTHING;
    Group group(4, 1000, sparsecollFloat32, params);
    REQUIRE(group.created() == all(4, sparsecollSuccess));
    group.outs[1].fill(7);
    std::vector<double> sum(1000);
    for (uint64_t step = 0; step < 3; ++step) {
      group.fillIntegers(50 + step);
      for (uint64_t i = 0; i < 1000; ++i) sum[i] += group.gradients[2][i];
      REQUIRE(group.step() == all(4, sparsecollSuccess));
    }
    for (const Elements& out : group.outs) CHECK(nonZeros(out).empty());
    const Elements residual = group.residual(2);
    for (uint64_t i = 0; i < 1000; ++i) REQUIRE(residual[i] == sum[i]);
    CHECK(group.info().k == 0);
    const uint64_t rounds = params.collective == sparsecollCollIndexUnion ? 3 : 1;
    const bool ladder = params.selector == sparsecollSelectMicro && !method.faithful;  // of 49 numbers
    CHECK(group.stats(0).lastBytesSent == 3 * 32 * rounds + (ladder ? 3 * (32 + 49 * 8) : 0));
    CHECK(group.stats(0).lastSelected == 0);
    CHECK(group.stats(0).lastUnion == 0);
  }
}

TEST_CASE("selecting nothing on purpose is neither an overflow nor a NaN in the telemetry") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    sparsecollParams_t params = paramsOf(method, 0);
    params.flags = SPARSECOLL_SELECT_NOTHING;
    Group group(2, 1000, sparsecollFloat32, params);
    group.fillRandom(60, 10);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.stats(0).opsOverflow == 0);
    CHECK_FALSE(std::isnan(group.stats(0).lastThreshold));
  }
}

TEST_CASE("Auto does not turn SELECT_NOTHING into a dense sum") {
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  params.flags = SPARSECOLL_SELECT_NOTHING;
  Group group(2, 1000, sparsecollFloat32, params);
  REQUIRE(group.created() == all(2, sparsecollSuccess));
  group.fillIntegers(61);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  CHECK(nonZeros(group.outs[0]).empty());
}

TEST_CASE("any positive density selects at least one entry") {
  for (const double density : {1e-300, 5e-324, 1e-12})
    for (const MethodRow& method : kMethods) {
      CAPTURE(density, method.preset, method.faithful);
      Group group(2, 1000, sparsecollFloat32, paramsOf(method, density));
      REQUIRE(group.created() == all(2, sparsecollSuccess));
      CHECK(group.info().k == 1);
      group.fillRandom(62, 10);
      REQUIRE(group.step() == all(2, sparsecollSuccess));
      CHECK(group.stats(0).lastUnion >= 1);
    }
}

TEST_CASE("a full message carries the largest magnitudes, and the rest waits in the residual") {
  constexpr uint64_t kLength = 4000;
  Group group(2, kLength, sparsecollFloat32, preset("threshold", 0.01));
  const uint64_t capacity = group.info().capacity;
  group.fillRandom(64, 1000);
  std::vector<double> sorted;
  for (uint64_t i = 0; i < kLength; ++i) sorted.push_back(std::abs(group.gradients[0][i]));
  std::sort(sorted.rbegin(), sorted.rend());
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  CHECK(group.stats(0).opsOverflow == 1);
  CHECK(group.stats(1).opsOverflow == 1);
  CHECK(group.stats(0).lastSelected == capacity);
  const Elements residual = group.residual(0);
  for (uint64_t i = 0; i < kLength; ++i)
    if (std::abs(group.gradients[0][i]) >= sorted[capacity - 1]) REQUIRE(residual[i] == 0);
}

TEST_CASE("micro finds a threshold for gradients of any magnitude") {
  for (const double size : {1e-200, 1e-40, 1e-3, 1e3, 1e37, 1e45, 1e200}) {
    CAPTURE(size);
    Group group(4, 4000, sparsecollFloat64, preset("micro", 0.01));
    double sent = 0;
    bool finite = true;
    for (uint64_t step = 0; step < 40; ++step) {
      group.fillRandom(70 + step, size);
      REQUIRE(group.step() == all(4, sparsecollSuccess));
      finite = finite && std::isfinite(group.stats(0).lastThreshold);
      if (step >= 20) sent += static_cast<double>(group.stats(0).lastUnion);
    }
    CHECK(finite);
    CHECK(sent / 20 > 0.5 * 40);
    CHECK(sent / 20 < 2 * 40);
  }
}

TEST_CASE("all the work of one rank: the others have nothing to send") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    Group group(4, 4000, sparsecollFloat32, paramsOf(method, 0.01));
    for (uint64_t i = 0; i < 1000; ++i) group.gradients[0].set(3000 + i, 1 + static_cast<double>(i % 7));
    bool sent = false;
    for (int step = 0; step < 20; ++step) {
      REQUIRE(group.step() == all(4, sparsecollSuccess));
      CHECK(group.outsEqual());
      sent = sent || !nonZeros(group.outs[0]).empty();
    }
    CHECK((sent || fitsAsPublished(method)));
  }
}
