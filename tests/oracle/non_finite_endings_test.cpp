// A step with NaN and Inf that ends in an error leaves none in what the rank keeps: what Export writes Import takes,
// and neither the next step nor one after Shrink and Move shows any. Without transactional, which undoes the step
// anyway.
#include "tests/support/catch.h"

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRanks = 3;
constexpr int kOdd = 2;  // the rank that spoils the step
constexpr uint64_t kLength = 900;

// What the odd rank does instead of the step, and what the others get.
struct Ending {
  const char* name;
  sparsecollResult_t first, second;
  sparsecollResult_t (*instead)(const Ranks&);
  bool waits = false;  // so it is tried with fewer methods
};

sparsecollResult_t gather(const Ranks& ranks) {
  SparseVector in(sparsecollFloat32, kLength, 2);
  SparseVector out(sparsecollFloat32, kLength, 8);
  return sparsecollAllGatherVector(in.view(), out.view(), ranks[kOdd], nullptr) == sparsecollMismatch
             ? sparsecollSuccess
             : sparsecollInternalError;
}

const Ending kEndings[] = {
    {"Mismatch", sparsecollMismatch, sparsecollMismatch, gather},
    {"Timeout", sparsecollTimeout, sparsecollTimeout, [](const Ranks&) { return sparsecollSuccess; }, true},
    {"PeerFailed", sparsecollPeerFailed, sparsecollPeerFailed,
     [](const Ranks& ranks) { return sparsecollCommAbort(ranks[kOdd]); }},
    // Whoever has all it needs from an aborted rank waits on for the others: so the odd one goes, too.
    {"Aborted", sparsecollAborted, sparsecollPeerFailed,
     [](const Ranks& ranks) {
       const sparsecollResult_t aborted = sparsecollCommAbort(ranks[0]);
       return aborted == sparsecollSuccess ? sparsecollCommAbort(ranks[kOdd]) : aborted;
     }},
};

struct Shape {
  const char* name;
  void (*change)(sparsecollParams_t&);
};
const Shape kShapes[] = {
    {"plain", [](sparsecollParams_t&) {}},
    {"momentum", [](sparsecollParams_t& p) { p.momentum = 0.9; }},
    {"Nesterov, kept, fading",
     [](sparsecollParams_t& p) {
       p.momentum = 0.9;
       p.flags |= SPARSECOLL_NESTEROV | SPARSECOLL_MOMENTUM_KEPT;
       p.residualDecay = 0.5;
       p.clipNorm = 100;
     }},
};

bool allFinite(const Elements& vector) {
  for (size_t i = 0; i < vector.size(); ++i)
    if (!std::isfinite(vector[i])) return false;
  return true;
}

void poison(Elements& gradient) {
  gradient.set(17, std::numeric_limits<double>::quiet_NaN());
  gradient.set(300, HUGE_VAL);
  gradient.set(899, -HUGE_VAL);
}

// Velocity has no other way out than a blob, and Import looks at all of it.
sparsecollResult_t roundTrip(sparsecollReducer_t reducer) { return importInto(reducer, exported(reducer)); }

#ifndef SPARSECOLL_TEST_PAIRS
sparsecollResult_t goOn(const Group& group, int rank, Elements& out) {
  const int excluded[] = {kOdd};
  sparsecollComm_t fewer = nullptr;
  sparsecollReducer_t moved = nullptr;
  sparsecollResult_t result = sparsecollCommShrink(group.ranks()[rank], excluded, 1, &fewer, nullptr);
  if (result == sparsecollSuccess) result = sparsecollReducerMove(group.reducer(rank), fewer, &moved, nullptr);
  const Elements zeros(sparsecollFloat32, kLength);
  for (int step = 0; step < 2 && result == sparsecollSuccess; ++step)
    result = sparsecollReducerRun(moved, zeros.data(), out.data(), nullptr);
  if (result == sparsecollSuccess && !allFinite(residualOf(moved))) result = sparsecollCorrupted;
  (void)sparsecollReducerDestroy(moved);
  (void)sparsecollCommDestroy(fewer);
  return result;
}
#endif

