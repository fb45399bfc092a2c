// Reducers over nodes that go on among the ranks that are left: what living ranks held comes to the owners of other
// shards, entry by entry.
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/moved.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;

// The sum of the ranks' residuals in places of the whole vector. What ranks' threads add up is guarded.
class Held {
 public:
  void add(sparsecollReducer_t reducer, double sign = 1) {
    const Elements residual = residualOf(reducer);
    const uint64_t begin = infoOf(reducer).shardBegin;
    const std::lock_guard lock(mutex_);
    for (uint64_t i = 0; i < residual.size(); ++i) sum_[begin + i] += sign * residual[i];
  }
  void add(const Elements& vector, double sign = 1) {
    const std::lock_guard lock(mutex_);
    for (uint64_t i = 0; i < vector.size(); ++i) sum_[i] += sign * vector[i];
  }
  const std::vector<double>& sum() const { return sum_; }
  bool operator==(const Held& other) const { return sum_ == other.sum_; }

 private:
  std::mutex mutex_;
  std::vector<double> sum_ = std::vector<double>(kLength);
};

bool isIn(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

struct Case {
  NodeShape shape;
  std::vector<int> gone;
  int nodes;          // that are left
  uint64_t shard;     // elements of rank 0's new one
  uint64_t heldGone;  // elements that the ranks which are gone held
};

// Shards of two are 512 and 488 elements, of four 256 and one of 232.
const Case kCases[] = {{{4, 2}, {3}, 2, 1000, 488},     {{4, 2}, {0}, 2, 1000, 512},
                       {{4, 2}, {2, 3}, 1, 512, 1000},  {{8, 4}, {5}, 2, 384, 256},
                       {{8, 4}, {3, 4}, 2, 384, 488},   {{5, 3}, {2}, 2, 512, 0},
                       {{5, 3}, {1, 3}, 2, 1000, 1000}, {{8, 2}, {1, 4, 7}, 4, 1000, 1488}};

std::string nameOfCase(const Case& one) {
  std::string name = one.shape.name() + ", without";
  for (const int rank : one.gone) name += " " + std::to_string(rank);
  return name;
}

sparsecollParams_t paramsOf(const char* name, double momentum = 0) {
  sparsecollParams_t params = overNodes(preset(name, 0.05));
  params.momentum = momentum;
  return params;
}

}  // namespace

TEST_CASE("what living ranks held goes to the owners of the new shards") {
  for (const Case& one : kCases)
    for (const char* const name : {"topka", "oktopk", "spardl", "micro"}) {
      CAPTURE(nameOfCase(one), name);
      Stepping over(one.shape, kLength, sparsecollFloat32, paramsOf(name));
      Group& group = over.group;
      for (uint64_t step = 0; step < 3; ++step) {
        group.fillIntegers(step);
        REQUIRE(group.step() == all(one.shape.ranks, sparsecollSuccess));
      }
      group.fillIntegers(7);
      Held before, after, delivered;
      Moved moved(one.shape.ranks);
      const Results results = onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
        if (isIn(one.gone, rank)) return sparsecollSuccess;
        const auto r = static_cast<size_t>(rank);
        before.add(group.reducer(rank));
        const sparsecollResult_t result = moved.shrink(rank, comm, group.reducer(rank), one.gone);
        if (result != sparsecollSuccess) return result;
        after.add(moved.reducers[r]);
        delivered.add(moved.reducers[r]);
        delivered.add(group.gradients[r]);
        const sparsecollResult_t stepped =
            sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
        delivered.add(moved.reducers[r], -1);
        return stepped;
      });
      REQUIRE(results == all(one.shape.ranks, sparsecollSuccess));
      CHECK(before == after);
      uint64_t wrong = 0;
      sparsecollReducerInfo_t info{};
      for (int rank = one.shape.ranks - 1; rank >= 0; --rank) {
        if (isIn(one.gone, rank)) continue;
        const auto r = static_cast<size_t>(rank);
        for (uint64_t i = 0; i < kLength; ++i) wrong += group.outs[r][i] != delivered.sum()[i] ? 1 : 0;
        info = infoOf(moved.reducers[r]);
        CHECK(moved.steppedBack[r] == 0);
      }
      CHECK(wrong == 0);
      CHECK(info.nodes == one.nodes);
      CHECK(info.shardLength == one.shard);
      CHECK(moved.lost() == one.heldGone);
    }
}

