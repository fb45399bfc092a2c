// Steps over nodes that come to nothing: afterwards every rank of every node is where it was, bit by bit, as ranks are
// that never began the step.
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/moved.h"
#include "tests/support/node_groups.h"
#include "tests/support/stalled_memory.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;
constexpr NodeShape kShape{5, 3};  // rank 2 owns no shard

struct Kind {
  sparsecollDataType_t type;
  const char* name;
  double momentum;

  std::string text() const { return std::string(nameOf(type)) + " " + name + (momentum != 0 ? ", momentum" : ""); }
  sparsecollParams_t params() const {
    sparsecollParams_t params = overNodes(preset(name, 0.05));
    params.momentum = momentum;
    return params;
  }
};

constexpr Kind kKinds[] = {{sparsecollFloat32, "topka", 0},   {sparsecollFloat32, "topka", 0.5},
                           {sparsecollFloat16, "topka", 0},   {sparsecollFloat16, "topka", 0.5},
                           {sparsecollFloat32, "gtopk", 0.5}, {sparsecollFloat16, "spardl", 0.5}};

struct Undone {
  explicit Undone(const Kind& kind, sparsecollNonFinite_t nonFinite = sparsecollNonFinitePropagate)
      : config(nodesOf(kShape.perNode)), reducer(SPARSECOLL_INIT(sparsecollReducerConfig_t)) {
    config.nonFinite = nonFinite;
    reducer.transactional = 1;
    group = std::make_unique<Group>(kShape.ranks, kLength, kind.type, kind.params(), &reducer, &config);
  }
  Results step(uint64_t seed) {
    group->fillRandom(seed);
    return group->step();
  }
  std::vector<Elements> residuals() const {
    std::vector<Elements> all;
    for (int rank = 0; rank < kShape.ranks; ++rank) all.push_back(group->residual(rank));
    return all;
  }

  sparsecollConfig_t config;
  sparsecollReducerConfig_t reducer;
  std::unique_ptr<Group> group;
};

const Results kGood = all(kShape.ranks, sparsecollSuccess);

// A step of the ranks that have moved, with the gradients of the group.
sparsecollResult_t stepMoved(const Moved& moved, Group& group, int rank) {
  const auto r = static_cast<size_t>(rank);
  return sparsecollReducerRun(moved.reducers[r], group.gradients[r].data(), group.outs[r].data(), nullptr);
}

}  // namespace

TEST_CASE("NaN of one rank of one node leaves residual and velocity of all ranks of all nodes as they were") {
  for (const Kind& kind : kKinds)
    for (const int odd : {0, 2, 4}) {  // an owner, a rank without a shard, an owner in the other node
      CAPTURE(kind.text(), odd);
      Undone undone(kind, sparsecollNonFiniteError);
      Undone never(kind, sparsecollNonFiniteError);
      for (uint64_t seed = 1; seed < 3; ++seed) {
        REQUIRE(undone.step(seed) == kGood);
        REQUIRE(never.step(seed) == kGood);
      }
      const std::vector<Elements> before = undone.residuals();
      undone.group->fillRandom(3);
      undone.group->gradients[static_cast<size_t>(odd)].set(700, std::numeric_limits<double>::quiet_NaN());
      CHECK(undone.group->step() == all(kShape.ranks, sparsecollNonFinite));
      CHECK(undone.residuals() == before);
      CHECK(never.residuals() == before);
      // Velocity shows in what comes after.
      for (uint64_t seed = 4; seed < 6; ++seed) {
        REQUIRE(undone.step(seed) == kGood);
        REQUIRE(never.step(seed) == kGood);
        CHECK(undone.group->outs == never.group->outs);
        CHECK(undone.residuals() == never.residuals());
      }
    }
}

TEST_CASE("a step over nodes that ended with NonFinite is not gone back from when reducers move") {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.text());
    Undone undone(kind, sparsecollNonFiniteError);
    Undone never(kind, sparsecollNonFiniteError);
    REQUIRE(undone.step(1) == kGood);
    REQUIRE(never.step(1) == kGood);
    undone.group->fillRandom(2);
    undone.group->gradients[1].set(3, std::numeric_limits<double>::infinity());
    REQUIRE(undone.group->step() == all(kShape.ranks, sparsecollNonFinite));
    Moved of[2] = {Moved(kShape.ranks), Moved(kShape.ranks)};
    for (Undone* const one : {&undone, &never}) {
      Moved& moved = of[one == &undone ? 0 : 1];
      one->group->fillRandom(3);
      REQUIRE(onEach(one->group->ranks(), [&](int rank, sparsecollComm_t comm) {
                if (rank == 4) return sparsecollSuccess;
                const sparsecollResult_t result = moved.shrink(rank, comm, one->group->reducer(rank), {4});
                return result != sparsecollSuccess ? result : stepMoved(moved, *one->group, rank);
              }) == kGood);
    }
    for (int rank = 0; rank < 4; ++rank) {
      const auto r = static_cast<size_t>(rank);
      CAPTURE(rank);
      CHECK(of[0].steppedBack[r] == 0);
      CHECK(residualOf(of[0].reducers[r]) == residualOf(of[1].reducers[r]));
      CHECK(undone.group->outs[r] == never.group->outs[r]);
    }
  }
}

