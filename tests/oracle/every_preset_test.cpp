// What holds for every preset there is, default and faithful, whatever it selects: the conservation law entry by entry,
// equal sums on all ranks, counts within what Info declares. A preset that is added is tested without a change here.
#include "tests/support/catch.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

struct Shape {
  uint64_t n;
  double density;
};
// Fewer elements than ranks, k below the number of ranks, everything.
constexpr Shape kShapes[] = {{1, 1}, {3, 0.4}, {17, 0.06}, {700, 0.01}, {1000, 0.3}, {5003, 0.02}, {64, 1}};

#ifdef __SANITIZE_THREAD__
constexpr int kRankCounts[] = {2, 8};
#elif defined(SPARSECOLL_TEST_SANITIZED) || defined(SPARSECOLL_TEST_PAIRS)
constexpr int kRankCounts[] = {1, 3, 8};
#else
constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8, 16};
#endif

#if defined(SPARSECOLL_TEST_SANITIZED) || defined(SPARSECOLL_TEST_PAIRS)
constexpr uint64_t kManySteps = 50;
#else
constexpr uint64_t kManySteps = 1000;
#endif

enum class Input { kIntegers, kEqual, kOneHot, kZero };
constexpr Input kInputs[] = {Input::kIntegers, Input::kEqual, Input::kOneHot, Input::kZero};

void fill(Group& group, Input input, uint64_t step) {
  if (input == Input::kIntegers) return group.fillIntegers(step);
  for (size_t r = 0; r < group.gradients.size(); ++r) {
    Elements& gradient = group.gradients[r];
    for (uint64_t i = 0; i < gradient.size(); ++i) {
      const bool hot = i >= gradient.size() / 3 && i < gradient.size() / 3 + gradient.size() / 20 + 1;
      gradient.set(i, input == Input::kEqual ? 2 : input == Input::kOneHot && hot ? 3 + static_cast<double>(i % 3) : 0);
    }
  }
}

// Sums over ranks of what is about to be reduced; whole numbers, so that every sum is exact.
std::vector<double> pending(const Group& group) {
  std::vector<double> sum(group.outs[0].size());
  for (int rank = 0; rank < group.count(); ++rank) {
    const Elements residual = group.residual(rank);
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += group.gradients[static_cast<size_t>(rank)][i] + (residual.size() != 0 ? residual[i] : 0);
  }
  return sum;
}

}  // namespace

TEST_CASE("every preset conserves every entry, on any number of ranks") {
  for (const std::string& name : presetsToStep())
    for (const int faithful : {0, 1})
      for (const int ranks : kRankCounts)
        for (const Shape& shape : kShapes)
          for (const Input input : kInputs) {
            if (input != Input::kIntegers && ranks != 1 && ranks != 3) continue;
            if (shape.n > 1000 && (ranks > 5 || input != Input::kIntegers)) continue;
            CAPTURE(name, faithful, ranks, shape.n, shape.density, static_cast<int>(input));
            sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : shape.density);
            params.faithful = faithful;
            params.momentum = 0;  // what goes in is the gradient
            Group group(ranks, shape.n, sparsecollFloat32, params);
            REQUIRE(group.created() == all(ranks, sparsecollSuccess));
            uint64_t lost = 0;
            bool equal = true;
            bool within = true;
            for (uint64_t step = 0; step < 5; ++step) {
              fill(group, input, step);
              const std::vector<double> before = pending(group);
              REQUIRE(group.step() == all(ranks, sparsecollSuccess));
              std::vector<double> after(before.size());
              for (int rank = 0; rank < ranks; ++rank) {
                const Elements residual = group.residual(rank);
                for (size_t i = 0; i < residual.size(); ++i) after[i] += residual[i];
                within = within && group.stats(rank).lastSelected <= group.info().capacity;
              }
              for (size_t i = 0; i < before.size(); ++i) lost += before[i] != after[i] + group.outs[0][i] ? 1 : 0;
              equal = equal && group.outsEqual();
            }
            // Only a method that is faithful to a published leak may lose anything, and then it says so.
            uint64_t admitted = 0;
            for (int rank = 0; rank < ranks; ++rank) admitted += group.stats(rank).entriesLost;
            CHECK((lost == 0 || admitted != 0));
            CHECK((admitted == 0 || faithful != 0));
            CHECK(equal);
            CHECK(within);
          }
}

