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

// Two peers that send this rank what the test says, after so many looks, each in the order of the list. One of them has
// gone. What is sent to it fails in the call, later, later with all that has not come from it, or not at all.
class Peers {
 public:
  enum class Fails { kAtOnce, kLater, kWithReceives, kNever };
  struct Said {
    int peer;
    size_t looks;
    EnvelopeKind kind;
  };
  // older: so many of the first refusals are of the operation before.
  Peers(int gone, Fails fails, std::vector<Said> said, int older = 0)
      : gone_(gone), fails_(fails), said_(std::move(said)), older_(older) {}

  sparsecollEngine_t table() {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int, const void*, size_t, void** request) {
      Peers& peers = self(user);
      const bool fails = peer == peers.gone_ && peers.fails_ != Fails::kNever;
      if (fails && peers.fails_ == Fails::kAtOnce) return 1;
      return peers.post({.done = true, .fails = fails}, request);
    };
    table.irecv = [](void* user, int peer, int tag, void* data, size_t, void** request) {
      if (self(user).closed_ && peer == self(user).gone_) return 1;
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
    if (!request.done && closed_ && request.peer == gone_) request.done = request.fails = true;
    closed_ = closed_ || (request.fails && fails_ == Fails::kWithReceives);
    *done = request.done ? 1 : 0;
    *bytes = request.bytes;
    return request.fails ? 1 : 0;
  }
  size_t write(EnvelopeKind kind, std::byte* to) {
    const FrameHeader header{1, 0, 0, 0, 0, 0, 0};
    const Refusal why = refusalOf(disagree(1, "density", kWhy).failure());
    const std::byte* const inside = reinterpret_cast<const std::byte*>(&header);
    std::vector<std::byte> body;
    if (kind == kFrame) body.assign(inside, inside + kFrameHeaderBytes);
    if (kind == kRefuse)
      body.assign(reinterpret_cast<const std::byte*>(&why), reinterpret_cast<const std::byte*>(&why + 1));
    std::ranges::copy(body, to + sizeof(Envelope));
    const bool isOlder = kind == kRefuse && older_-- > 0;
    const uint64_t sequence = kind == kLeave ? UINT64_MAX : isOlder ? 0 : 1;
    seal({kind, 0, sequence, 0, body.size(), static_cast<uint32_t>(body.size()), 0}, to);
    return sizeof(Envelope) + body.size();
  }

  const int gone_;
  const Fails fails_;
  std::vector<Said> said_;
  int older_;
  size_t looks_ = 0;
  bool closed_ = false;
  std::deque<Request> requests_;
};

using Fails = Peers::Fails;
using Said = Peers::Said;

// Says this of one peer, and of the other that it is here.
class OneIs final : public PeerWatch {
 public:
  OneIs(int peer, PeerState state) : peer_(peer), state_(state) {}
  PeerState stateOf(int peer) const override { return peer == peer_ ? state_ : PeerState::kHere; }
  std::string reasonOf(int) const override { return "it has gone"; }
  void announce(bool) override {}

 private:
  const int peer_;
  const PeerState state_;
};

struct Ended {
  Status status, late;  // late: what a deadline that passes in the last look would make of it
  size_t looks = 0;
};

// A round with both.
Ended roundWith(Peers& peers, std::unique_ptr<PeerWatch> watch, bool awaitedOnly = false) {
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
  opened.rounds.lookAtAwaitedOnly(awaitedOnly);
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
  const int gone = GENERATE(1, 2), other = 3 - gone;
  const Fails fails = GENERATE(Fails::kAtOnce, Fails::kLater, Fails::kWithReceives);
  const bool watched = GENERATE(true, false);
  // Over sockets all of it has come when a send fails.
  const size_t first = fails == Fails::kWithReceives ? 1 : 0;
  const size_t later = fails == Fails::kWithReceives ? 1 : 5;
  CAPTURE(gone, fails, watched);
  std::vector<std::vector<Said>> cases{{{other, first, kRefuse}},
                                       {{gone, first, kRefuse}},
                                       {{other, later, kRefuse}},
                                       {{other, first, kFrame}, {gone, later, kRefuse}},
                                       {{gone, first, kFrame}, {gone, later, kRefuse}},
                                       {{gone, first, kFrame}, {other, later, kRefuse}}};
  // Who leaves because of a mismatch says so itself, unless its words are lost with it.
  if (fails != Fails::kWithReceives) cases.push_back({{other, first, kFrame}, {other, later, kRefuse}});
  for (const std::vector<Said>& said : cases) {
    Peers peers(gone, fails, said);
    checkRefused(roundWith(peers, watched ? std::make_unique<OneIs>(gone, PeerState::kLeft) : nullptr).status);
  }
}

