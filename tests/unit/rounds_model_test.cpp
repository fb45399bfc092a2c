// Every order in which three ranks can meet in an operation: each begins when it likes, messages between two ranks take
// any time, and meanwhile one means another operation, refuses, aborts, leaves, or dies. The ranks are the library's
// own Rounds. What a rank does depends on its own events alone, so orders with the same events for each rank are looked
// at once; each is played from the beginning, as rounds cannot be copied.
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/host_kernels.h"
#include "tests/support/catch.h"
#include "transports/common.h"
#include "transports/engine/rounds.h"

namespace sparsecoll::engine {
namespace {

constexpr int kRanks = 3;
constexpr int kTroubled = 2;  // whose trouble it is

// A rank that aborts or leaves says so by messages, and its connections tell of it; here one or the other, as together
// there are too many orders.
enum class Trouble { kNone, kOtherPlan, kRefuses, kSaysItAborts, kSaysItLeaves, kIsAborted, kDies };
using States = std::vector<PeerState>;  // of all ranks, as one of them knows

// What happens to a rank: it begins, goes as its trouble says or because it has failed, learns that a peer has gone, or
// gets the next message of a kind.
struct Event {
  enum class Kind { kBegins, kGoes, kLearns, kComes } kind;
  int rank;
  int peer = -1;
  int tag = -1;
  auto operator<=>(const Event&) const = default;
};

struct Request {
  bool sends;
  int peer, tag;
  std::byte* data;
  size_t bytes;
  bool done;
};

class World;

class Watch final : public PeerWatch {
 public:
  explicit Watch(const States& states) : states_(states) {}
  PeerState stateOf(int peer) const override { return states_[static_cast<size_t>(peer)]; }
  std::string reasonOf(int) const override { return "it has gone"; }
  void announce(bool) override {}

 private:
  const States& states_;
};

class Rank {
 public:
  Rank(World& world, int rank, Trouble trouble);
  ~Rank() {
    rounds_->close();
    state_->port.close(Deadline::in(60000));
  }

  void happens(const Event& event);
  bool hasBegun() const { return begun_; }
  bool isHere() const { return state() == PeerState::kHere; }
  PeerState state() const { return states_[static_cast<size_t>(rank_)]; }
  bool knows(int peer) const { return states_[static_cast<size_t>(peer)] != PeerState::kHere; }
  // It goes, or fails and then goes, some time.
  bool mayGo() const { return strikes() || (ending_ && *ending_ == sparsecollPeerFailed); }
  // Success, an error, or nothing as long as it waits.
  std::optional<sparsecollResult_t> ending() const { return ending_; }
  int blamed() const { return blamed_; }

 private:
  friend class World;
  bool strikes() const { return trouble_ >= Trouble::kSaysItAborts; }
  bool says() const { return trouble_ == Trouble::kSaysItAborts || trouble_ == Trouble::kSaysItLeaves; }
  PeerState gone() const { return trouble_ == Trouble::kDies ? PeerState::kLost : PeerState::kAborted; }
  sparsecollEngine_t table();
  void begin();
  void goOn();
  void end(const Status& how);

  World& world_;
  const int rank_;
  const Trouble trouble_;  // of this rank
  std::deque<Request> requests_;
  States states_ = States(kRanks, PeerState::kHere);
  bool begun_ = false;
  std::optional<sparsecollResult_t> ending_;
  int blamed_ = -1;
  std::unique_ptr<State> state_;
  std::unique_ptr<Rounds> rounds_;
  Operation operation_;
  std::vector<std::byte> header_, landings_;
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
};

class World {
 public:
  explicit World(Trouble trouble) : trouble_(trouble) {
    for (int rank = 0; rank < kRanks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(*this, rank, rank == kTroubled ? trouble : Trouble::kNone));
  }

  void happens(const Event& event) {
    Rank& rank = *ranks_[static_cast<size_t>(event.rank)];
    if (event.kind == Event::Kind::kComes) take(event);
    if (event.kind == Event::Kind::kLearns)
      rank.states_[static_cast<size_t>(event.peer)] = ranks_[static_cast<size_t>(event.peer)]->state();
    rank.happens(event);
  }

  // All that can happen next.
  std::vector<Event> next() const {
    std::vector<Event> events;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Rank& one = *ranks_[static_cast<size_t>(rank)];
      if (!one.isHere()) continue;
      if (!one.hasBegun()) events.push_back({Event::Kind::kBegins, rank});
      if (one.mayGo()) events.push_back({Event::Kind::kGoes, rank});
      for (int peer = 0; peer < kRanks; ++peer)
        if (const Rank& other = *ranks_[static_cast<size_t>(peer)];
            !other.isHere() && !other.says() && !one.knows(peer))
          events.push_back({Event::Kind::kLearns, rank, peer});
      for (int peer = 0; peer < kRanks; ++peer)
        for (int tag = 0; tag < SPARSECOLL_ENGINE_TAGS; ++tag)
          if (const auto way = under_.find({peer, rank, tag}); way != under_.end() && !way->second.empty())
            events.push_back({Event::Kind::kComes, rank, peer, tag});
    }
    return events;
  }
  const Rank& rank(int which) const { return *ranks_[static_cast<size_t>(which)]; }

