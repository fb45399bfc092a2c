// Steps over nodes: node sums by hand, then the flat method between nodes for every shard. Two nodes are made of one
// process's ranks; tests/engine runs the same over messages.
#include "tests/support/catch.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/node_groups.h"
#include "tests/support/presets.h"
#include "tests/support/same_steps.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;

sparsecollParams_t flatOf(const std::string& name) { return preset(name.c_str(), name == "dense" ? 0 : 0.03); }

}  // namespace

TEST_CASE("a step over nodes is the flat method between their sums, shard by shard") {
  for (const NodeShape& shape : kNodeShapes)
    for (const std::string& name : presetsToStep()) {
      CAPTURE(shape.name(), name);
      const sparsecollParams_t flat = flatOf(name);
      NodeOracle oracle(shape, kLength, sparsecollFloat32, flat);
      Stepping over(shape, kLength, sparsecollFloat32, overNodes(flat));
      Group& group = over.group;
      REQUIRE(oracle.created());
      REQUIRE(group.created() == all(shape.ranks, sparsecollSuccess));
      bool sums = true;
      bool residuals = true;
      for (uint64_t step = 0; step < 3; ++step) {
        group.fillRandom(step);
        REQUIRE(oracle.step(group.gradients));
        REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
        for (int rank = 0; rank < shape.ranks; ++rank) {
          sums = sums && oracle.outEquals(group.outs[static_cast<size_t>(rank)]);
          residuals = residuals && oracle.residualEquals(rank, group.residual(rank));
        }
      }
      CHECK(sums);
      CHECK(residuals);
    }
}

TEST_CASE("nodes of one rank step as if there were none") {
  for (const std::string& name : presetsToStep()) {
    CAPTURE(name);
    const sparsecollParams_t flat = flatOf(name);
    Group expected(3, kLength, sparsecollFloat32, flat);
    Stepping over({3, 1}, kLength, sparsecollFloat32, overNodes(flat));
    checkSameSteps(expected, over.group, 2);
  }
}

TEST_CASE("what a node sums up is delivered or kept, entry by entry, in every type") {
  for (const NodeShape& shape : {NodeShape{5, 3}, NodeShape{4, 2}, NodeShape{3, 8}})
    for (const sparsecollDataType_t type : kAllTypes)
      for (const uint64_t n : {uint64_t{1}, uint64_t{70}, kLength})
        for (const char* const name : {"topka", "oktopk", "spardl", "micro", "dense"}) {
          CAPTURE(shape.name(), nameOf(type), n, name);
          Stepping over(shape, n, type, overNodes(flatOf(name)));
          Group& group = over.group;
          REQUIRE(group.created() == all(shape.ranks, sparsecollSuccess));
          uint64_t lost = 0;
          for (uint64_t step = 0; step < 3; ++step) {
            group.fillIntegers(step);
            std::vector<double> sum(n);
            const auto count = [&](double sign) {
              for (int rank = 0; rank < shape.ranks; ++rank) {
                const Elements residual = group.residual(rank);
                const sparsecollReducerInfo_t info = infoOf(group.reducer(rank));
                for (uint64_t i = 0; i < residual.size(); ++i) sum[info.shardBegin + i] += sign * residual[i];
              }
            };
            count(1);
            for (const Elements& gradient : group.gradients)
              for (uint64_t i = 0; i < n; ++i) sum[i] += gradient[i];
            REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
            count(-1);
            for (uint64_t i = 0; i < n; ++i) lost += sum[i] != group.outs[0][i] ? 1 : 0;
            CHECK(group.outsEqual());
          }
          CHECK(lost == 0);
        }
}

TEST_CASE("steps over nodes in place have the bits of others") {
  const NodeShape shape{5, 3};
  for (const char* const name : {"topka", "oktopk", "dense"}) {
    CAPTURE(name);
    Stepping apart(shape, kLength, sparsecollFloat32, overNodes(flatOf(name)));
    Stepping inPlace(shape, kLength, sparsecollFloat32, overNodes(flatOf(name)));
    for (uint64_t step = 0; step < 2; ++step) {
      apart.group.fillRandom(step);
      inPlace.group.gradients = apart.group.gradients;
      REQUIRE(apart.group.step() == all(shape.ranks, sparsecollSuccess));
      REQUIRE(inPlace.group.each([&](int rank, sparsecollReducer_t reducer) {
        Elements& vector = inPlace.group.gradients[static_cast<size_t>(rank)];
        return sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr);
      }) == all(shape.ranks, sparsecollSuccess));
      for (const Elements& vector : inPlace.group.gradients) CHECK(vector == apart.group.outs[0]);
    }
  }
}