void check(const Ending& ending, const char* name, const Shape& shape) {
  CAPTURE(ending.name, name, shape.name);
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = ending.waits ? 1500 : 20000;
  sparsecollParams_t params = preset(name, 0.02);
  shape.change(params);
  Group group(kRanks, kLength, sparsecollFloat32, params, nullptr, &config);
  REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
  group.fillRandom(1);
  REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
  poison(group.gradients[0]);
  poison(group.gradients[1]);
  const Results ended = group.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    if (rank == kOdd) return ending.instead(group.ranks());
    return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
  });
  // Of ranks that miss the same one the first to say so ends the others.
  const bool second = ended[1] == ending.second || (ended[0] == sparsecollTimeout && ended[1] == sparsecollPeerFailed);
  const bool first = ended[0] == ending.first || (ended[1] == sparsecollTimeout && ended[0] == sparsecollPeerFailed);
  CAPTURE(ended);
  CHECK((first && second && ended[kOdd] == sparsecollSuccess));
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(allFinite(group.residual(rank)));
    CHECK(roundTrip(group.reducer(rank)) == sparsecollSuccess);
  }
  if (ending.first == sparsecollMismatch) {  // all go on
    group.fillRandom(2);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    for (const Elements& out : group.outs) CHECK(allFinite(out));
    return;
  }
#ifndef SPARSECOLL_TEST_PAIRS
  CHECK(group.each([&](int rank, sparsecollReducer_t) {
    return rank == kOdd ? sparsecollSuccess : goOn(group, rank, group.outs[static_cast<size_t>(rank)]);
  }) == all(kRanks, sparsecollSuccess));
  for (int rank = 0; rank < kOdd; ++rank) CHECK(allFinite(group.outs[static_cast<size_t>(rank)]));
#endif
}

}  // namespace

TEST_CASE("a step that ends in an error leaves no NaN behind") {
  for (const Ending& ending : kEndings)
    for (const char* const name : {"topka", "spardl", "gtopk", "oktopk", "micro", "dgc"}) {
      if (ending.waits && std::string(name) == "gtopk") break;
      for (const Shape& shape : kShapes) check(ending, name, shape);
    }
}

// The failed step's gradient may stay, but not what of it was not finite: the entry is 0, and the others are sums.
TEST_CASE("what was finite in it stays") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 20000;
  Group group(kRanks, kLength, sparsecollFloat32, preset("topka", 0.02), nullptr, &config);
  group.fillRandom(1);
  poison(group.gradients[0]);
  CHECK(group.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    if (rank == kOdd) return gather(group.ranks());
    return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
  }) == Results{sparsecollMismatch, sparsecollMismatch, sparsecollSuccess});
  const Elements residual = group.residual(0);
  uint64_t wrong = 0;
  for (size_t i = 0; i < kLength; ++i) {
    const double given = group.gradients[0][i];
    wrong += residual[i] != (std::isfinite(given) ? given : 0) ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(group.residual(1) == group.gradients[1]);
}

// Methods that cut where they exchange have not met all NaN when ranks find out that they disagree.
TEST_CASE("no NaN stays wherever in the vector it stood") {
  constexpr int kFour = 4;
  constexpr uint64_t kLong = 1556;
  for (const char* const name : {"spardl", "micro", "exdyna", "topka"}) {
    CAPTURE(name);
    uint64_t left = 0;
    for (uint64_t at = 7; at < kLong; at += 97) {
      Group group(kFour, kLong, sparsecollFloat32, preset(name, 0.05));
      group.fillRandom(1);
      for (Elements& gradient : group.gradients) gradient.set(at, std::numeric_limits<double>::quiet_NaN());
      REQUIRE(sparsecollReducerSetScales(group.reducer(0), 2, 1) == sparsecollSuccess);
      REQUIRE(group.step() == all(kFour, sparsecollMismatch));
      for (int rank = 0; rank < kFour; ++rank) left += allFinite(group.residual(rank)) ? 0 : 1;
    }
    CHECK(left == 0);
  }
}

TEST_CASE("a step that failed counts neither what the one before has lost nor NaN that nobody had") {
  sparsecollParams_t params = preset("gtopk", 0.05);
  params.faithful = 1;
  Group group(4, 1000, sparsecollFloat32, params);
  group.fillRandom(1);
  REQUIRE(group.step() == all(4, sparsecollSuccess));
  const uint64_t lost = group.stats(0).entriesLost;
  REQUIRE(lost > 0);
  REQUIRE(sparsecollReducerSetScales(group.reducer(0), 2, 1) == sparsecollSuccess);
  for (int step = 0; step < 2; ++step) CHECK(group.step() == all(4, sparsecollMismatch));
  CHECK(group.stats(0).entriesLost == lost);
  CHECK(group.stats(0).opsNonFinite == 0);
}
