// NaN and Inf are never hidden and never stored (T12 to T15).
#include "tests/support/catch.h"

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRanks = 4;
constexpr uint64_t kLength = 1000;
constexpr double kInfinity = HUGE_VAL;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct MethodRow {
  const char* preset;
  bool faithful;
};
constexpr MethodRow kMethods[] = {
    {"topka", false},         {"threshold", false}, {"micro", false},   {"micro", true},
    {"sage", false},          {"sage", true},       {"sidco-e", false}, {"sidco-gp", false},
    {"sidco-p", true},        {"gaussiank", false}, {"redsync", true},  {"cltk", false},
    {"deft", false},          {"deft", true},       {"exdyna", false},  {"chunk-topk", false},
    {"gtopk", false},         {"oktopk", false},    {"oktopk", true},   {"sparcml-rd", false},
    {"sparcml-split", false}, {"topkdsa", false},   {"spardl", false},  {"spardl-rsag", false},
    {"spardl-bsag", false}};

sparsecollParams_t paramsOf(const MethodRow& row, double density = 0.02) {
  sparsecollParams_t params = preset(row.preset, density);
  params.faithful = row.faithful ? 1 : 0;
  return params;
}

bool allFinite(const Elements& vector) {
  for (size_t i = 0; i < vector.size(); ++i)
    if (!std::isfinite(vector[i])) return false;
  return true;
}

struct Poison {
  int rank;
  uint64_t index;
  double value;
};

struct PoisonRow {
  const char* name;
  std::vector<Poison> poison;
};

// Indices in every partition of MiCRO, so that some are selected and some are not.
const PoisonRow kPoisons[] = {
    {"nan on one rank", {{2, 17, kNaN}}},
    {"nan in the last partition", {{0, 999, kNaN}}},
    {"+inf on one rank", {{1, 300, kInfinity}}},
    {"-inf on one rank", {{1, 300, -kInfinity}}},
    {"+inf meets -inf", {{0, 500, kInfinity}, {3, 500, -kInfinity}}},
    {"nan and inf on all ranks", {{0, 1, kNaN}, {1, 260, kInfinity}, {2, 510, kNaN}, {3, 760, -kInfinity}}},
};

}  // namespace

TEST_CASE("a poisoned entry is a NaN in every rank's out and never in a residual") {
  for (const MethodRow& method : kMethods)
    for (const sparsecollDataType_t type : kAllTypes)
      for (const PoisonRow& row : kPoisons) {
        CAPTURE(method.preset, method.faithful, nameOf(type), row.name);
        Group group(kRanks, kLength, type, paramsOf(method));
        REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
        group.fillRandom(1);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        group.fillRandom(2);
        for (const Poison& p : row.poison) group.gradients[static_cast<size_t>(p.rank)].set(p.index, p.value);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        CHECK(group.outsEqual());
        for (int rank = 0; rank < kRanks; ++rank) {
          size_t nans = 0;
          const Elements& out = group.outs[static_cast<size_t>(rank)];
          for (size_t i = 0; i < kLength; ++i) nans += std::isnan(out[i]) ? 1 : 0;
          for (const Poison& p : row.poison) CHECK(std::isnan(out[p.index]));
          CHECK(nans == (row.poison.size() == 2 ? 1 : row.poison.size()));  // the pair shares an index
          CHECK(allFinite(group.residual(rank)));
          CHECK(group.stats(rank).opsNonFinite == 1);
          CHECK(group.stats(rank).opsCompleted == 2);
        }
        for (const Poison& p : row.poison) CHECK(group.residual(p.rank)[p.index] == 0);
        group.fillRandom(3);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        for (const Elements& out : group.outs) CHECK(allFinite(out));
        CHECK(group.stats(0).opsNonFinite == 1);
      }
}

TEST_CASE("the written NaN is quiet") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    Group group(2, 64, sparsecollFloat32, paramsOf(method, 0.5));
    const uint32_t signalling = 0xffa00001u;
    std::memcpy(static_cast<std::byte*>(group.gradients[1].data()) + 4 * 40, &signalling, 4);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    uint32_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(group.outs[0].data()) + 4 * 40, 4);
    CHECK((bits & 0x7fc00000u) == 0x7fc00000u);
    CHECK(group.outsEqual());
  }
}

TEST_CASE("a gradient of nothing but NaN ends and is gone after it") {
  constexpr uint64_t kLong = 1u << 16;
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    Group group(kRanks, kLong, sparsecollFloat32, paramsOf(method, 0.01));
    group.fillRandom(4);
    group.gradients[1].fill(kNaN);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    CHECK(group.outsEqual());
    size_t nans = 0;
    for (size_t i = 0; i < kLong; ++i) nans += std::isnan(group.outs[0][i]) ? 1 : 0;
    CHECK(nans >= 16);
    if (std::string(method.preset) == "topka") CHECK(group.stats(1).lastSelected == group.info().k);
    for (int rank = 0; rank < kRanks; ++rank) CHECK(allFinite(group.residual(rank)));
    const Elements poisoned = group.residual(1);
    size_t left = 0;
    for (size_t i = 0; i < kLong; ++i) left += poisoned[i] != 0 ? 1 : 0;
    CHECK(left == 0);
  }
}