TEST_CASE("long vectors go in several pieces inside the node and between nodes") {
  const NodeShape shape{4, 2};
  constexpr uint64_t kLong = 2200000;
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    const sparsecollParams_t flat = flatOf(name);
    NodeOracle oracle(shape, kLong, sparsecollFloat32, flat);
    Stepping over(shape, kLong, sparsecollFloat32, overNodes(flat));
    over.group.fillIntegers(5);
    REQUIRE(oracle.step(over.group.gradients));
    REQUIRE(over.group.step() == all(shape.ranks, sparsecollSuccess));
    CHECK(oracle.outEquals(over.group.outs[0]));
    CHECK(over.group.outsEqual());
  }
}

TEST_CASE("an average over nodes divides by all ranks, and scales apply once") {
  const NodeShape shape{5, 3};
  sparsecollParams_t params = overNodes(preset("topka", 1));
  params.op = sparsecollAvg;
  params.inputScale = 0.5;
  params.outputScale = 4;
  Stepping over(shape, kLength, sparsecollFloat64, params);
  Group& group = over.group;
  const auto wrong = [&](double factor) {
    group.fillIntegers(1);
    REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
    uint64_t count = 0;
    for (uint64_t i = 0; i < kLength; ++i) {
      double sum = 0;
      for (const Elements& gradient : group.gradients) sum += gradient[i];
      count += std::abs(group.outs[4][i] - sum * factor / 5) > 1e-12 ? 1 : 0;
    }
    return count;
  };
  CHECK(wrong(2) == 0);
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetScales(reducer, 0.25, 2); }) ==
          all(shape.ranks, sparsecollSuccess));
  CHECK(wrong(0.5) == 0);
}

TEST_CASE("between nodes goes what one list of a node has, at most a share of what flat ranks send") {
  constexpr uint64_t kLong = 64000;
  for (const NodeShape& shape : {NodeShape{4, 2}, NodeShape{8, 2}}) {
    CAPTURE(shape.name());
    const sparsecollParams_t flat = preset("topka", 0.01);
    Group all(shape.ranks, kLong, sparsecollFloat32, flat);
    Stepping over(shape, kLong, sparsecollFloat32, overNodes(flat));
    all.fillRandom(1);
    over.group.gradients = all.gradients;
    (void)all.step();
    (void)over.group.step();
    uint64_t sentFlat = 0;
    uint64_t sentOver = 0;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const sparsecollStats_t stats = over.group.stats(rank);
      sentOver += stats.bytesSentBetweenNodes;
      CHECK(stats.bytesReceivedBetweenNodes == stats.bytesSentBetweenNodes);
      CHECK(stats.bytesSent > stats.bytesSentBetweenNodes);
      // Every list goes to every other rank; this many of them are of other nodes.
      const auto others = static_cast<uint64_t>(shape.ranks - shape.perNode);
      sentFlat += all.stats(rank).bytesSent * others / static_cast<uint64_t>(shape.ranks - 1);
    }
    std::printf("%s: %llu bytes between nodes in a step, flat topka %llu\n", shape.name().c_str(),
                static_cast<unsigned long long>(sentOver), static_cast<unsigned long long>(sentFlat));
    const auto perNode = static_cast<uint64_t>(shape.perNode);
    CHECK(sentOver * perNode <= sentFlat);
    // Every node sends its entries to every other one, four bytes an index and four a value, headers besides.
    const auto nodes = static_cast<uint64_t>(shape.nodes());
    CHECK(sentOver <= nodes * (nodes - 1) * (640 * 8 + perNode * 64));
  }
}