  void send(int from, int to, int tag, const std::byte* data, size_t bytes) {
    under_[{from, to, tag}].emplace_back(data, data + bytes);
  }

 private:
  void take(const Event& event) {
    auto& way = under_.at({event.peer, event.rank, event.tag});
    const std::vector<std::byte> message = std::move(way.front());
    way.pop_front();
    for (Request& one : ranks_[static_cast<size_t>(event.rank)]->requests_) {
      if (one.sends || one.done || one.peer != event.peer || one.tag != event.tag) continue;
      if (message.size() > one.bytes) FAIL("a message longer than its place");
      std::memcpy(one.data, message.data(), message.size());
      one.bytes = message.size();
      one.done = true;
      return;
    }
    FAIL("no place for a message");
  }

  const Trouble trouble_;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> under_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

Rank::Rank(World& world, int rank, Trouble trouble) : world_(world), rank_(rank), trouble_(trouble) {
  EngineSetup setup;
  setup.rank = rank;
  setup.ranks = kRanks;
  setup.kernels = host::makeHostKernels();
  setup.budget = std::make_shared<MemoryBudget>(0);
  state_ = std::make_unique<State>(setup, table());
  rounds_ = std::make_unique<Rounds>(*state_, std::make_unique<Watch>(states_));
  if (!rounds_->open().ok()) FAIL("rounds do not open");
}

sparsecollEngine_t Rank::table() {
  auto table = SPARSECOLL_INIT(sparsecollEngine_t);
  table.user = this;
  table.isend = [](void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
    Rank& rank = *static_cast<Rank*>(user);
    rank.world_.send(rank.rank_, peer, tag, static_cast<const std::byte*>(data), bytes);
    rank.requests_.push_back({true, peer, tag, nullptr, bytes, true});
    *request = &rank.requests_.back();
    return 0;
  };
  table.irecv = [](void* user, int peer, int tag, void* data, size_t capacity, void** request) {
    Rank& rank = *static_cast<Rank*>(user);
    rank.requests_.push_back({false, peer, tag, static_cast<std::byte*>(data), capacity, false});
    *request = &rank.requests_.back();
    return 0;
  };
  table.test = [](void*, void** request, int* done, size_t* bytes) {
    const auto& one = *static_cast<const Request*>(*request);
    *done = one.done ? 1 : 0;
    *bytes = one.done && !one.sends ? one.bytes : 0;
    return 0;
  };
  table.cancel = [](void*, void** request) {
    static_cast<Request*>(*request)->done = true;
    return 0;
  };
  return table;
}

void Rank::begin() {
  begun_ = true;
  operation_.sequence = 1;
  operation_.plan = trouble_ == Trouble::kOtherPlan ? 8 : 7;
  rounds_->begin(operation_);
  if (trouble_ == Trouble::kRefuses) {
    const Status why = disagree(rank_, "n", "the test's");
    rounds_->refuse(operation_, why.failure());
    return end(why);
  }
  if (const Status greeted = rounds_->greet(); !greeted.ok()) return end(greeted);
  const FrameLayout layout;
  FrameHeader header{operation_.sequence, operation_.plan, 0, 0, 0, 0, 0};
  header.checksum = frameChecksum(reinterpret_cast<const std::byte*>(&header), kFrameHeaderBytes, true);
  header_.resize(layout.capacityBytes());
  std::memcpy(header_.data(), &header, sizeof header);
  landings_.resize(kRanks * layout.capacityBytes());
  for (int peer = 0; peer < kRanks; ++peer) {
    if (peer == rank_) continue;
    out_.push_back({peer, header_.data(), layout});
    in_.push_back({peer, landings_.data() + static_cast<uint64_t>(peer) * layout.capacityBytes(),
                   layout.capacityBytes(), nullptr, 0});
  }
  rounds_->startMeeting(operation_, out_, in_);
}

// As the transport does, which tells the others why it gives an operation up that they may still be in.
void Rank::end(const Status& how) {
  ending_ = how.result();
  blamed_ = how.failure().peer;
  if (how.ok()) return;
  rounds_->giveUp();
  if (how.result() == sparsecollMismatch) rounds_->refuse(operation_, how.failure());
}

void Rank::happens(const Event& event) {
  if (event.kind == Event::Kind::kBegins) begin();
  if (event.kind == Event::Kind::kGoes) {
    states_[static_cast<size_t>(rank_)] = gone();
    if (says()) rounds_->farewell(trouble_ == Trouble::kSaysItAborts);
    return;
  }
  goOn();
}

// Until nothing moves, with a look at each peer's lane after that.
void Rank::goOn() {
  for (int still = 0; begun_ && !ending_ && still < 2 * kRanks; ++still) {
    bool moved = false;
    auto over = rounds_->proceed(moved);
    if (!over.ok()) return end(over.takeStatus());
    if (*over) return end(Status());
    if (moved) still = -1;
  }
}

// All orders: what may come of them is asked at each end, where nothing can happen any more.
class Explorer {
 public:
  explicit Explorer(Trouble trouble, std::function<void(const World&, const std::string&)> judge)
      : trouble_(trouble), judge_(std::move(judge)) {}