// The rank that goes has told the other node what that needs, and is held up where it writes its own sum. So its own
// node has no part of the step, and the other one all of it.
TEST_CASE("a node that is a step ahead of another one goes back to the bits of before") {
  struct Ahead {
    int goes;
    std::vector<int> ahead;  // ranks, rank 2 among them has no shard
  };
  for (const Kind& kind : kKinds)
    for (const Ahead& one : {Ahead{4, {0, 1, 2}}, Ahead{1, {3, 4}}}) {
      CAPTURE(kind.text(), one.goes);
      Undone undone(kind);
      Undone never(kind);
      for (uint64_t seed = 1; seed < 3; ++seed) {
        REQUIRE(undone.step(seed) == kGood);
        REQUIRE(never.step(seed) == kGood);
      }
      const auto isAhead = [&](int rank) { return std::ranges::find(one.ahead, rank) != one.ahead.end(); };
      Moved backed(kShape.ranks);
      Moved plain(kShape.ranks);

      Group& group = *undone.group;
      group.fillRandom(3);
      StalledMemory out(kLength * sizeof(float));
      std::atomic<size_t> done = 0;
      std::thread breaker([&] {
        out.awaitWriter();
        while (done < one.ahead.size()) std::this_thread::yield();
        (void)sparsecollCommAbort(group.ranks()[one.goes]);
        out.letGo();
      });
      const Results stepped = group.each([&](int rank, sparsecollReducer_t reducer) {
        const auto r = static_cast<size_t>(rank);
        void* const to = rank == one.goes ? out.data() : group.outs[r].data();
        const sparsecollResult_t result = sparsecollReducerRun(reducer, group.gradients[r].data(), to, nullptr);
        if (isAhead(rank)) ++done;  // whatever it got
        return result;
      });
      breaker.join();
      for (int rank = 0; rank < kShape.ranks; ++rank) {
        CAPTURE(rank);
        const sparsecollResult_t behind = rank == one.goes ? sparsecollAborted : sparsecollPeerFailed;
        REQUIRE(stepped[static_cast<size_t>(rank)] == (isAhead(rank) ? sparsecollSuccess : behind));
      }
      for (Undone* const each : {&undone, &never}) {
        Moved& moved = each == &undone ? backed : plain;
        REQUIRE(onEach(each->group->ranks(), [&](int rank, sparsecollComm_t comm) {
                  if (rank == one.goes) return sparsecollSuccess;
                  return moved.shrink(rank, comm, each->group->reducer(rank), {one.goes});
                }) == kGood);
      }
      const auto checkAlike = [&] {
        for (int rank = 0; rank < kShape.ranks; ++rank) {
          if (rank == one.goes) continue;
          const auto r = static_cast<size_t>(rank);
          CAPTURE(rank);
          CHECK(residualOf(backed.reducers[r]) == residualOf(plain.reducers[r]));
          CHECK(undone.group->outs[r] == never.group->outs[r]);
        }
      };
      for (int rank = 0; rank < kShape.ranks; ++rank) {
        CAPTURE(rank);
        if (rank == one.goes) continue;
        CHECK(backed.steppedBack[static_cast<size_t>(rank)] == (isAhead(rank) ? 1 : 0));
        CHECK(plain.steppedBack[static_cast<size_t>(rank)] == 0);
      }
      undone.group->outs = never.group->outs;
      checkAlike();
      for (uint64_t seed = 4; seed < 6; ++seed) {  // velocity shows in what comes after
        for (Undone* const each : {&undone, &never}) {
          const Moved& moved = each == &undone ? backed : plain;
          each->group->fillRandom(seed);
          REQUIRE(onEach(each->group->ranks(), [&](int rank, sparsecollComm_t) {
                    return rank == one.goes ? sparsecollSuccess : stepMoved(moved, *each->group, rank);
                  }) == kGood);
        }
        checkAlike();
      }
    }
}