TEST_CASE("densities change between steps over nodes, and too large ones are refused on every rank") {
  const NodeShape shape{5, 3};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.2;
  Stepping over(shape, kLength, sparsecollFloat32, overNodes(preset("topka", 0.05)), &config);
  Group& group = over.group;
  const Results good = all(shape.ranks, sparsecollSuccess);
  const auto set = [&](double density) {
    return group.each([&](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, density); });
  };
  group.fillRandom(1);
  REQUIRE(group.step() == good);
  REQUIRE(set(0.2) == good);
  REQUIRE(group.step() == good);
  CHECK(group.stats(0).lastSelected == 102);  // of 512 elements
  CHECK(set(0.3) == all(shape.ranks, sparsecollInvalidArgument));
  // One rank without a shard has another one: all are told.
  REQUIRE(sparsecollReducerSetDensity(group.reducer(2), 0.1) == sparsecollSuccess);
  CHECK(group.step() == all(shape.ranks, sparsecollMismatch));
  REQUIRE(set(0.1) == good);
  CHECK(group.step() == good);
}

TEST_CASE("a share of k and of the segments goes to each shard") {
  const NodeShape shape{4, 2};
  sparsecollParams_t params = preset("topka", 0);
  params.k = 50;
  const sparsecollSegment_t segments[] = {{300, 0.5, 0, 0}, {500, 0, 0, 0}, {200, 0, 1, 0}};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  {
    Stepping over(shape, kLength, sparsecollFloat32, overNodes(params));
    over.group.fillRandom(3);
    REQUIRE(over.group.step() == all(shape.ranks, sparsecollSuccess));
    CHECK(over.group.stats(0).lastSelected + over.group.stats(1).lastSelected == 50);
  }
  config.segments = segments;
  config.segmentCount = 3;
  Stepping over(shape, kLength, sparsecollFloat32, overNodes(preset("topka", 0.1)), &config);
  Group& group = over.group;
  REQUIRE(group.created() == all(shape.ranks, sparsecollSuccess));
  group.fillIntegers(3);
  REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
  CHECK(group.outsEqual());
  CHECK(group.stats(0).lastSelected == 150 + 21);
  CHECK(group.stats(1).lastSelected == 28 + 200);
  uint64_t wrong = 0;
  for (uint64_t i = 800; i < kLength; ++i) {
    double sum = 0;
    for (const Elements& gradient : group.gradients) sum += gradient[i];
    wrong += sum != group.outs[3][i] ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a shard's state goes out and comes back, and is no other shard's") {
  const NodeShape shape{5, 3};
  sparsecollParams_t params = overNodes(preset("topka", 0.05));
  params.momentum = 0.5;
  const Results good = all(shape.ranks, sparsecollSuccess);
  Stepping first(shape, kLength, sparsecollFloat32, params);
  first.group.fillRandom(1);
  REQUIRE(first.group.step() == good);
  std::vector<Blob> blobs;
  for (int rank = 0; rank < shape.ranks; ++rank) blobs.push_back(exported(first.group.reducer(rank)));
  Stepping second(shape, kLength, sparsecollFloat32, params);
  REQUIRE(second.group.each([&](int rank, sparsecollReducer_t reducer) {
    return importInto(reducer, blobs[static_cast<size_t>(rank)]);
  }) == good);
  first.group.fillRandom(2);
  second.group.gradients = first.group.gradients;
  REQUIRE(first.group.step() == good);
  REQUIRE(second.group.step() == good);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    CHECK(first.group.outs[0] == second.group.outs[static_cast<size_t>(rank)]);
    CHECK(first.group.residual(rank) == second.group.residual(rank));
  }
  CHECK(importInto(second.group.reducer(0), blobs[1]) == sparsecollInvalidArgument);
  CHECK(importInto(second.group.reducer(0), blobs[3]) == sparsecollInvalidArgument);
  Group flat(2, 512, sparsecollFloat32, preset("topka", 0.05));
  CHECK(importInto(flat.reducer(0), blobs[0]) == sparsecollInvalidArgument);
  CHECK(importInto(second.group.reducer(0), exported(flat.reducer(0))) == sparsecollInvalidArgument);
}