  void run() {
    visit({});
    while (!fresh_.empty()) {
      const std::vector<Event> order = std::move(fresh_.front());
      fresh_.pop_front();
      World world(trouble_);
      for (const Event& event : order) world.happens(event);
      const std::vector<Event> next = world.next();
      if (next.empty()) {
        ++ends_;
        judge_(world, told(order));
      }
      for (const Event& event : next) {
        std::vector<Event> longer = order;
        longer.push_back(event);
        visit(std::move(longer));
      }
    }
  }
  size_t states() const { return seen_.size(); }
  size_t ends() const { return ends_; }

 private:
  void visit(std::vector<Event> order) {
    std::vector<std::vector<Event>> ofRanks(kRanks);
    for (const Event& event : order) ofRanks[static_cast<size_t>(event.rank)].push_back(event);
    if (seen_.insert(std::move(ofRanks)).second) fresh_.push_back(std::move(order));
  }
  static std::string told(const std::vector<Event>& order) {
    std::string all;
    for (const Event& event : order) {
      const auto name = [](int rank) { return std::string(1, static_cast<char>('A' + rank)); };
      const char* const words[] = {" begins", " goes", " learns of ", " hears "};
      all += name(event.rank) + words[static_cast<size_t>(event.kind)] + (event.peer >= 0 ? name(event.peer) : "") +
             (event.tag >= 0 ? " by " + std::to_string(event.tag) : "") + "; ";
    }
    return all;
  }

  const Trouble trouble_;
  const std::function<void(const World&, const std::string&)> judge_;
  std::set<std::vector<std::vector<Event>>> seen_;
  std::deque<std::vector<Event>> fresh_;
  size_t ends_ = 0;
};

// What the ranks without trouble may end with, one by one, in every order.
void explore(Trouble trouble, const std::set<sparsecollResult_t>& allowed) {
  std::set<std::string> faults;
  std::set<sparsecollResult_t> seen;
  Explorer explorer(trouble, [&](const World& world, const std::string& order) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool counts = rank != kTroubled || trouble == Trouble::kNone || trouble == Trouble::kOtherPlan;
      if (!counts) continue;
      const auto ending = world.rank(rank).ending();
      if (ending) seen.insert(*ending);
      const int blamed = world.rank(rank).blamed();
      const bool blames = blamed >= 0 && blamed != rank && !world.rank(blamed).isHere();
      const bool good = ending && allowed.contains(*ending) && (*ending != sparsecollPeerFailed || blames);
      if (!good && faults.size() < 3)
        faults.insert("rank " + std::to_string(rank) +
                      (ending ? " ends with " + std::to_string(*ending) + " by " + std::to_string(blamed) : " waits") +
                      " after " + order);
    }
  });
  explorer.run();
  std::printf("a meeting, trouble %d: %zu states, %zu ends\n", static_cast<int>(trouble), explorer.states(),
              explorer.ends());
  CHECK(faults == std::set<std::string>());
  CHECK(seen == allowed);
  CHECK(explorer.ends() > 0);
}

}  // namespace

TEST_CASE("three ranks meet, in whichever order they begin and hear each other") {
  explore(Trouble::kNone, {sparsecollSuccess});
}

TEST_CASE("all learn that one of them means another operation") { explore(Trouble::kOtherPlan, {sparsecollMismatch}); }

TEST_CASE("all learn that one of them refuses the operation") { explore(Trouble::kRefuses, {sparsecollMismatch}); }

TEST_CASE("whoever needs a rank that aborts or leaves is told so, and nobody waits") {
  explore(Trouble::kSaysItAborts, {sparsecollSuccess, sparsecollPeerFailed});
  explore(Trouble::kSaysItLeaves, {sparsecollSuccess, sparsecollPeerFailed});
  explore(Trouble::kIsAborted, {sparsecollSuccess, sparsecollPeerFailed});
}

TEST_CASE("whoever needs a rank that dies is told so, and nobody waits") {
  explore(Trouble::kDies, {sparsecollSuccess, sparsecollPeerFailed});
}

}  // namespace sparsecoll::engine