// Nothing that one step may lose or keep twice is too little to be seen after so many.
TEST_CASE("what went into many steps is in their sums or in the residuals") {
  for (const std::string& name : presetsToStep()) {
    CAPTURE(name);
    constexpr int kRanks = 3;
    sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.02);
    params.momentum = 0;  // what goes in is the gradient
    Group group(kRanks, 401, sparsecollFloat32, params);
    REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
    std::vector<double> balance(401);
    bool went = true;
    for (uint64_t step = 0; step < kManySteps && went; ++step) {
      group.fillIntegers(step);
      for (const Elements& gradient : group.gradients)
        for (size_t i = 0; i < balance.size(); ++i) balance[i] += gradient[i];
      went = group.step() == all(kRanks, sparsecollSuccess);
      for (size_t i = 0; i < balance.size(); ++i) balance[i] -= group.outs[0][i];
    }
    CHECK(went);
    CHECK(group.outsEqual());
    for (int rank = 0; rank < kRanks; ++rank) {
      const Elements residual = group.residual(rank);
      for (size_t i = 0; i < residual.size(); ++i) balance[i] -= residual[i];
    }
    CHECK(balance == std::vector<double>(401));
  }
}

// On one rank what has left the residual is what was selected.
TEST_CASE("lastThreshold is the one that the step selected with, for every preset that has one") {
  // No magnitude divides what they select, as these do by tensor or chunk.
  const std::set<std::string> without = {"deft", "randomk", "chunk-topk"};
  for (const std::string& name : sparsePresets())
    for (const int faithful : {0, 1}) {
      CAPTURE(name, faithful);
      sparsecollParams_t params = preset(name.c_str(), 0.02);
      params.faithful = faithful;
      params.momentum = 0;
      Group group(1, 5003, sparsecollFloat32, params);
      REQUIRE(group.created() == all(1, sparsecollSuccess));
      uint64_t fallbacks = 0, told = 0;
      for (uint64_t step = 0; step < 12; ++step) {
        CAPTURE(step);
        group.fillRandom(step);
        Elements acc = group.residual(0);
        for (uint64_t i = 0; i < acc.size(); ++i) acc.set(i, acc[i] + group.gradients[0][i]);
        REQUIRE(group.step() == all(1, sparsecollSuccess));
        const Elements left = group.residual(0);
        const double threshold = group.stats(0).lastThreshold;
        uint64_t below = 0, passedBy = 0, selected = 0;
        for (uint64_t i = 0; i < acc.size(); ++i) {
          const bool sent = left[i] == 0 && acc[i] != 0;
          selected += sent ? 1 : 0;
          below += sent && std::abs(acc[i]) < threshold ? 1 : 0;
          passedBy += !sent && std::abs(acc[i]) > threshold ? 1 : 0;
        }
        CAPTURE(threshold, selected, below, passedBy);
        REQUIRE_FALSE(std::isnan(threshold));
        const bool fellBack = std::exchange(fallbacks, group.stats(0).opsFallback) != group.stats(0).opsFallback;
        if (threshold == 0) {
          CHECK((fellBack || without.contains(name) || (name == "dgc" && faithful != 0)));
          continue;
        }
        ++told;
        CHECK(below <= (faithful != 0 ? 1 : 0));
        CHECK((passedBy == 0 || name == "rtopk" || selected == group.info().capacity));
      }
      CHECK((told >= 9 || without.contains(name) || (name == "dgc" && faithful != 0)));
    }
}

TEST_CASE("every preset with momentum conserves what its velocity puts in") {
  for (const std::string& name : presetsToStep())
    for (const int faithful : {0, 1})
      for (const int ranks : {1, 3}) {
        if (name == "dense") continue;
        CAPTURE(name, faithful, ranks);
        sparsecollParams_t params = preset(name.c_str(), 0.02);
        params.faithful = faithful;
        params.momentum = 0.5;
        params.flags = SPARSECOLL_MOMENTUM_KEPT;  // so that nothing but the gradients moves the velocity
        Group group(ranks, 5003, sparsecollFloat32, params);
        REQUIRE(group.created() == all(ranks, sparsecollSuccess));
        std::vector<std::vector<double>> velocity(static_cast<size_t>(ranks), std::vector<double>(5003));
        uint64_t lost = 0;
        for (uint64_t step = 0; step < 6; ++step) {
          group.fillIntegers(step);
          std::vector<double> sum(5003);
          for (int rank = 0; rank < ranks; ++rank) {
            const auto r = static_cast<size_t>(rank);
            const Elements residual = group.residual(rank);
            for (size_t i = 0; i < sum.size(); ++i) {
              velocity[r][i] = 0.5 * velocity[r][i] + group.gradients[r][i];
              sum[i] += residual[i] + velocity[r][i];
            }
          }
          REQUIRE(group.step() == all(ranks, sparsecollSuccess));
          for (int rank = 0; rank < ranks; ++rank) {
            const Elements residual = group.residual(rank);
            for (size_t i = 0; i < sum.size(); ++i) sum[i] -= residual[i];
          }
          for (size_t i = 0; i < sum.size(); ++i) lost += sum[i] != group.outs[0][i] ? 1 : 0;
          CHECK(group.outsEqual());
        }
        uint64_t admitted = 0;
        for (int rank = 0; rank < ranks; ++rank) admitted += group.stats(rank).entriesLost;
        CHECK((lost == 0 || admitted != 0));
      }
}
