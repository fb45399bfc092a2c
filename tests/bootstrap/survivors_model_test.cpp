// Every order in which three ranks can agree on who is left: words between them take any time, one rank dies or is
// taken for dead at any moment, and who has agreed meets the others, or begins again. Each rank is the library's own
// RollCall; all states that can be reached are looked at once.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "transports/bootstrap/survivors.h"

namespace sparsecoll::bootstrap {
namespace {

constexpr int kRanks = 3;
constexpr int kNobody = -1;

using Set = std::vector<bool>;

enum class Stage { kElsewhere, kAgrees, kMeets, kDone, kLeftOut };

struct Member {
  Stage stage = Stage::kElsewhere;
  std::optional<RollCall> roll;
  std::deque<View> mail[kRanks];  // that has come from each
  Set knows = Set(kRanks);        // whom its connections have told to be gone
  Set with = Set(kRanks);         // whom it has agreed to go on with
  uint64_t lowest = 0;            // of what these have completed
  std::set<Set> met;              // with whom it has been ready to meet
  auto operator<=>(const Member&) const = default;
};

struct World {
  Member members[kRanks];
  std::deque<View> under[kRanks][kRanks];  // words under way from one to another
  int dead = kNobody;
  int suspect = kNobody;  // alive, but others take it for dead
  auto operator<=>(const World&) const = default;

  bool lives(int rank) const { return rank != dead; }
  // One of them has taken the other one for gone, and closed their connection.
  bool areApart(int a, int b) const { return takesForGone(a, b) || takesForGone(b, a); }
  bool takesForGone(int rank, int peer) const { return members[rank].knows[static_cast<size_t>(peer)]; }
  // It is not dead, or else everybody is right.
  bool isWell(int rank) const {
    for (int peer = 0; peer < kRanks; ++peer)
      if (lives(peer) && takesForGone(peer, rank)) return false;
    return lives(rank);
  }
};

// What may go wrong, once each.
struct Troubles {
  bool death = false, suspicion = false;
};

class Explorer {
 public:
  explicit Explorer(Troubles troubles) : troubles_(troubles) {}

  void run() {
    add(World(), nullptr, "");
    while (!fresh_.empty()) {
      const World& world = *fresh_.front();
      fresh_.pop_front();
      const size_t before = steps_;
      for (int rank = 0; rank < kRanks; ++rank) step(world, rank);
      if (steps_ == before) judgeEnd(world);
      judge(world);
    }
  }
  size_t states() const { return seen_.size(); }
  size_t steps() const { return steps_; }
  size_t ends() const { return ends_; }
  // What is wrong, and the shortest way there.
  std::string faults() const {
    std::string all;
    for (const auto& [what, way] : faults_) all += what + way + "\n";
    return all;
  }

 private:
  struct Origin {
    const World* from;
    std::string what;
  };

  template <class Change>
  void next(const World& world, const std::string& what, Change change) {
    ++steps_;
    World after = world;
    change(after);
    add(std::move(after), &world, what);
  }
  void add(World world, const World* from, const std::string& what) {
    const auto [at, isNew] = seen_.emplace(std::move(world), Origin{from, what});
    if (isNew) fresh_.push_back(&at->first);
  }
  std::string history(const World& world) const {
    const Origin& origin = seen_.at(world);
    return origin.from == nullptr ? "" : history(*origin.from) + "; " + origin.what;
  }

  // All that can happen next to a rank, or by it.
  void step(const World& world, int rank) {
    const Member& member = world.members[rank];
    if (!world.lives(rank)) return;
    if (member.stage == Stage::kElsewhere)
      next(world, name(rank) + " calls", [&](World& after) { begin(after, rank); });
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      if (!world.under[peer][rank].empty()) {
        next(world, name(rank) + " hears " + name(peer), [&](World& after) {
          after.members[rank].mail[peer].push_back(std::move(after.under[peer][rank].front()));
          after.under[peer][rank].pop_front();
          think(after, rank);
        });
        // What a dead rank had sent last may be lost with it.
        if (!world.lives(peer)) next(world, "words are lost", [&](World& after) { after.under[peer][rank].clear(); });
      }
      const bool seemsGone = !world.lives(peer) || peer == world.suspect || world.takesForGone(peer, rank);
      if (seemsGone && !member.knows[static_cast<size_t>(peer)])
        next(world, name(rank) + " loses " + name(peer), [&](World& after) {
          after.members[rank].knows[static_cast<size_t>(peer)] = true;
          if (after.lives(peer)) after.under[peer][rank].clear();
          think(after, rank);
        });
    }
    if (troubles_.death && world.dead == kNobody)
      next(world, name(rank) + " dies", [&](World& after) { after.dead = rank; });
    if (troubles_.suspicion && world.suspect == kNobody)
      next(world, name(rank) + " is silent", [&](World& after) { after.suspect = rank; });
    if (member.stage != Stage::kMeets) return;
    bool allCame = true, oneGone = false;
    for (size_t peer = 0; peer < kRanks; ++peer) {
      if (!member.with[peer]) continue;
      allCame = allCame && world.members[peer].met.contains(member.with);
      oneGone = oneGone || member.knows[peer];
    }
    if (allCame) next(world, name(rank) + " goes on", [&](World& after) { after.members[rank].stage = Stage::kDone; });
    if (oneGone)
      next(world, name(rank) + " begins again", [&](World& after) {
        after.members[rank].stage = Stage::kAgrees;
        think(after, rank);
      });
  }

