// How close the default selectors come to the density they were asked for, with error feedback, on five distributions:
// on average within 2 %, and after the first five steps within a band in every step.
#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 150'000;
constexpr double kDensity = 0.02;
constexpr int kRanks = 2;
constexpr int kSteps = 40;
constexpr int kSettled = 6;

using Engine = std::mt19937_64;

struct Distribution {
  const char* name;
  double (*draw)(Engine& random, uint64_t index);
};

double either(Engine& random, double x) { return random() % 2 == 0 ? x : -x; }

const Distribution kDistributions[] = {
    {"normal", [](Engine& random, uint64_t) { return std::normal_distribution<double>()(random); }},
    {"Laplace",
     [](Engine& random, uint64_t) { return either(random, std::exponential_distribution<double>()(random)); }},
    {"Student t, 3 degrees", [](Engine& random, uint64_t) { return std::student_t_distribution<double>(3)(random); }},
    {"double gamma, shape 1/2",
     [](Engine& random, uint64_t) { return either(random, std::gamma_distribution<double>(0.5)(random)); }},
    {"normal layers of very different scales",
     [](Engine& random, uint64_t index) {
       const double scale = std::exp(2 * std::sin(static_cast<double>(index * 37 / kLength)));
       return scale * std::normal_distribution<double>()(random);
     }},
};

struct Row {
  const char* preset;
  double band;  // of a step's density
};
constexpr Row kRows[] = {{"topka", 0},      {"cltk", 0},        {"sage", 0.1},    {"sidco-e", 0.2}, {"sidco-gp", 0.2},
                         {"sidco-p", 0.2},  {"gaussiank", 0.1}, {"redsync", 0.1}, {"dgc", 0.1},     {"micro", 0.1},
                         {"exdyna", 0.1},   {"deft", 0},        {"oktopk", 0.1},  {"gtopk", 0},     {"spardl", 0},
                         {"chunk-topk", 0}, {"randomk", 0}};

// Gradients of many steps from a few numbers: each step starts to read them elsewhere.
class Stream {
 public:
  Stream(const Distribution& distribution, int rank) : values_(kLength) {
    Engine random(static_cast<uint64_t>(rank) * 977 + 3);
    for (uint64_t i = 0; i < kLength; ++i) values_[i] = 1e-3 * distribution.draw(random, i);
  }
  // Within a stretch of the same scale only, of which the layers are.
  void fill(Elements& gradient, int step) const {
    constexpr uint64_t kStretch = kLength / 37;
    for (uint64_t i = 0; i < kLength; ++i) {
      const uint64_t from = i / kStretch * kStretch;
      const uint64_t length = std::min(kStretch, kLength - from);
      gradient.set(i, values_[from + (i - from + static_cast<uint64_t>(step) * 1009) % length]);
    }
  }

 private:
  std::vector<double> values_;
};

}  // namespace

TEST_CASE("what is hard to estimate is sent all the same") {
  for (const char* const name : {"sage", "sidco-e", "sidco-gp", "sidco-p", "gaussiank", "redsync", "dgc"})
    for (const bool alone : {true, false}) {
      CAPTURE(name, alone);
      sparsecollParams_t params = preset(name, 0.01);
      params.momentum = 0;
      Group group(2, 3000, sparsecollFloat32, params);
      for (Elements& gradient : group.gradients)  // one entry, or all of one magnitude
        for (uint64_t i = 0; i < 3000; ++i) gradient.set(i, alone ? (i == 1234 ? 0.7 : 0) : i % 2 == 0 ? 2 : -2);
      double sent = 0;
      for (int step = 0; step < 40; ++step) {
        REQUIRE(group.step() == all(2, sparsecollSuccess));
        for (uint64_t i = 0; i < 3000; ++i) sent += std::abs(group.outs[0][i]);
      }
      CHECK(sent > 0);
    }
}

TEST_CASE("a few entries among zeros travel soon, whether a sample has met them or not") {
  constexpr uint64_t kLong = 400000, kFew = 10, kSteps = 20;
  for (const char* const name : {"sage", "sidco-e", "sidco-gp", "sidco-p", "gaussiank", "redsync", "dgc"}) {
    CAPTURE(name);
    Group group(2, kLong, sparsecollFloat32, preset(name, 0.001));
    uint64_t selected = 0;
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (Elements& gradient : group.gradients) {
        gradient.fill(0);
        for (uint64_t i = 0; i < kFew; ++i)
          gradient.set((i * 39989 + 7919 * step) % kLong, 1 + 0.1 * static_cast<double>(i));
      }
      REQUIRE(group.step() == all(2, sparsecollSuccess));
      selected += group.stats(0).lastSelected;
    }
    CHECK(selected >= kSteps * kFew / 2);
  }
}

