// What of a vector's parameters goes to the shards of a step over nodes, and what all ranks find the same about.
#include <string>
#include <utility>

#include "tests/support/catch.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;

}  // namespace

TEST_CASE("k is shared out by the elements that are selected from") {
  const NodeShape shape{4, 2};
  const sparsecollSegment_t segments[] = {{500, 0, 1, 0}, {500, 0, 0, 0}};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments;
  config.segmentCount = 2;
  sparsecollParams_t params = preset("topka", 0);
  params.k = 40;
  Stepping over(shape, kLength, sparsecollFloat32, overNodes(params), &config);
  over.group.fillRandom(1);
  REQUIRE(over.group.step() == all(shape.ranks, sparsecollSuccess));
  // Shards of 512 and 488 elements; 12 of the first are selected from, and at least one of them is sent.
  CHECK(over.group.stats(0).lastSelected == 500 + 1);
  CHECK(over.group.stats(1).lastSelected == 40);
}

TEST_CASE("a tensor is selected from on its own if any tensor has a density, also one in another shard") {
  const NodeShape shape{4, 2};
  constexpr uint64_t kLong = 12800;
  const sparsecollSegment_t segments[] = {{6400, 0.5, 0, 0}, {3200, 0, 0, 0}, {3200, 0, 0, 0}};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments;
  config.segmentCount = 3;
  Stepping over(shape, kLong, sparsecollFloat32, overNodes(preset("topka", 0.01)), &config);
  Group& group = over.group;
  group.fillRandom(1);
  for (Elements& gradient : group.gradients)
    for (uint64_t i = 9600; i < kLong; ++i) gradient.set(i, gradient[i] * 1000);
  REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
  uint64_t second = 0;
  for (uint64_t i = 6400; i < 9600; ++i) second += group.outs[0][i] != 0 ? 1 : 0;
  CHECK(second >= 32);
}

TEST_CASE("with a schedule or k all ranks refuse another density, with a shard or without") {
  const NodeShape shape{5, 3};
  const double density = 0.2;
  const sparsecollReducerConfig_t timed = scheduled(density, 2);
  sparsecollParams_t counted = preset("topka", 0);
  counted.k = 50;
  const std::pair<sparsecollParams_t, const sparsecollReducerConfig_t*> cases[] = {{preset("topka", 0.05), &timed},
                                                                                   {counted, nullptr}};
  for (const auto& [params, config] : cases) {
    Stepping over(shape, kLength, sparsecollFloat32, overNodes(params), config);
    Group& group = over.group;
    CHECK(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, 0.01); }) ==
          all(shape.ranks, sparsecollUnsupported));
    group.fillRandom(1);
    for (int step = 0; step < 3; ++step) CHECK(group.step() == all(shape.ranks, sparsecollSuccess));
  }
}

TEST_CASE("teams that do not divide the nodes are refused on every rank") {
  for (const NodeShape& shape : {NodeShape{5, 2}, NodeShape{5, 3}}) {
    CAPTURE(shape.name());
    sparsecollParams_t params = preset("spardl", 0.05);
    params.teams = shape.nodes() == 3 ? 2 : 3;
    Stepping over(shape, kLength, sparsecollFloat32, overNodes(params));
    CHECK(over.group.created() == all(shape.ranks, sparsecollInvalidArgument));
  }
}

#ifndef SPARSECOLL_TEST_PAIRS  // engines of callers do not split
TEST_CASE("ranks stay on their nodes when a communicator is split") {
  constexpr int kEight = 8;
  const sparsecollConfig_t config = nodesOf(4);
  const Ranks ranks(kEight, &config);
  const sparsecollParams_t params = overNodes(preset("topka", 0.05));
  // One rank of each node in every part.
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          sparsecollComm_t part = nullptr;
          sparsecollReducer_t reducer = nullptr;
          sparsecollResult_t result = sparsecollCommSplit(comm, rank % 4, 0, &part, nullptr);
          if (result == sparsecollSuccess)
            result = sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, part);
          if (result == sparsecollSuccess && infoOf(reducer).nodes != 2) result = sparsecollInternalError;
          (void)sparsecollReducerDestroy(reducer);
          (void)sparsecollCommDestroy(part);
          return result;
        }) == all(kEight, sparsecollSuccess));
}
#endif

TEST_CASE("scaled gradients of half precision fit where their sums alone would not") {
  const NodeShape shape{4, 2};
  sparsecollParams_t params = preset("dense", 0);
  params.op = sparsecollAvg;
  params.inputScale = 1.0 / 1024;
  Stepping over(shape, 256, sparsecollFloat16, overNodes(params));
  for (Elements& gradient : over.group.gradients)
    for (uint64_t i = 0; i < 256; ++i) gradient.set(i, 40000);
  REQUIRE(over.group.step() == all(shape.ranks, sparsecollSuccess));
  CHECK(over.group.outs[3][255] == 39.0625);
}