TEST_CASE("where only some ranks sum, a mismatch that others found is not why one of them has gone") {
  const int gone = GENERATE(1, 2), other = 3 - gone;
  Peers others(gone, Fails::kWithReceives, {{other, 1, kFrame}, {other, 1, kRefuse}});
  CHECK(roundWith(others, nullptr, true).status.result() == sparsecollPeerFailed);
  Peers own(gone, Fails::kWithReceives, {{other, 1, kFrame}, {gone, 1, kRefuse}});
  checkRefused(roundWith(own, nullptr, true).status);
}

TEST_CASE("a peer that nothing can be sent to is given up, after a moment if it may have said why") {
  const int gone = GENERATE(1, 2);
  const Fails fails = GENERATE(Fails::kAtOnce, Fails::kLater);
  const auto checkGivenUp = [&](const Status& status) {
    CHECK(status.result() == sparsecollPeerFailed);
    CHECK(status.failure().peer == gone);
    const std::string call = fails == Fails::kAtOnce ? "isend" : "test";
    CHECK(std::string(status.failure().text.view()) ==
          "rank " + std::to_string(gone) + " cannot be reached: the engine's " + call + " returned 1");
  };
  for (const PeerState state : {PeerState::kHere, PeerState::kLeft, PeerState::kAborted}) {
    Peers peers(gone, fails, {{3 - gone, 0, kFrame}});
    const Clock::time_point start = Clock::now();
    const Ended ended = roundWith(peers, std::make_unique<OneIs>(gone, state));
    checkGivenUp(ended.status);
    checkGivenUp(ended.late);
    if (state == PeerState::kAborted)
      CHECK(ended.looks <= 2);
    else
      CHECK(Clock::now() - start >= std::chrono::milliseconds(kLossGraceMs));
  }
}

TEST_CASE("rounds go on without a peer that has gone where they need nothing of it any more") {
  const int gone = GENERATE(1, 2), other = 3 - gone;
  for (const PeerState state : {PeerState::kLeft, PeerState::kAborted}) {
    Peers all(gone, Fails::kLater, {{gone, 0, kFrame}, {other, 20, kFrame}});
    CHECK(roundWith(all, std::make_unique<OneIs>(gone, state)).status.ok());

    Peers peers(gone, Fails::kLater, {{other, 20, kFrame}});
    Opened opened(3, peers.table(), std::make_unique<OneIs>(gone, state), {}, 60000);
    const FrameLayout layout{4, 4, 4};
    std::vector<std::byte> frame(layout.capacityBytes()), landing(layout.capacityBytes());
    const FrameHeader header{1, 0, 0, 0, 0, 0, 0};
    std::memcpy(frame.data(), &header, sizeof header);
    const std::array<Outgoing, 1> to = {{{gone, frame.data(), layout}}};
    std::array<Incoming, 1> from = {{{other, landing.data(), landing.size(), nullptr, 0}}};
    opened.begin();
    opened.rounds.start(opened.operation, to, from);
    bool moved = false, over = false;
    for (int look = 0; look < 100 && !over; ++look) {
      auto looked = opened.rounds.proceed(moved);
      REQUIRE(looked.ok());
      over = *looked;
    }
    CHECK(over);
  }
}

TEST_CASE("an operation that a peer refused before it left begins, so that its round says why") {
  const int gone = GENERATE(1, 2);
  for (const bool refused : {true, false}) {
    Peers peers(gone, Fails::kNever, {{gone, 0, refused ? kRefuse : kFrame}, {gone, 0, kLeave}});
    Opened opened(3, peers.table());
    opened.begin();
    const Status greeted = opened.rounds.greet();
    CHECK(greeted.ok() == refused);
    const std::string why = "rank " + std::to_string(gone) + " destroyed its communicator";
    if (!refused) CHECK(std::string(greeted.failure().text.view()) == why);
  }
  // Of operations before, too: nobody reads their refusals.
  Peers twice(gone, Fails::kNever, {{gone, 0, kRefuse}, {gone, 0, kRefuse}, {gone, 0, kLeave}}, 1);
  Opened later(3, twice.table());
  later.begin();
  CHECK(later.rounds.greet().ok());
  Peers one(gone, Fails::kNever, {{gone, 0, kRefuse}, {gone, 0, kLeave}});
  checkRefused(roundWith(one, nullptr).status);
  Peers both(gone, Fails::kNever, {{gone, 0, kLeave}, {3 - gone, 0, kRefuse}});
  Opened opened(3, both.table());
  opened.begin();
  CHECK(opened.rounds.greet().ok());
}

}  // namespace sparsecoll::engine