// With nothing sent, acc collects what velocity adds in every step.
TEST_CASE("velocity moves with the residual") {
  for (const Case& one : kCases) {
    CAPTURE(nameOfCase(one));
    sparsecollParams_t params = paramsOf("topka", 0.5);
    params.density = 0;
    params.flags = SPARSECOLL_SELECT_NOTHING;
    Stepping over(one.shape, kLength, sparsecollFloat64, params);
    Group& group = over.group;
    group.fillIntegers(1);
    REQUIRE(group.step() == all(one.shape.ranks, sparsecollSuccess));
    for (Elements& gradient : group.gradients) gradient.fill(0);
    Held before, after;
    Moved moved(one.shape.ranks);
    REQUIRE(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
              if (isIn(one.gone, rank)) return sparsecollSuccess;
              const auto r = static_cast<size_t>(rank);
              before.add(group.reducer(rank), 1.5);
              const sparsecollResult_t result = moved.shrink(rank, comm, group.reducer(rank), one.gone);
              if (result != sparsecollSuccess) return result;
              const sparsecollResult_t stepped =
                  sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
              after.add(moved.reducers[r]);
              return stepped;
            }) == all(one.shape.ranks, sparsecollSuccess));
    CHECK(before == after);
  }
}

TEST_CASE("the velocity of dense sums over nodes moves, too") {
  const Case& one = kCases[0];
  sparsecollParams_t params = overNodes(preset("dense", 0));
  params.momentum = 0.5;
  Stepping over(one.shape, kLength, sparsecollFloat64, params);
  Group& group = over.group;
  group.fillIntegers(1);
  REQUIRE(group.step() == all(one.shape.ranks, sparsecollSuccess));
  std::vector<double> expected(kLength);
  for (int rank = 0; rank < one.shape.ranks; ++rank)
    for (uint64_t i = 0; i < kLength; ++i)  // what rank 3 held is lost: shard 1 of node 1
      if (one.shape.nodeOf(rank) == 0 || i < 512) expected[i] += group.gradients[static_cast<size_t>(rank)][i] / 2;
  for (Elements& gradient : group.gradients) gradient.fill(0);
  Moved moved(one.shape.ranks);
  REQUIRE(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
            if (isIn(one.gone, rank)) return sparsecollSuccess;
            const auto r = static_cast<size_t>(rank);
            const sparsecollResult_t result = moved.shrink(rank, comm, group.reducer(rank), one.gone);
            if (result != sparsecollSuccess) return result;
            return sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
          }) == all(one.shape.ranks, sparsecollSuccess));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kLength; ++i) wrong += group.outs[0][i] != expected[i] ? 1 : 0;
  CHECK(wrong == 0);
}

// Rank 3 goes after a step of its own, which the others may not have ended.
TEST_CASE("a transactional reducer over nodes goes back to what all that are left have completed") {
  const NodeShape shape{5, 3};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  Stepping over(shape, kLength, sparsecollFloat32, paramsOf("topka"), &config);
  Group& group = over.group;
  Moved moved(shape.ranks);
  Held entered, left;
  std::vector<int64_t> steps(5);
  const Results results = onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    Random random(static_cast<uint64_t>(rank));
    sparsecollResult_t result = sparsecollSuccess;
    while (true) {
      if (rank == 3 && steps[3] == 4) return sparsecollCommDestroy(group.ranks().release(3));
      for (uint64_t i = 0; i < kLength; ++i) group.gradients[r].set(i, static_cast<double>(random.below(9)) - 4);
      result = sparsecollReducerRun(group.reducer(rank), group.gradients[r].data(), group.outs[r].data(), nullptr);
      if (result != sparsecollSuccess) break;
      ++steps[r];
    }
    if (result != sparsecollPeerFailed) return result;
    result = moved.shrink(rank, comm, group.reducer(rank), {});
    if (result != sparsecollSuccess) return result;
    steps[r] -= moved.steppedBack[r];
    entered.add(moved.reducers[r]);
    entered.add(group.gradients[r]);
    result = sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
    left.add(moved.reducers[r]);
    if (rank == 0) left.add(group.outs[0]);
    return result;
  });
  CHECK(results == all(shape.ranks, sparsecollSuccess));
  for (const int rank : {1, 2, 4}) CHECK(steps[static_cast<size_t>(rank)] == steps[0]);
  CHECK(entered == left);
  CHECK(moved.lost() == 512);
}

