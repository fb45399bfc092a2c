// Clipping over nodes: by the norm of a node's sum, which no owner of a shard knows alone.
#include <cmath>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;
constexpr double kClipNorm = 3;
constexpr NodeShape kShapes[] = {{4, 2}, {8, 2}, {5, 3}, {4, 3}, {3, 8}};

sparsecollParams_t clipped(const char* name, double density) {
  sparsecollParams_t params = overNodes(preset(name, std::string(name) == "dense" ? 0 : density));
  params.clipNorm = kClipNorm;
  return params;
}

// What a node puts in: its scaled sum, no longer than its share of the norm.
std::vector<double> inputOf(const Group& group, const NodeShape& shape, int node, double inputScale = 1) {
  const Elements sum = nodeSum(group.gradients, shape, node);
  std::vector<double> input(sum.size());
  double squares = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    input[i] = inputScale * sum[i];
    squares += input[i] * input[i];
  }
  const double most = kClipNorm / std::sqrt(static_cast<double>(shape.nodes()));
  const double factor = std::isfinite(squares) ? std::min(1.0, most / std::sqrt(squares)) : 1.0;
  for (double& x : input) x *= factor;
  return input;
}

std::vector<double> inputOf(const Group& group, const NodeShape& shape, double inputScale = 1) {
  std::vector<double> all(group.gradients[0].size());
  for (int node = 0; node < shape.nodes(); ++node) {
    const std::vector<double> one = inputOf(group, shape, node, inputScale);
    for (size_t i = 0; i < all.size(); ++i) all[i] += one[i];
  }
  return all;
}

uint64_t wrongIn(const Elements& out, const std::vector<double>& expected, double tolerance) {
  uint64_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += std::abs(out[i] - expected[i]) <= tolerance ? 0 : 1;
  return wrong;
}

// The first node's norm is far above its share, all others' below it.
void fillUnevenly(Group& group, const NodeShape& shape, uint64_t seed) {
  group.fillRandom(seed);
  for (int rank = 0; rank < shape.ranks; ++rank)
    for (uint64_t i = 0; shape.nodeOf(rank) != 0 && i < kLength; ++i)
      group.gradients[static_cast<size_t>(rank)].set(i, group.gradients[static_cast<size_t>(rank)][i] / 1024);
}

}  // namespace

TEST_CASE("a node's sum is clipped to clipNorm / sqrt(nodes), a shorter one is left alone") {
  for (const NodeShape& shape : kShapes)
    for (const char* const name : {"topka", "gtopk", "spardl", "dense"})
      for (const double inputScale : {1.0, -0.25}) {
        CAPTURE(shape.name(), name, inputScale);
        sparsecollParams_t params = clipped(name, 1);
        params.inputScale = inputScale;
        Stepping over(shape, kLength, sparsecollFloat64, params);
        Group& group = over.group;
        REQUIRE(group.created() == all(shape.ranks, sparsecollSuccess));
        for (uint64_t step = 0; step < 2; ++step) {
          fillUnevenly(group, shape, step);
          REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
          CHECK(wrongIn(group.outs[0], inputOf(group, shape, inputScale), 1e-12) == 0);
          CHECK(group.outsEqual());
        }
      }
}

TEST_CASE("clipped node sums in every type") {
  const NodeShape shape{5, 3};
  for (const sparsecollDataType_t type : kAllTypes)
    for (const char* const name : {"topka", "dense"})
      for (const uint64_t n : {uint64_t{1}, uint64_t{70}, kLength}) {
        CAPTURE(nameOf(type), name, n);
        Stepping over(shape, n, type, clipped(name, 1));
        Group& group = over.group;
        group.fillIntegers(1);
        REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
        CHECK(wrongIn(group.outs[0], inputOf(group, shape), 0.02) == 0);
        CHECK(group.outsEqual());
      }
}

// Shards of 512 and 488 ones: an owner's own norm would give each shard a factor of its own.
TEST_CASE("all owners of a node scale by the same factor, bit by bit") {
  for (const NodeShape& shape : kShapes) {
    CAPTURE(shape.name());
    sparsecollParams_t params = clipped("topka", 0);
    params.flags = SPARSECOLL_SELECT_NOTHING;
    Stepping over(shape, kLength, sparsecollFloat32, params);
    Group& group = over.group;
    for (Elements& gradient : group.gradients) gradient.fill(1);
    REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
    uint64_t others = 0;
    for (int node = 0; node < shape.nodes(); ++node) {
      const Elements first = group.residual(node * shape.perNode);
      const double expected = inputOf(group, shape, node)[0];
      CHECK(first[0] == Approx(expected).epsilon(1e-6));
      for (int rank = 0; rank < shape.ranks; ++rank) {
        if (shape.nodeOf(rank) != node) continue;
        const Elements residual = group.residual(rank);
        for (uint64_t i = 0; i < residual.size(); ++i) others += residual[i] != first[0] ? 1 : 0;
      }
    }
    CHECK(others == 0);
  }
}