TEST_CASE("nodes that went back to different steps have Mismatch, until all are in the same one") {
  for (const NodeShape& shape : {NodeShape{4, 2}, NodeShape{3, 1}})
    for (const std::string& name : presetsToStep()) {
      if (name == "dense") continue;
      CAPTURE(shape.name(), name);
      Stepping over(shape, kLength, sparsecollFloat32, overNodes(flatOf(name)));
      Group& group = over.group;
      const auto step = [&](uint64_t seed) {
        group.fillRandom(seed);
        return group.step();
      };
      REQUIRE(step(1) == all(shape.ranks, sparsecollSuccess));
      std::vector<Blob> before;
      for (int rank = 0; rank < shape.ranks; ++rank) before.push_back(exported(group.reducer(rank)));
      REQUIRE(step(2) == all(shape.ranks, sparsecollSuccess));
      const auto goBack = [&](int from, int to) {
        for (int rank = from; rank < to; ++rank)
          REQUIRE(importInto(group.reducer(rank), before[static_cast<size_t>(rank)]) == sparsecollSuccess);
      };
      goBack(0, shape.perNode);
      CHECK(step(3) == all(shape.ranks, sparsecollMismatch));
      goBack(shape.perNode, shape.ranks);
      CHECK(step(4) == all(shape.ranks, sparsecollSuccess));
      CHECK(group.outsEqual());
    }
}

TEST_CASE("what is given back and flushed over nodes is the whole sum and the whole residual") {
  const NodeShape shape{5, 3};
  for (const int op : {sparsecollSum, sparsecollAvg}) {
    CAPTURE(op);
    sparsecollParams_t params = overNodes(preset("topka", 0.05));
    params.op = op;
    Stepping over(shape, kLength, sparsecollFloat64, params);
    Group& group = over.group;
    const Results good = all(shape.ranks, sparsecollSuccess);
    group.fillIntegers(1);
    std::vector<double> sum(kLength);
    for (const Elements& gradient : group.gradients)
      for (uint64_t i = 0; i < kLength; ++i) sum[i] += gradient[i];
    REQUIRE(group.step() == good);
    REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
    }) == good);
    std::vector<Elements> flushed(static_cast<size_t>(shape.ranks), Elements(sparsecollFloat64, kLength));
    REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerFlush(reducer, flushed[static_cast<size_t>(rank)].data(), nullptr);
    }) == good);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kLength; ++i) {
      double left = 0;
      for (const Elements& one : flushed) left += one[i];
      wrong += std::abs(left - sum[i]) > 1e-9 ? 1 : 0;
    }
    CHECK(wrong == 0);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const Elements residual = group.residual(rank);
      for (uint64_t i = 0; i < residual.size(); ++i) wrong += residual[i] != 0 ? 1 : 0;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("NaN in one shard reaches every rank, and undoes a transactional step in all shards") {
  const NodeShape shape{5, 3};
  for (const bool fails : {false, true})
    for (const char* const name : {"topka", "gtopk", "dense"}) {
      CAPTURE(fails, name);
      sparsecollConfig_t config = nodesOf(shape.perNode);
      config.nonFinite = fails ? sparsecollNonFiniteError : sparsecollNonFinitePropagate;
      sparsecollReducerConfig_t reducer = SPARSECOLL_INIT(sparsecollReducerConfig_t);
      reducer.transactional = std::string(name) != "dense" ? 1 : 0;
      Group group(shape.ranks, kLength, sparsecollFloat32, overNodes(flatOf(name)), &reducer, &config);
      group.fillRandom(1);
      REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
      std::vector<Elements> before;
      for (int rank = 0; rank < shape.ranks; ++rank) before.push_back(group.residual(rank));
      group.fillRandom(2);
      group.gradients[2].set(700, NAN);  // of a rank without a shard, in the second one
      CHECK(group.step() == all(shape.ranks, fails ? sparsecollNonFinite : sparsecollSuccess));
      for (int rank = 0; rank < shape.ranks; ++rank) {
        CAPTURE(rank);
        if (!fails) CHECK(std::isnan(group.outs[static_cast<size_t>(rank)][700]));
        CHECK(group.residual(rank) == before[static_cast<size_t>(rank)]);
        CHECK(group.stats(rank).opsNonFinite == 1);
      }
      group.fillRandom(3);
      CHECK(group.step() == all(shape.ranks, sparsecollSuccess));
    }
}

