// Groups of auto reducers. What steps cost is put in the place of what was measured, so no case depends on time.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/plan.h"
#include "tests/support/catch.h"
#include "tests/support/conserving_step.h"
#include "tests/support/group.h"

namespace sparsecoll::test {

inline constexpr int kRanks = 3;
inline constexpr uint64_t kLength = 3000;
inline constexpr uint64_t kUs = 1000;

// In microseconds: of every rank, and what one of them takes longer.
struct Costs {
  std::map<std::string, uint64_t> us;
  int slowRank = -1;
  std::map<std::string, uint64_t> slowUs;
};

class CostsInPlace {
 public:
  explicit CostsInPlace(Costs costs) {
    now() = std::move(costs);
    replaceCosts(&CostsInPlace::of);
  }
  ~CostsInPlace() { replaceCosts(nullptr); }
  CostsInPlace(const CostsInPlace&) = delete;
  CostsInPlace& operator=(const CostsInPlace&) = delete;
  static void change(Costs costs) { now() = std::move(costs); }

 private:
  static Costs& now() {
    static Costs costs;
    return costs;
  }
  static StepCost of(const char* candidate, int rank, StepCost) {
    const Costs& costs = now();
    uint64_t us = costs.us.at(candidate) + static_cast<uint64_t>(rank);
    if (rank == costs.slowRank) us += costs.slowUs.at(candidate);
    return {us * kUs, us * kUs / 2};
  }
};

inline const Costs kSplitWins = {{{"topka", 200}, {"sparcml-split", 100}, {"spardl", 900}, {"dense", 150}}, -1, {}};
inline const Costs kDenseWins = {{{"topka", 200}, {"sparcml-split", 180}, {"spardl", 190}, {"dense", 150}}, -1, {}};
inline const Costs kTopkaWins = {{{"topka", 100}, {"sparcml-split", 180}, {"spardl", 190}, {"dense", 950}}, -1, {}};

using Choices = std::vector<sparsecollChoice_t>;

inline Choices choicesOf(sparsecollReducer_t reducer) {
  uint64_t count = 0;
  if (sparsecollReducerGetPlan(reducer, nullptr, &count) != sparsecollSuccess) return {};
  Choices choices(count);
  if (sparsecollReducerGetPlan(reducer, choices.data(), &count) != sparsecollSuccess) return {};
  return choices;
}

inline std::string shown(const Choices& choices) {
  std::string text;
  for (const sparsecollChoice_t& choice : choices)
    text += std::to_string(choice.step) + " " + sparsecollCollectiveName(choice.collective) + ", ";
  return text;
}

inline sparsecollReducerConfig_t planned(const Choices& choices) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.plan = choices.data();
  config.planCount = choices.size();
  return config;
}

class AutoGroup : public Group {
 public:
  explicit AutoGroup(double density = 0.01, sparsecollDataType_t type = sparsecollFloat32,
                     const sparsecollReducerConfig_t* config = nullptr, const sparsecollConfig_t* comm = nullptr)
      : Group(kRanks, kLength, type, preset("auto", density), config, comm) {
    REQUIRE(created() == all(kRanks, sparsecollSuccess));
  }
  AutoGroup(const sparsecollParams_t& params, const sparsecollReducerConfig_t* config = nullptr)
      : Group(kRanks, kLength, sparsecollFloat32, params, config) {
    REQUIRE(created() == all(kRanks, sparsecollSuccess));
  }
  void run(uint64_t steps) {
    for (uint64_t s = 0; s < steps; ++s) {
      fillRandom(seed_++);
      REQUIRE(step() == all(kRanks, sparsecollSuccess));
      REQUIRE(outsEqual());
    }
  }
  std::string collective(int rank = 0) const { return sparsecollCollectiveName(infoOf(reducer(rank)).collective); }
  std::string reason() const { return info().reason; }
  std::string plan(int rank = 0) const { return shown(choicesOf(reducer(rank))); }

 private:
  uint64_t seed_ = 1;
};

}  // namespace sparsecoll::test