TEST_CASE("what clipped nodes put in is delivered or kept") {
  for (const NodeShape& shape : {NodeShape{4, 3}, NodeShape{5, 3}, NodeShape{8, 2}})
    for (const char* const name : {"topka", "oktopk", "gtopk", "spardl", "micro", "sidco-e", "dense"}) {
      CAPTURE(shape.name(), name);
      Stepping over(shape, kLength, sparsecollFloat64, clipped(name, 0.05));
      Group& group = over.group;
      REQUIRE(group.created() == all(shape.ranks, sparsecollSuccess));
      for (uint64_t step = 0; step < 3; ++step) {
        fillUnevenly(group, shape, step);
        std::vector<double> left = inputOf(group, shape);
        const auto count = [&](double sign) {
          for (int rank = 0; rank < shape.ranks; ++rank) {
            const Elements residual = group.residual(rank);
            const uint64_t begin = infoOf(group.reducer(rank)).shardBegin;
            for (uint64_t i = 0; i < residual.size(); ++i) left[begin + i] += sign * residual[i];
          }
        };
        count(1);
        REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
        count(-1);
        CHECK(wrongIn(group.outs[0], left, 1e-12) == 0);
        CHECK(group.outsEqual());
      }
    }
}

TEST_CASE("a node's sum is clipped before momentum") {
  for (const NodeShape& shape : {NodeShape{4, 2}, NodeShape{5, 3}})
    for (const char* const name : {"topka", "dense"}) {
      CAPTURE(shape.name(), name);
      sparsecollParams_t params = clipped(name, 1);
      params.momentum = 0.5;
      params.flags = SPARSECOLL_MOMENTUM_KEPT;
      Stepping over(shape, kLength, sparsecollFloat64, params);
      Group& group = over.group;
      std::vector<double> velocity(kLength);
      for (uint64_t step = 0; step < 4; ++step) {
        fillUnevenly(group, shape, step);
        const std::vector<double> input = inputOf(group, shape);
        for (size_t i = 0; i < kLength; ++i) velocity[i] = 0.5 * velocity[i] + input[i];
        REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
        CHECK(wrongIn(group.outs[0], velocity, 1e-12) == 0);
        CHECK(group.outsEqual());
      }
    }
}

TEST_CASE("a node whose norm is not finite clips nothing, the others do") {
  const NodeShape shape{5, 3};
  for (const char* const name : {"topka", "dense"})
    for (const double odd : {std::nan(""), HUGE_VAL, 1e200}) {  // the square of the last one overflows
      CAPTURE(name, odd);
      Stepping over(shape, kLength, sparsecollFloat64, clipped(name, 1));
      Group& group = over.group;
      group.fillRandom(1);
      group.gradients[2].set(700, odd);  // of a rank without a shard, in the second one
      REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
      std::vector<double> expected = inputOf(group, shape);
      CHECK((std::isfinite(odd) ? group.outs[4][700] == odd : !std::isfinite(group.outs[4][700])));
      expected.resize(700);
      CHECK(wrongIn(group.outs[4], expected, 1e-12) == 0);
      group.fillRandom(2);
      REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
      CHECK(wrongIn(group.outs[4], inputOf(group, shape), 1e-12) == 0);
    }
}

TEST_CASE("NaN undoes a clipped step over nodes where it is an error") {
  const NodeShape shape{4, 3};
  sparsecollConfig_t config = nodesOf(shape.perNode);
  config.nonFinite = sparsecollNonFiniteError;
  Group group(shape.ranks, kLength, sparsecollFloat32, clipped("topka", 0.05), nullptr, &config);
  group.fillRandom(1);
  REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
  group.gradients[1].set(5, NAN);
  CHECK(group.step() == all(shape.ranks, sparsecollNonFinite));
  group.fillRandom(2);
  CHECK(group.step() == all(shape.ranks, sparsecollSuccess));
  CHECK(group.outsEqual());
}

TEST_CASE("a rank in another call than a clipped step is a mismatch on every rank") {
  for (const int odd : {0, 2, 4}) {  // an owner, a rank without a shard, an owner in the other node
    CAPTURE(odd);
    Stepping over({5, 3}, kLength, sparsecollFloat32, clipped("topka", 0.1));
    over.group.fillRandom(1);
    CHECK(meetAnotherCall(over.group, odd, preset("topka", 0.1)) == "");
  }
}
