// Steps over nodes on devices: the bits of steps over nodes in host memory, on every rank, dense sums too.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/node_groups.h"
#include "tests/support/presets.h"
#include "tests/support/replays.h"
#include "tests/support/same_steps.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 2003;
constexpr NodeShape kUnequal{5, 3};

sparsecollParams_t paramsOf(const std::string& name) {
  return overNodes(preset(name.c_str(), name == "dense" ? 0 : 0.03));
}

sparsecollConfig_t strict(const NodeShape& shape) {
  sparsecollConfig_t config = nodesOf(shape.perNode);
  config.nonFinite = sparsecollNonFiniteError;
  return config;
}

struct Pair {
  Pair(const NodeShape& shape, const sparsecollConfig_t& config, uint64_t n, sparsecollDataType_t type,
       const sparsecollParams_t& params, const sparsecollReducerConfig_t* reducer = nullptr)
      : host(shape.ranks, n, type, params, reducer, &config),
        ranks(shape.ranks, &config),
        nccl(ranks, n, type, params, reducer) {}

  // Of the ranks on devices, a step.
  Results capture(RankGraphs& graphs) {
    return ranks.each(
        [&](int rank) { return captureGraph(ranks.stream(rank), &graphs[rank], [&] { return nccl.run(rank); }); });
  }
  Results replay(RankGraphs& graphs) {
    return ranks.each([&](int rank) {
      if (cudaGraphLaunch(graphs[rank], ranks.stream(rank)) != cudaSuccess) return sparsecollCudaError;
      return sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000);
    });
  }
  // Of both, a step with the host's gradients.
  Results stepHost(uint64_t seed, double scale = 1) {
    host.fillRandom(seed, scale);
    for (size_t r = 0; r < host.gradients.size(); ++r)
      std::memcpy(nccl.gradients[r].data(), host.gradients[r].data(), host.gradients[r].byteCount());
    return host.step();
  }
  void checkEqual() const {
    for (int rank = 0; rank < host.count(); ++rank) {
      CAPTURE(rank);
      CHECK(nccl.outs[static_cast<size_t>(rank)] == host.outs[static_cast<size_t>(rank)]);
      CHECK(nccl.residual(rank) == host.residual(rank));
    }
  }

  Group host;
  NcclRanks ranks;
  NcclGroup nccl;
};

void checkSteps(const NodeShape& shape, const std::string& name, uint64_t n, sparsecollDataType_t type, int steps,
                const sparsecollReducerConfig_t* reducer = nullptr) {
  CAPTURE(shape.name(), name, n, nameOf(type));
  {
    Pair pair(shape, nodesOf(shape.perNode), n, type, paramsOf(name), reducer);
    checkSameSteps(pair.host, pair.nccl, steps);
  }
  checkNothingLeft();
}

}  // namespace

TEST_CASE("steps over nodes on devices have the bits of steps over nodes in host memory") {
  for (const std::string& name : allPresets()) checkSteps(kUnequal, name, kLength, sparsecollFloat32, 2);
  for (const NodeShape& shape : {NodeShape{4, 2}, NodeShape{8, 4}, NodeShape{4, 3}, NodeShape{3, 1}, NodeShape{3, 8}})
    for (const char* const name : {"topka", "oktopk", "spardl", "dense"})
      checkSteps(shape, name, kLength, sparsecollFloat32, 2);
}

TEST_CASE("node sums on devices are not rounded to half before the selection") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const char* const name : {"topka", "micro", "dense"}) checkSteps(kUnequal, name, 1001, type, 2);
}

TEST_CASE("vectors with fewer lines than a node has shards, on devices") {
  for (const uint64_t n : {uint64_t{1}, uint64_t{65}})
    for (const char* const name : {"topka", "dense"}) checkSteps({4, 2}, name, n, sparsecollFloat32, 2);
}

TEST_CASE("node sums on devices in several pieces") {
  checkSteps({4, 2}, "topka", 1100003, sparsecollFloat64, 1);
  checkSteps({2, 2}, "dense", 1100003, sparsecollFloat64, 1);
}

TEST_CASE("transactional steps over nodes on devices") {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  for (const char* const name : {"topka", "micro"}) checkSteps(kUnequal, name, kLength, sparsecollFloat32, 3, &config);
}