TEST_CASE("all entries travel where all are asked for") {
  for (const char* const name : {"sage", "sidco-e", "sidco-gp", "sidco-p", "gaussiank", "redsync", "dgc", "topka"})
    for (const uint64_t n : {1, 2, 33, 1000}) {
      CAPTURE(name, n);
      Group group(2, n, sparsecollFloat32, preset(name, 1));
      uint64_t selected = 0;
      for (uint64_t step = 0; step < 8; ++step) {
        group.fillRandom(step + 1);
        REQUIRE(group.step() == all(2, sparsecollSuccess));
        CHECK(group.stats(0).lastSelected > 0);
        selected += group.stats(0).lastSelected;
      }
      CHECK(selected >= 8 * n * 9 / 10);
    }
}

TEST_CASE("magnitudes that are much alike travel at any density") {
  for (const char* const name : {"sidco-e", "sidco-gp", "sidco-p", "gaussiank", "sage", "dgc"})
    for (const double width : {0.0, 0.1}) {
      CAPTURE(name, width);
      sparsecollParams_t params = preset(name, 0.001);
      params.momentum = 0;
      Group group(2, 2000, sparsecollFloat32, params);
      uint64_t selected = 0;
      Engine random(7);
      for (int step = 0; step < 400; ++step) {
        for (Elements& gradient : group.gradients)
          for (uint64_t i = 0; i < 2000; ++i) gradient.set(i, 1 + width * static_cast<double>(random() % 1000) / 1000);
        REQUIRE(group.step() == all(2, sparsecollSuccess));
        selected += group.stats(0).lastSelected;
      }
      CHECK(selected >= 400);  // of 800
    }
}

TEST_CASE("with fewer entries than ranks every partition has its turn") {
  struct Case {
    uint64_t n, k;
    int ranks;
  };
  for (const char* const name : {"micro", "exdyna"})
    for (const Case& one : {Case{64, 1, 8}, {31, 1, 8}, {20, 2, 5}, {10, 1, 3}, {200, 4, 8}})
      for (const bool constant : {false, true}) {
        CAPTURE(name, one.n, one.k, one.ranks, constant);
        sparsecollParams_t params = preset(name, 0);
        params.k = one.k;
        Group group(one.ranks, one.n, sparsecollFloat32, params);
        std::vector<bool> came(one.n);
        Engine random(11);
        for (int step = 0; step < 1500; ++step) {
          for (Elements& gradient : group.gradients)
            for (uint64_t i = 0; i < one.n; ++i)
              gradient.set(i, 1 + static_cast<double>(constant ? i % 3 : random() % 1000));
          REQUIRE(group.step() == all(one.ranks, sparsecollSuccess));
          for (uint64_t i = 0; i < one.n; ++i)
            if (group.outs[0][i] != 0) came[i] = true;
        }
        CHECK(std::ranges::count(came, false) == 0);
      }
}

TEST_CASE("default selectors keep to their density") {
  for (const Distribution& distribution : kDistributions) {
    std::vector<Stream> streams;
    for (int rank = 0; rank < kRanks; ++rank) streams.emplace_back(distribution, rank);
    for (const Row& row : kRows) {
      CAPTURE(distribution.name, row.preset);
      Group group(kRanks, kLength, sparsecollFloat32, preset(row.preset, kDensity));
      double sum = 0;
      double worst = 0;
      for (int step = 0; step < kSteps; ++step) {
        for (int rank = 0; rank < kRanks; ++rank)
          streams[static_cast<size_t>(rank)].fill(group.gradients[static_cast<size_t>(rank)], step);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        for (int rank = 0; rank < kRanks && step >= kSettled; ++rank) {
          const sparsecollStats_t stats = group.stats(rank);
          const uint64_t count = group.info().densityIsGlobal != 0 ? stats.lastUnion : stats.lastSelected;
          const double ratio = static_cast<double>(count) / static_cast<double>(stats.lastRequested);
          sum += ratio;
          worst = std::max(worst, std::abs(ratio - 1));
        }
      }
      CHECK(sum / ((kSteps - kSettled) * kRanks) == Approx(1).margin(0.02));
      CHECK(worst <= row.band);
    }
  }
}

// Where no common threshold is known each rank sends exactly its share, which costs it a second look at the gradient.
TEST_CASE("a threshold that ranks share is found again after more entries were near it than a list has room for") {
  constexpr int kTried = 60, kFound = 15;
  const Distribution& normal = kDistributions[0];
  for (const char* const name : {"micro", "exdyna"}) {
    CAPTURE(name);
    Group group(kRanks, kLength, sparsecollFloat32, preset(name, 0.001));
    std::vector<Stream> streams;
    for (int rank = 0; rank < kRanks; ++rank) streams.emplace_back(normal, rank);
    int shared = 0;
    for (int step = 0; step < kTried; ++step) {
      for (int rank = 0; rank < kRanks; ++rank)
        streams[static_cast<size_t>(rank)].fill(group.gradients[static_cast<size_t>(rank)], step);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
      shared += step >= kFound && group.stats(0).lastSelected != group.stats(1).lastSelected ? 1 : 0;
    }
    CHECK(shared > (kTried - kFound) / 2);
  }
}
