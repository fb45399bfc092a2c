// What a rank hears of peers that nothing can be sent to any more: why they went, if they or others have said so.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/opened_rounds.h"
#include "transports/common.h"
#include "transports/engine/rounds.h"

namespace sparsecoll::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kWhy = "not the same";
constexpr auto kFrame = EnvelopeKind::kFrame, kRefuse = EnvelopeKind::kRefuse, kLeave = EnvelopeKind::kLeave;

// Two peers that send this rank what the test says, after so many looks, each in the order of the list. What is sent to
// the second fails in the call, later, later with all that is received from it then, as over sockets, or not at all.
class Peers {
 public:
  enum class Fails { kAtOnce, kLater, kWithReceives, kNever };
  struct Said {
    int peer;
    size_t looks;
    EnvelopeKind kind;
  };
  Peers(Fails fails, std::vector<Said> said) : fails_(fails), said_(std::move(said)) {}

  sparsecollEngine_t table() {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int, const void*, size_t, void** request) {
      Peers& peers = self(user);
      const bool fails = peer == 2 && peers.fails_ != Fails::kNever;
      if (fails && peers.fails_ == Fails::kAtOnce) return 1;
      return peers.post({.done = true, .fails = fails}, request);
    };
    table.irecv = [](void* user, int peer, int tag, void* data, size_t, void** request) {
      if (self(user).closed_ && peer == 2) return 1;
      return self(user).post({.peer = peer, .tag = tag, .data = static_cast<std::byte*>(data)}, request);
    };
    table.test = [](void* user, void** request, int* done, size_t* bytes) {
      return self(user).test(*static_cast<Request*>(*request), done, bytes);
    };
    table.cancel = [](void*, void** request) {
      static_cast<Request*>(*request)->done = true;
      return 0;
    };
    table.progress = [](void* user) {
      ++self(user).looks_;
      return 0;
    };
    return table;
  }
  size_t looks() const { return looks_; }

 private:
  struct Request {
    int peer = 0;  // that it is received from
    int tag = 0;
    bool done = false, fails = false;
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  static Peers& self(void* user) { return *static_cast<Peers*>(user); }
  static int tagOf(EnvelopeKind kind) { return kind == kLeave ? kNotices : kEnvelopes; }

  int post(const Request& request, void** made) {
    requests_.push_back(request);
    *made = &requests_.back();
    return 0;
  }
  int test(Request& request, int* done, size_t* bytes) {
    const auto next = std::ranges::find_if(
        said_, [&](const Said& one) { return one.peer == request.peer && tagOf(one.kind) == request.tag; });
    if (!request.done && next != said_.end() && looks_ >= next->looks) {
      request.bytes = write(next->kind, request.data);
      request.done = true;
      said_.erase(next);
    }
    closed_ = closed_ || (request.fails && fails_ == Fails::kWithReceives);
    *done = request.done ? 1 : 0;
    *bytes = request.bytes;
    return request.fails ? 1 : 0;
  }
  static size_t write(EnvelopeKind kind, std::byte* to) {
    const FrameHeader header{1, 0, 0, 0, 0, 0, 0};
    const Refusal why = refusalOf(disagree(1, "density", kWhy).failure());
    const std::byte* const inside = reinterpret_cast<const std::byte*>(&header);
    std::vector<std::byte> body;
    if (kind == kFrame) body.assign(inside, inside + kFrameHeaderBytes);
    if (kind == kRefuse)
      body.assign(reinterpret_cast<const std::byte*>(&why), reinterpret_cast<const std::byte*>(&why + 1));
    std::ranges::copy(body, to + sizeof(Envelope));
    seal({kind, 0, kind == kLeave ? UINT64_MAX : 1, 0, body.size(), static_cast<uint32_t>(body.size()), 0}, to);
    return sizeof(Envelope) + body.size();
  }

  const Fails fails_;
  std::vector<Said> said_;
  size_t looks_ = 0;
  bool closed_ = false;
  std::deque<Request> requests_;
};

using Fails = Peers::Fails;
using Said = Peers::Said;

// Says this of the second peer, and of the first that it is here.
class SecondIs final : public PeerWatch {
 public:
  explicit SecondIs(PeerState state) : state_(state) {}
  PeerState stateOf(int peer) const override { return peer == 2 ? state_ : PeerState::kHere; }
  std::string reasonOf(int) const override { return "it has gone"; }
  void announce(bool) override {}

 private:
  const PeerState state_;
};

struct Ended {
  Status status, late;  // late: what a deadline that passes in the last look would make of it
  size_t looks = 0;
};