TEST_CASE("NaN in one shard is heard of by every rank of all nodes, on devices") {
  const Results good = all(kUnequal.ranks, sparsecollSuccess);
  for (const char* const name : {"topka", "spardl", "dense"}) {
    CAPTURE(name);
    {
      Pair pair(kUnequal, strict(kUnequal), kLength, sparsecollFloat32, paramsOf(name));
      REQUIRE(pair.stepHost(1) == good);
      REQUIRE(pair.nccl.step() == good);
      pair.host.gradients[1].set(kLength - 1, std::numeric_limits<double>::quiet_NaN());
      pair.nccl.gradients[1].set(kLength - 1, std::numeric_limits<double>::quiet_NaN());
      CHECK(pair.host.step() == all(kUnequal.ranks, sparsecollNonFinite));
      CHECK(pair.nccl.step() == all(kUnequal.ranks, sparsecollNonFinite));
      for (int rank = 0; rank < kUnequal.ranks; ++rank) {
        CAPTURE(rank);
        CHECK(pair.nccl.residual(rank) == pair.host.residual(rank));
        CHECK(statsOf(pair.nccl.reducer(rank)).opsNonFinite == 1);
        CHECK(statsOf(pair.nccl.reducer(rank)).opsCompleted == 1);
      }
      REQUIRE(pair.stepHost(2) == good);
      REQUIRE(pair.nccl.step() == good);
      pair.checkEqual();
    }
    checkNothingLeft();
  }
}

TEST_CASE("NaN passes on where it is no error, and stays in no residual") {
  const Results good = all(kUnequal.ranks, sparsecollSuccess);
  Pair pair(kUnequal, nodesOf(kUnequal.perNode), kLength, sparsecollFloat32, paramsOf("topka"));
  checkSameSteps(pair.host, pair.nccl, 3, [](std::vector<Elements>& gradients, int step) {
    if (step == 1) gradients[4].set(3, std::numeric_limits<double>::infinity());
  });
  for (int rank = 0; rank < kUnequal.ranks; ++rank) {
    CAPTURE(rank);
    CHECK(statsOf(pair.nccl.reducer(rank)).opsNonFinite == pair.host.stats(rank).opsNonFinite);
    CHECK(statsOf(pair.nccl.reducer(rank)).opsCompleted == 3);
  }
}

TEST_CASE("steps over nodes are captured and replayed") {
  const Results good = all(kUnequal.ranks, sparsecollSuccess);
  for (const char* const name : {"topka", "micro", "dense"}) {
    CAPTURE(name);
    {
      Pair pair(kUnequal, nodesOf(kUnequal.perNode), kLength, sparsecollFloat32, paramsOf(name));
      REQUIRE(pair.stepHost(1) == good);
      REQUIRE(pair.nccl.step() == good);
      RankGraphs graphs(kUnequal.ranks);
      REQUIRE(pair.capture(graphs) == good);
      for (uint64_t seed = 2; seed < 5; ++seed) {
        CAPTURE(seed);
        REQUIRE(pair.stepHost(seed) == good);
        REQUIRE(pair.replay(graphs) == good);
        pair.checkEqual();
      }
      const sparsecollStats_t stats = statsOf(pair.nccl.reducer(0));
      CHECK(stats.opsCompleted == 4);
      CHECK(stats.bytesSentBetweenNodes % 4 == 0);
      CHECK(stats.bytesSentBetweenNodes > 0);
      CHECK(stats.bytesSentBetweenNodes < stats.bytesSent);
    }
    checkNothingLeft();
  }
}

TEST_CASE("a density schedule over nodes is not captured, on any rank") {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  const double densities[] = {0.2, 0.1};
  config.densitySchedule = densities;
  config.densityScheduleCount = 2;
  config.scheduleSteps = 1;
  Pair pair(kUnequal, nodesOf(kUnequal.perNode), kLength, sparsecollFloat32, paramsOf("topka"), &config);
  REQUIRE(pair.nccl.created() == all(kUnequal.ranks, sparsecollSuccess));
  RankGraphs graphs(kUnequal.ranks);
  CHECK(pair.capture(graphs) == all(kUnequal.ranks, sparsecollUnsupported));
}

TEST_CASE("ranks over nodes that mean another step all hear of it, also without a shard") {
  {
    Pair pair(kUnequal, nodesOf(kUnequal.perNode), kLength, sparsecollFloat32, paramsOf("topka"));
    REQUIRE(pair.nccl.created() == all(kUnequal.ranks, sparsecollSuccess));
    REQUIRE(sparsecollReducerSetScales(pair.nccl.reducer(4), 0.5, 1) == sparsecollSuccess);
    CHECK(pair.nccl.step() == all(kUnequal.ranks, sparsecollMismatch));
  }
  checkNothingLeft();
}