  static uint64_t completed(int rank) { return rank == 1 ? 4 : 5; }

  static void begin(World& world, int rank) {
    world.members[rank].stage = Stage::kAgrees;
    world.members[rank].roll.emplace(rank, Set(kRanks), 1, completed(rank));
    think(world, rank);
  }

  // As agreeOnSurvivors does with what has come.
  static void think(World& world, int rank) {
    Member& member = world.members[rank];
    if (member.stage != Stage::kAgrees) return;
    RollCall& roll = *member.roll;
    for (bool goesOn = true; goesOn;) {
      if (const View* const view = roll.news())
        for (int peer = 0; peer < kRanks; ++peer)
          if (peer != rank && !world.areApart(rank, peer)) world.under[rank][peer].push_back(*view);
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        for (View& view : member.mail[peer]) roll.hear(peer, std::move(view));
        member.mail[peer].clear();
        if (member.knows[static_cast<size_t>(peer)] && !roll.isGone(peer)) roll.lose(peer);
      }
      goesOn = roll.conclude();
      if (roll.isLeftOut()) {
        member.stage = Stage::kLeftOut;
        return;
      }
      if (!roll.isAgreed()) continue;
      member.with = Set(kRanks);
      const Survivors left = roll.survivors();
      for (const int other : left.members) member.with[static_cast<size_t>(other)] = true;
      member.lowest = left.lowest;
      member.met.insert(member.with);
      member.stage = Stage::kMeets;
      return;
    }
  }

  static std::string name(int rank) { return std::string(1, static_cast<char>('A' + rank)); }
  void require(const World& world, bool holds, const char* what) {
    if (!holds && !faults_.contains(what)) faults_[what] = history(world);
  }

  void judge(const World& world) {
    for (int a = 0; a < kRanks; ++a) {
      const Member& one = world.members[a];
      if (!world.lives(a)) continue;
      if (one.stage == Stage::kLeftOut) require(world, !world.isWell(a), "a rank is left out that all take for well");
      if (one.stage != Stage::kDone) continue;
      require(world, one.with[static_cast<size_t>(a)], "a rank goes on without itself");
      uint64_t lowest = UINT64_MAX;
      for (int b = 0; b < kRanks; ++b)
        if (one.with[static_cast<size_t>(b)]) lowest = std::min(lowest, completed(b));
      require(world, one.lowest == lowest, "steps are undone to another one than the last that all have completed");
      for (int b = 0; b < kRanks; ++b) {
        const Member& other = world.members[b];
        const bool along = one.with[static_cast<size_t>(b)];
        if (!along) require(world, !world.isWell(b), "a rank is not taken along that all take for well");
        if (!along || !world.lives(b) || world.areApart(a, b)) continue;
        require(world, other.stage != Stage::kDone || one.with == other.with, "two go on with others");
        require(world, other.stage != Stage::kLeftOut, "one goes on with one that is left out");
      }
    }
  }

  // Nothing can happen any more: nobody waits, unless for one that has gone on with a rank that was lost then.
  void judgeEnd(const World& world) {
    ++ends_;
    for (int a = 0; a < kRanks; ++a) {
      const Stage stage = world.members[a].stage;
      if (!world.lives(a) || stage == Stage::kDone || stage == Stage::kLeftOut) continue;
      bool excused = false;
      for (int b = 0; b < kRanks; ++b) {
        const Member& other = world.members[b];
        if (!world.lives(b) || other.stage != Stage::kDone || !other.with[static_cast<size_t>(a)]) continue;
        for (int c = 0; c < kRanks; ++c) excused = excused || (other.with[static_cast<size_t>(c)] && !world.isWell(c));
      }
      require(world, excused, "a rank waits for ever");
    }
  }

  const Troubles troubles_;
  std::map<World, Origin> seen_;
  std::deque<const World*> fresh_;
  size_t steps_ = 0, ends_ = 0;
  std::map<std::string, std::string> faults_;
};

}  // namespace

TEST_CASE("in every order of words, deaths and suspicions survivors agree, and nobody waits for ever") {
  const Troubles troubles = GENERATE(Troubles{}, Troubles{true, false}, Troubles{false, true});
  CAPTURE(troubles.death, troubles.suspicion);
  Explorer explorer(troubles);
  explorer.run();
  std::printf("survivors, death %d, suspicion %d: %zu states, %zu steps, %zu ends\n", troubles.death,
              troubles.suspicion, explorer.states(), explorer.steps(), explorer.ends());
  CHECK(explorer.states() > 100);
  CHECK(explorer.ends() > 0);
  CHECK(explorer.faults() == "");
}

}  // namespace sparsecoll::bootstrap