// A round with both.
Ended roundWith(Peers& peers, std::unique_ptr<PeerWatch> watch) {
  Opened opened(3, peers.table(), std::move(watch), {}, 60000);
  const FrameLayout layout{4, 4, 4};
  std::vector<std::byte> frame(layout.capacityBytes()), landing[2];
  const FrameHeader header{1, 0, 0, 0, 0, 0, 0};
  std::memcpy(frame.data(), &header, sizeof header);
  for (std::vector<std::byte>& place : landing) place.resize(layout.capacityBytes());
  const std::array<Outgoing, 2> out = {{{1, frame.data(), layout}, {2, frame.data(), layout}}};
  std::array<Incoming, 2> in = {
      {{1, landing[0].data(), landing[0].size(), nullptr, 0}, {2, landing[1].data(), landing[1].size(), nullptr, 0}}};
  opened.begin();
  opened.rounds.start(opened.operation, out, in);
  Ended ended;
  for (bool over = false, moved = false; ended.status.ok() && !over;) {
    auto looked = opened.rounds.proceed(moved);
    over = looked.ok() && *looked;
    if (!looked.ok()) ended.status = looked.takeStatus();
  }
  ended.late = opened.rounds.timeout();
  ended.looks = peers.looks();
  opened.rounds.giveUp();
  return ended;
}

void checkRefused(const Status& status) {
  CHECK(status.result() == sparsecollMismatch);
  CHECK(status.failure().peer == 1);
  CHECK(status.failure().text.view() == kWhy);
}

}  // namespace

TEST_CASE("why a peer has gone is heard though nothing can be sent to it any more") {
  const Fails fails = GENERATE(Fails::kAtOnce, Fails::kLater, Fails::kWithReceives);
  // Over sockets all of it has come when a send fails.
  const size_t first = fails == Fails::kWithReceives ? 1 : 0;
  const size_t looks = fails == Fails::kWithReceives ? 1 : GENERATE(0, 50);
  const bool watched = GENERATE(true, false);
  CAPTURE(fails, looks, watched);
  for (const std::vector<Said>& said : {std::vector<Said>{{1, looks, kRefuse}},
                                        {{1, first, kFrame}, {2, looks, kRefuse}},
                                        {{2, first, kFrame}, {2, looks, kRefuse}},
                                        {{2, first, kFrame}, {1, looks, kRefuse}}}) {
    Peers peers(fails, said);
    checkRefused(roundWith(peers, watched ? std::make_unique<SecondIs>(PeerState::kLeft) : nullptr).status);
  }
}

TEST_CASE("a peer that nothing can be sent to is given up, after a moment if it may have said why") {
  const Fails fails = GENERATE(Fails::kAtOnce, Fails::kLater);
  const auto checkGivenUp = [&](const Status& status) {
    CHECK(status.result() == sparsecollPeerFailed);
    CHECK(status.failure().peer == 2);
    const std::string call = fails == Fails::kAtOnce ? "isend" : "test";
    CHECK(std::string(status.failure().text.view()) ==
          "rank 2 cannot be reached: the engine's " + call + " returned 1");
  };
  for (const PeerState state : {PeerState::kHere, PeerState::kLeft, PeerState::kAborted}) {
    Peers peers(fails, {{2, 0, kFrame}});
    const Clock::time_point start = Clock::now();
    const Ended ended = roundWith(peers, std::make_unique<SecondIs>(state));
    checkGivenUp(ended.status);
    checkGivenUp(ended.late);
    if (state == PeerState::kAborted)
      CHECK(ended.looks == 1);
    else
      CHECK(Clock::now() - start >= std::chrono::milliseconds(kLossGraceMs));
  }
}

TEST_CASE("a round whose messages have all come is over, though a peer that sent one has gone") {
  Peers peers(Fails::kLater, {{1, 0, kFrame}, {2, 0, kFrame}});
  CHECK(roundWith(peers, nullptr).status.ok());
}

TEST_CASE("an operation that a peer refused before it left begins, so that its round says why") {
  for (const bool refused : {true, false}) {
    Peers peers(Fails::kNever, {{2, 0, refused ? kRefuse : kFrame}, {2, 0, kLeave}});
    Opened opened(3, peers.table());
    opened.begin();
    const Status greeted = opened.rounds.greet();
    CHECK(greeted.ok() == refused);
    if (!refused) CHECK(greeted.failure().text.view() == "rank 2 destroyed its communicator");
  }
  Peers peers(Fails::kNever, {{2, 0, kRefuse}, {2, 0, kLeave}});
  checkRefused(roundWith(peers, nullptr).status);
}

}  // namespace sparsecoll::engine