namespace {

sparsecollParams_t clipped(const std::string& name) {
  sparsecollParams_t params = paramsOf(name);
  params.clipNorm = 3;
  return params;
}

// The first node's norm is far above its share (nodes_clip_test has what then comes of it), all others' below it.
void shorten(std::vector<Elements>& gradients, const NodeShape& shape) {
  for (int rank = shape.perNode; rank < shape.ranks; ++rank) {
    Elements& gradient = gradients[static_cast<size_t>(rank)];
    for (size_t i = 0; i < gradient.size(); ++i) gradient.set(i, gradient[i] / 1024);
  }
}

// Vectors of the test's own as memory that a device reaches: dense steps with momentum also copy to them.
class Registered {
 public:
  explicit Registered(std::vector<Elements>& vectors) : vectors_(vectors) {
    for (Elements& one : vectors_) REQUIRE(cudaHostRegister(one.data(), one.byteCount(), 0) == cudaSuccess);
  }
  ~Registered() {
    for (Elements& one : vectors_) (void)cudaHostUnregister(one.data());
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  std::vector<Elements>& vectors_;
};

}  // namespace

TEST_CASE("clipped node sums on devices have the bits of clipped ones in host memory") {
  struct Case {
    NodeShape shape;
    sparsecollDataType_t type;
    uint64_t n;
    double inputScale, momentum;
  };
  // Tiles of 8192 elements are added up in groups of 256.
  const Case cases[] = {{kUnequal, sparsecollFloat32, kLength, 1, 0}, {kUnequal, sparsecollFloat16, kLength, -0.25, 0},
                        {kUnequal, sparsecollBfloat16, 65, 1, 0},     {kUnequal, sparsecollFloat64, kLength, 1, 0.5},
                        {{8, 4}, sparsecollFloat32, kLength, 1, 0.5}, {{4, 3}, sparsecollFloat32, kLength, 0.5, 0},
                        {{3, 8}, sparsecollFloat32, 1, 1, 0},         {{3, 1}, sparsecollFloat16, kLength, 1, 0.5},
                        {{4, 2}, sparsecollFloat32, 5000003, 1, 0}};
  for (const Case& one : cases)
    for (const char* const name : {"topka", "gtopk", "dense"}) {
      if (one.n > kLength && name == std::string("gtopk")) continue;  // one long vector a kind of step
      CAPTURE(one.shape.name(), nameOf(one.type), one.n, one.momentum, name);
      {
        sparsecollParams_t params = clipped(name);
        params.inputScale = one.inputScale;
        params.momentum = one.momentum;
        Pair pair(one.shape, nodesOf(one.shape.perNode), one.n, one.type, params);
        const Registered outs(pair.nccl.outs);
        checkSameSteps(pair.host, pair.nccl, 2,
                       [&](std::vector<Elements>& gradients, int) { shorten(gradients, one.shape); });
      }
      checkNothingLeft();
    }
}

TEST_CASE("clipped steps over nodes are captured, and replays clip by the norm of their own gradients") {
  const Results good = all(kUnequal.ranks, sparsecollSuccess);
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    {
      Pair pair(kUnequal, nodesOf(kUnequal.perNode), kLength, sparsecollFloat32, clipped(name));
      REQUIRE(pair.stepHost(1) == good);
      REQUIRE(pair.nccl.step() == good);
      RankGraphs graphs(kUnequal.ranks);
      REQUIRE(pair.capture(graphs) == good);
      for (uint64_t seed = 2; seed < 6; ++seed) {
        CAPTURE(seed);
        REQUIRE(pair.stepHost(seed, seed % 2 == 0 ? 1 : 1e-4) == good);
        REQUIRE(pair.replay(graphs) == good);
        pair.checkEqual();
      }
    }
    checkNothingLeft();
  }
}

TEST_CASE("a node on devices whose norm is not finite clips nothing, the others do") {
  for (const char* const name : {"topka", "dense"})
    for (const double odd : {std::nan(""), HUGE_VAL, 1e200}) {  // the square of the last one overflows
      CAPTURE(name, odd);
      {
        Pair pair(kUnequal, nodesOf(kUnequal.perNode), kLength, sparsecollFloat64, clipped(name));
        checkSameSteps(pair.host, pair.nccl, 2, [&](std::vector<Elements>& gradients, int step) {
          if (step == 0) gradients[2].set(1500, odd);  // of a rank without a shard, in the second one
        });
      }
      checkNothingLeft();
    }
}

TEST_CASE("over other engines than NCCL nodes on devices are refused by name") {
  const sparsecollConfig_t config = nodesOf(2);
  Group group(4, kLength, sparsecollFloat32, paramsOf("topka"), nullptr, &config, 0);
  CHECK(group.created() == all(4, sparsecollUnsupported));
  simt::clearErrors();
}