TEST_CASE("more than 16 NaNs: the first 16 of a rank show, none stays") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    Group group(kRanks, kLength, sparsecollFloat32, paramsOf(method));
    group.fillRandom(5);
    for (uint64_t i = 0; i < 40; ++i) group.gradients[3].set(i * 25, kNaN);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    size_t nans = 0;
    for (uint64_t i = 0; i < 40; ++i) nans += std::isnan(group.outs[0][i * 25]) ? 1 : 0;
    CHECK(nans >= 16);
    CHECK(group.outsEqual());
    CHECK(allFinite(group.residual(3)));
  }
}

TEST_CASE("a NaN in the caller's first residual is met like one in a gradient") {
  std::vector<float> buffer(kLength, 0.0f);
  buffer[123] = std::numeric_limits<float>::quiet_NaN();
  std::vector<sparsecollReducer_t> reducers(2);
  Ranks ranks(2);
  std::vector<float> zeros(kLength);
  std::vector<std::vector<float>> outs(2, zeros);
  const sparsecollParams_t params = preset("topka", 0.01);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.buffer = rank == 0 ? buffer.data() : nullptr;
    const sparsecollResult_t made =
        sparsecollReducerCreate(&reducers[r], kLength, sparsecollFloat32, &params, &config, comm);
    if (made != sparsecollSuccess) return made;
    return sparsecollReducerRun(reducers[r], zeros.data(), outs[r].data(), nullptr);
  });
  CHECK(results == all(2, sparsecollSuccess));
  CHECK(std::isnan(outs[1][123]));
  CHECK(buffer[123] == 0);
  for (sparsecollReducer_t reducer : reducers) CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
}

TEST_CASE("NonFiniteError gives code 20 on all ranks, and the next step works") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  for (const MethodRow& method : kMethods)
    for (const double poison : {kNaN, kInfinity, -kInfinity})
      for (const int transactional : {0, 1}) {
        CAPTURE(method.preset, method.faithful, poison, transactional);
        sparsecollReducerConfig_t reducerConfig = SPARSECOLL_INIT(sparsecollReducerConfig_t);
        reducerConfig.transactional = transactional;
        Group group(kRanks, kLength, sparsecollFloat32, paramsOf(method), &reducerConfig, &config);
        REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
        group.fillRandom(6);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        group.gradients[2].set(900, poison);
        CHECK(group.step() == all(kRanks, sparsecollNonFinite));
        for (int rank = 0; rank < kRanks; ++rank) {
          sparsecollResult_t state = sparsecollInternalError;
          CHECK(sparsecollCommGetAsyncError(group.ranks()[rank], &state) == sparsecollSuccess);
          CHECK(state == sparsecollSuccess);
          CHECK(allFinite(group.residual(rank)));
          CHECK(group.stats(rank).opsNonFinite == 1);
        }
        group.fillRandom(7);
        CHECK(group.step() == all(kRanks, sparsecollSuccess));
        CHECK(group.outsEqual());
      }
}

// The configuration is the communicator's, and Auto means dense for short vectors: a trainer must not have to know
// which collective runs to be told of a NaN.
TEST_CASE("dense reports NaN and Inf like every other method") {
  for (const sparsecollNonFinite_t mode : {sparsecollNonFinitePropagate, sparsecollNonFiniteError})
    for (const char* const name : {"dense", "auto"})
      for (const double poison : {kNaN, kInfinity, -kInfinity}) {
        CAPTURE(mode, name, poison);
        sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
        config.nonFinite = mode;
        sparsecollParams_t params = preset(std::string(name) == "dense" ? "dense" : "topka", 0.1);
        if (std::string(name) == "auto") params.collective = sparsecollCollAuto;
        Group group(3, 500, sparsecollFloat32, params, nullptr, &config);
        REQUIRE(group.info().collective == sparsecollCollDense);
        group.fillRandom(8);
        group.gradients[1].set(77, poison);
        CHECK(group.step() == all(3, mode == sparsecollNonFiniteError ? sparsecollNonFinite : sparsecollSuccess));
        CHECK_FALSE(std::isfinite(group.outs[0][77]));
        CHECK(group.outsEqual());
        std::vector<uint64_t> counted;
        for (int rank = 0; rank < 3; ++rank) counted.push_back(group.stats(rank).opsNonFinite);
        CHECK(counted == std::vector<uint64_t>(3, 1));
        group.fillRandom(9);
        CHECK(group.step() == all(3, sparsecollSuccess));
      }
}