TEST_CASE("without a word ranks of one host are a node, and the environment has it after the configuration") {
  const sparsecollParams_t params = overNodes(preset("topka", 0.1));
  const auto nodes = [&](int32_t told) {
    sparsecollConfig_t config = nodesOf(told);
    Group group(4, kLength, sparsecollFloat32, params, nullptr, &config);
    group.fillRandom(1);
    if (group.step() != all(4, sparsecollSuccess)) return -1;
    return infoOf(group.reducer(3)).nodes;
  };
  CHECK(nodes(0) == 1);
  CHECK(nodes(3) == 2);
  setenv("SPARSECOLL_RANKS_PER_NODE", "1", 1);
  CHECK(nodes(0) == 4);
  CHECK(nodes(2) == 2);
  setenv("SPARSECOLL_RANKS_PER_NODE", "two", 1);
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, nullptr) == sparsecollInvalidArgument);
  unsetenv("SPARSECOLL_RANKS_PER_NODE");
  sparsecollConfig_t config = nodesOf(-1);
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, &config) == sparsecollInvalidArgument);
}

TEST_CASE("what does not go over nodes is refused by name") {
  const auto refused = [](void (*change)(sparsecollParams_t&, sparsecollReducerConfig_t&)) {
    sparsecollParams_t params = overNodes(preset("topka", 0.1));
    sparsecollReducerConfig_t reducer = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    change(params, reducer);
    sparsecollConfig_t config = nodesOf(2);
    Group group(4, kLength, sparsecollFloat32, params, &reducer, &config);
    return group.created() == all(4, sparsecollUnsupported);
  };
  static float buffer[kLength];
  CHECK(refused([](auto& p, auto&) { p.flags = SPARSECOLL_ACCUMULATE; }));
  CHECK(refused([](auto& p, auto&) {
    p.op = sparsecollAvg;
    p.flags = SPARSECOLL_AVERAGE_CONTRIBUTORS;
  }));
  CHECK(refused([](auto&, auto& r) { r.buffer = buffer; }));
  CHECK(refused([](auto& p, auto& r) {
    p.momentum = 0.9;
    r.velocity = buffer;
  }));
  CHECK(refused([](auto& p, auto&) { p.betweenNodes = sparsecollCollHierarchical; }));
  Stepping over({4, 2}, kLength, sparsecollFloat32, overNodes(preset("topka", 0.1)));
  SparseVector out(sparsecollFloat32, kLength, kLength);
  CHECK(sparsecollReducerRunSparse(over.group.reducer(0), over.group.gradients[0].data(), out.view(), nullptr) ==
        sparsecollUnsupported);
}

TEST_CASE("a rank in another call is a mismatch on every rank of every node, and all go on") {
  const NodeShape shape{4, 2};
  for (const char* const name : {"topka", "gtopk", "dense"}) {
    CAPTURE(name);
    Stepping over(shape, kLength, sparsecollFloat32, overNodes(preset("topka", 0.1)));
    over.group.fillRandom(1);
    CHECK(meetAnotherCall(over.group, 3, flatOf(name)) == "");
  }
}

// Its schedule has few peers: it sends nothing to the rank of its node that waits for it.
TEST_CASE("so is a rank in a flat step of few peers") {
  const NodeShape shape{7, 2};
  const sparsecollParams_t flat = flatOf("spardl");
  Stepping over(shape, kLength, sparsecollFloat32, overNodes(flat));
  Group& group = over.group;
  const Reducers other(group.ranks(), kLength, sparsecollFloat32, flat);
  group.fillRandom(1);
  REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    return sparsecollReducerRun(rank == 1 ? other[1] : reducer, group.gradients[r].data(), group.outs[r].data(),
                                nullptr);
  }) == all(shape.ranks, sparsecollMismatch));
  CHECK(group.step() == all(shape.ranks, sparsecollSuccess));
}

TEST_CASE("an abort in one node ends the step of every rank, whatever it waits for") {
  const NodeShape shape{5, 3};
  for (const int gone : {0, 2, 4}) {  // an owner in the first node, a rank without a shard, an owner in the second
    CAPTURE(gone);
    Stepping over(shape, kLength, sparsecollFloat32, overNodes(preset("topka", 0.1)));
    Group& group = over.group;
    group.fillRandom(1);
    REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
    const Results results = onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
      if (rank == gone) return sparsecollCommAbort(comm);
      const auto r = static_cast<size_t>(rank);
      return sparsecollReducerRun(group.reducer(rank), group.gradients[r].data(), group.outs[r].data(), nullptr);
    });
    Results expected = all(shape.ranks, sparsecollPeerFailed);
    expected[static_cast<size_t>(gone)] = sparsecollSuccess;
    CHECK(results == expected);
  }
}