TEST_CASE("a reducer over nodes moves to a part of the ranks, each of which is on its node") {
  const NodeShape shape{8, 4};
  Stepping over(shape, kLength, sparsecollFloat32, paramsOf("topka"));
  Group& group = over.group;
  group.fillIntegers(1);
  REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
  Held before[2], after[2];
  Moved moved(shape.ranks);
  REQUIRE(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
            const auto r = static_cast<size_t>(rank);
            before[r % 2].add(group.reducer(rank));
            sparsecollResult_t result = sparsecollCommSplit(comm, rank % 2, 0, &moved.comms[r], nullptr);
            if (result != sparsecollSuccess) return result;
            result = sparsecollReducerMove(group.reducer(rank), moved.comms[r], &moved.reducers[r], nullptr);
            if (result != sparsecollSuccess) return result;
            after[r % 2].add(moved.reducers[r]);
            return sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
          }) == all(shape.ranks, sparsecollSuccess));
  CHECK(before[0] == after[0]);
  CHECK(before[1] == after[1]);
  CHECK(infoOf(moved.reducers[7]).nodes == 2);
  CHECK(infoOf(moved.reducers[7]).shardLength == 488);
  CHECK(moved.lost() == 4 * kLength - 2 * kLength);
}

// Ranks without a shard follow no schedule.
TEST_CASE("a schedule over nodes begins anew if it has not ended, on all ranks") {
  const NodeShape shape{5, 3};
  const double density = 0.4;
  const sparsecollReducerConfig_t config = scheduled(density, 2);
  for (const int before : {1, 4}) {
    CAPTURE(before);
    Stepping over(shape, kLength, sparsecollFloat32, paramsOf("topka"), &config);
    Group& group = over.group;
    group.fillRandom(1);
    for (int step = 0; step < before; ++step) REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
    Moved moved(shape.ranks);
    REQUIRE(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
              if (rank == 1) return sparsecollSuccess;
              const auto r = static_cast<size_t>(rank);
              const sparsecollResult_t result = moved.shrink(rank, comm, group.reducer(rank), {1});
              if (result != sparsecollSuccess) return result;
              return sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
            }) == all(shape.ranks, sparsecollSuccess));
    CHECK(statsOf(moved.reducers[0]).lastSelected == (before == 1 ? 204 : 25));
  }
}

// Both owners of the only shard are gone, and with them whoever followed the schedule.
TEST_CASE("a schedule over nodes begins anew where only ranks without a shard are left") {
  const NodeShape shape{4, 3};
  const double density = 0.4;
  const sparsecollReducerConfig_t config = scheduled(density, 2);
  Stepping over(shape, kLength, sparsecollFloat32, paramsOf("topka"), &config);
  Group& group = over.group;
  group.fillRandom(1);
  REQUIRE(group.step() == all(shape.ranks, sparsecollSuccess));
  Moved moved(shape.ranks);
  REQUIRE(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
            if (rank == 0 || rank == 3) return sparsecollSuccess;
            const auto r = static_cast<size_t>(rank);
            const sparsecollResult_t result = moved.shrink(rank, comm, group.reducer(rank), {0, 3});
            if (result != sparsecollSuccess) return result;
            sparsecollStats_t ofAll = SPARSECOLL_INIT(sparsecollStats_t);
            if (sparsecollGetStats(moved.comms[r], &ofAll) != sparsecollSuccess ||
                ofAll.entriesLost != statsOf(moved.reducers[r]).entriesLost)
              return sparsecollInternalError;
            return sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
          }) == all(shape.ranks, sparsecollSuccess));
  CHECK(moved.lost() == 2 * kLength);
  CHECK(statsOf(moved.reducers[1]).lastSelected == 204);
}