TEST_CASE("a dense sum that is Inf only once it is rounded is met by every rank") {
  for (const uint32_t flags : {0u, SPARSECOLL_ACCUMULATE}) {
    CAPTURE(flags);
    sparsecollParams_t params = preset("dense", 0);
    params.op = sparsecollSum;
    params.flags = flags;
    Group group(kRanks, kLength, sparsecollFloat16, params);
    for (Elements& gradient : group.gradients) gradient.set(kLength / 2, 40000);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    CHECK(std::isinf(group.outs[0][kLength / 2]));
    for (int rank = 0; rank < kRanks; ++rank) CHECK(group.stats(rank).opsNonFinite == 1);
  }
}

TEST_CASE("transactional: a non-finite step leaves every rank's residual as it was") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.transactional = 1;
    Group group(kRanks, kLength, sparsecollFloat32, paramsOf(method), &config);
    for (uint64_t step = 0; step < 3; ++step) {
      group.fillRandom(10 + step);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    }
    std::vector<Elements> before;
    for (int rank = 0; rank < kRanks; ++rank) before.push_back(group.residual(rank));
    group.fillRandom(20);
    group.gradients[0].set(640, kNaN);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    CHECK(std::isnan(group.outs[3][640]));
    for (int rank = 0; rank < kRanks; ++rank) CHECK(group.residual(rank) == before[static_cast<size_t>(rank)]);
    group.fillRandom(21);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    CHECK(group.outsEqual());
    CHECK_FALSE(group.residual(0) == before[0]);
  }
}

TEST_CASE("a sparse sum shows the NaN as well") {
  for (const MethodRow& method : kMethods)
    for (const uint64_t index : {uint64_t{5}, uint64_t{300}, uint64_t{600}, uint64_t{999}}) {
      CAPTURE(method.preset, method.faithful, index);
      Group group(kRanks, kLength, sparsecollFloat32, paramsOf(method));
      group.fillRandom(9);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
      group.gradients[2].set(index, kNaN);
      std::vector<int> shown(kRanks);
      const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
        SparseVector out(sparsecollFloat32, kLength, kLength);
        const sparsecollResult_t result =
            sparsecollReducerRunSparse(reducer, group.gradients[static_cast<size_t>(rank)].data(), out.view(), nullptr);
        for (size_t e = 0; e < out.count(); ++e)
          if (out.index(e) == index && std::isnan(out.value(e))) ++shown[static_cast<size_t>(rank)];
        return result;
      });
      CHECK(results == all(kRanks, sparsecollSuccess));
      CHECK(shown == std::vector<int>(kRanks, 1));
    }
}

TEST_CASE("giving a skipped step back conserves the sum over ranks") {
  for (const MethodRow& method : kMethods)
    for (const sparsecollRedOp_t op : {sparsecollSum, sparsecollAvg})
      for (const double outputScale : {1.0, 4.0}) {
        CAPTURE(method.preset, method.faithful, op, outputScale);
        sparsecollParams_t params = paramsOf(method, 0.1);
        params.op = op;
        params.outputScale = outputScale;
        Group group(kRanks, kLength, sparsecollFloat32, params);
        group.fillIntegers(30);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        std::vector<double> before(kLength);
        group.fillIntegers(31);
        group.gradients[1].set(420, kNaN);  // why the trainer skips the step
        for (int rank = 0; rank < kRanks; ++rank) {
          const Elements residual = group.residual(rank);
          for (size_t i = 0; i < kLength; ++i) before[i] += residual[i] + group.gradients[static_cast<size_t>(rank)][i];
        }
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
          return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
        }) == all(kRanks, sparsecollSuccess));
        std::vector<double> after(kLength);
        for (int rank = 0; rank < kRanks; ++rank) {
          const Elements residual = group.residual(rank);
          for (size_t i = 0; i < kLength; ++i) after[i] += residual[i];
        }
        before[420] = after[420] = 0;
        CHECK(before == after);
      }
}

// The residual was rolled back, so the sum that was not applied is still in it: giving it back must not add it twice.
TEST_CASE("transactional: giving a rolled-back step back creates nothing") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.transactional = 1;
    Group group(kRanks, kLength, sparsecollFloat32, paramsOf(method, 0.1), &config);
    for (uint64_t step = 0; step < 3; ++step) {
      group.fillIntegers(40 + step);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    }
    const auto total = [&] {
      std::vector<double> sum(kLength);
      for (int rank = 0; rank < kRanks; ++rank) {
        const Elements residual = group.residual(rank);
        for (size_t i = 0; i < kLength; ++i) sum[i] += residual[i];
      }
      return sum;
    };
    const std::vector<double> before = total();
    std::vector<double> withInput = before;
    group.fillIntegers(50);
    group.gradients[1].set(420, kNaN);
    for (const Elements& gradient : group.gradients)
      for (size_t i = 0; i < kLength; ++i) withInput[i] += gradient[i];
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    CHECK(total() == before);
    const Results given = group.each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
    });
    const std::vector<double> after = total();
    uint64_t created = 0;  // entries that are neither as they were nor with this step's gradients in addition
    for (size_t i = 0; i < kLength; ++i)
      created += i != 420 && after[i] != before[i] && after[i] != withInput[i] ? 1 : 0;
    CAPTURE(given);
    CHECK(created == 0);
  }
}
