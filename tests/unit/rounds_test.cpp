// A rank's rounds over tables of the test's own: a peer that has left, whose messages still come, however long that
// takes, or are given up; and peers that take nothing, while memory runs out.
#include "transports/engine/rounds.h"

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/opened_rounds.h"
#include "tests/support/refused_memory.h"
#include "transports/common.h"

namespace sparsecoll::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFrameBytes = 100000;

// The peer's only frame: some of it comes at every look, or all of it at last, or nothing at all.
class Slow {
 public:
  enum class Comes { kInPieces, kAtOnce, kNever };
  explicit Slow(Comes comes) : comes_(comes) {}

  sparsecollEngine_t table() {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int, int, const void*, size_t, void** request) {
      return self(user).post(kNotices, true, request);
    };
    table.irecv = [](void* user, int, int tag, void* data, size_t, void** request) {
      return self(user).receive(tag, static_cast<std::byte*>(data), request);
    };
    table.test = [](void* user, void** request, int* done, size_t* bytes) {
      return self(user).test(*static_cast<Request*>(*request), done, bytes);
    };
    table.cancel = [](void*, void** request) {
      static_cast<Request*>(*request)->done = true;
      return 0;
    };
    return table;
  }

 private:
  struct Request {
    int tag;
    bool done;
    size_t bytes = 0;
  };

  static Slow& self(void* user) { return *static_cast<Slow*>(user); }

  int post(int tag, bool done, void** request) {
    requests_.push_back({tag, done});
    *request = &requests_.back();
    return 0;
  }
  int receive(int tag, std::byte* data, void** request) {
    const bool announces = tag == kEnvelopes && !std::exchange(announced_, true);
    if (announces) seal({EnvelopeKind::kFrame, 0, 1, 0, kFrameBytes, 0, 0}, data);
    (void)post(tag, announces, request);
    requests_.back().bytes = announces ? sizeof(Envelope) : 0;
    return 0;
  }
  int test(Request& request, int* done, size_t* bytes) const {
    if (request.tag == kFrames && comes_ != Comes::kNever) {
      request.done = request.done || Clock::now() > end_;
      if (comes_ == Comes::kInPieces) ++request.bytes;
      if (request.done) request.bytes = kFrameBytes;
    }
    *done = request.done ? 1 : 0;
    *bytes = request.bytes;
    return 0;
  }

  const Comes comes_;
  bool announced_ = false;
  const Clock::time_point end_ = Clock::now() + std::chrono::milliseconds(kLossGraceMs + kLossGraceMs / 2);
  std::deque<Request> requests_;
};

class Left final : public PeerWatch {
 public:
  PeerState stateOf(int) const override { return PeerState::kLeft; }
  std::string reasonOf(int) const override { return "it has left"; }
  void announce(bool) override {}
};

Status roundOver(Slow& slow, uint64_t abortTimeoutMs = 0) {
  Opened opened(2, slow.table(), std::make_unique<Left>(), {}, abortTimeoutMs);
  std::vector<std::byte> landing(kFrameBytes);
  std::array<Incoming, 1> in = {{{1, landing.data(), landing.size(), nullptr, 0}}};
  opened.begin();
  opened.rounds.start(opened.operation, {}, in);
  Status ended;
  for (bool over = false, moved = false; ended.ok() && !over;) {
    auto looked = opened.rounds.proceed(moved);
    over = looked.ok() && *looked;
    if (!looked.ok()) ended = looked.takeStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ended;
}

// Takes whatever is sent, and ends none of it.
class Endless {
 public:
  Endless() { requests_.reserve(10000); }  // memory is refused to others

  sparsecollEngine_t table() {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int tag, const void*, size_t, void** request) {
      ++self(user).sent_[static_cast<size_t>(tag)];
      const bool joins = std::exchange(self(user).joinsNext_, false);
      if (joins) self(user).joined_.emplace_back(peer, tag);
      return self(user).post(request);
    };
    table.irecv = [](void* user, int, int, void*, size_t, void** request) { return self(user).post(request); };
    table.test = [](void*, void** request, int* done, size_t* bytes) {
      *done = *static_cast<bool*>(*request) ? 1 : 0;
      *bytes = 0;
      return 0;
    };
    table.cancel = [](void*, void** request) {
      *static_cast<bool*>(*request) = true;
      return 0;
    };
    table.progress = [](void* user) {
      Endless& peers = self(user);
      peers.sentBeforeProgress_ = peers.sent(kEnvelopes) + peers.sent(kFrames);
      return 0;
    };
    return table;
  }
  static MessengerCalls calls() {
    MessengerCalls calls;
    calls.leavesHost = [](const void*, int peer) { return peer != 2; };
    calls.expect = [](void* user, uint64_t bytes, size_t frames) { self(user).expected_ = {bytes, frames}; };
    calls.joinNext = [](void* user) { self(user).joinsNext_ = true; };
    return calls;
  }
  // Messages that leave with the next one: to whom, and their tags.
  const std::vector<std::pair<int, int>>& joined() const { return joined_; }
  // Bytes that are to leave this host, and in how many frames.
  std::pair<uint64_t, size_t> expected() const { return expected_; }
  size_t sent(Tag tag) const { return sent_[static_cast<size_t>(tag)]; }
  size_t sentBeforeProgress() const { return sentBeforeProgress_; }  // the latest call of it

 private:
  struct Request {
    bool done = false;
  };
  static Endless& self(void* user) { return *static_cast<Endless*>(user); }
  int post(void** request) {
    requests_.push_back({});
    *request = &requests_.back().done;
    return 0;
  }

  std::array<size_t, 16> sent_{};
  size_t sentBeforeProgress_ = 0;
  std::pair<uint64_t, size_t> expected_;
  bool joinsNext_ = false;
  std::vector<std::pair<int, int>> joined_;
  std::vector<Request> requests_;
};

// Of so many messages, each of which is too long for its envelope. Returns whether memory was refused.
bool sendWithoutMemory(Endless& peers, int messages, int64_t allocations) {
  Opened opened(messages + 1, peers.table());
  const FrameLayout layout{kFrameBytes, 4, 4};
  const FrameHeader header{1, 0, kFrameBytes, 0, 0, 0, 0};
  std::vector<std::byte> frame(layout.capacityBytes());
  std::memcpy(frame.data(), &header, sizeof header);
  std::vector<Outgoing> out;
  for (int peer = 1; peer <= messages; ++peer) out.push_back({peer, frame.data(), layout});
  opened.begin();
  opened.rounds.start(opened.operation, out, {});  // makes room for these, which is what is told in between takes
  opened.rounds.farewell(true);
  bool moved = false;
  test::memoryLeft = allocations;
  try {
    (void)opened.rounds.proceed(moved);
  } catch (const std::bad_alloc&) {
  }
  const bool refused = test::memoryLeft.exchange(-1) < 0;
  opened.rounds.giveUp();
  return refused;
}

}  // namespace

TEST_CASE("a frame follows each envelope that says so, whenever memory runs out") {
  for (int messages = 1; messages <= 12; ++messages) {
    bool refused = true;
    for (int64_t allocations = 0; refused; ++allocations) {
      CAPTURE(messages, allocations);
      Endless peers;
      refused = sendWithoutMemory(peers, messages, allocations);
      const auto told = static_cast<size_t>(messages);  // each peer is told once that this rank aborts
      CHECK(peers.sent(kEnvelopes) - told == peers.sent(kFrames));
      if (!refused) CHECK(peers.sent(kFrames) == static_cast<size_t>(messages));
    }
  }
}

TEST_CASE("an envelope leaves with the frame that follows it, and alone where it holds it, before progress may sleep") {
  Endless peers;
  Opened opened(3, peers.table(), nullptr, Endless::calls());
  const FrameLayout layout{kFrameBytes, 4, 4};
  std::vector<std::byte> frames[2];
  for (std::vector<std::byte>& frame : frames) frame.resize(layout.capacityBytes());
  const FrameHeader longer{1, 0, kFrameBytes, 0, 0, 0, 0}, shorter{1, 0, 1, 0, 0, 0, 0};
  std::memcpy(frames[0].data(), &longer, sizeof longer);
  std::memcpy(frames[1].data(), &shorter, sizeof shorter);
  const std::array<Outgoing, 2> out = {{{1, frames[0].data(), layout}, {2, frames[1].data(), layout}}};
  opened.begin();
  opened.rounds.start(opened.operation, out, {});
  bool moved = false;
  REQUIRE(opened.rounds.proceed(moved).ok());
  CHECK(peers.sent(kEnvelopes) == 2);
  CHECK(peers.sent(kFrames) == 1);
  CHECK(peers.joined() == std::vector<std::pair<int, int>>{{1, kEnvelopes}});
  CHECK(peers.sentBeforeProgress() == 3);
  opened.rounds.giveUp();
}

TEST_CASE("memory is kept for as long as a request uses any of it") {
  struct Case {
    uint64_t begin, end;  // of what is sent; the memory in question is from 1000 to 2000
    bool used;
  };
  for (const Case& one : {Case{0, 1000, false}, Case{0, 1001, true}, Case{1999, 3000, true}, Case{2000, 3000, false},
                          Case{1200, 1300, true}, Case{0, 3000, true}}) {
    CAPTURE(one.begin, one.end);
    std::vector<std::byte> all(3000);
    struct Source final : MemorySource {
      Result<void*> allocate(uint64_t) override { return fail(sparsecollInternalError, "not called"); }
      void release(void*, uint64_t) noexcept override { released = true; }
      bool released = false;
    };
    const auto source = std::make_shared<Source>();
    Endless peers;
    Opened opened(2, peers.table());
    Port& port = opened.state.port;
    REQUIRE(port.send(1, kFrames, all.data() + one.begin, one.end - one.begin, 1).ok());
    port.expectRetirement();
    port.retire(Buffer(all.data() + 1000, 1000, source, nullptr));
    CHECK(source->released != one.used);
    port.giveUp(1);
    REQUIRE(port.progress().ok());
    port.expectRetirement();
    CHECK(source->released);
  }
}

TEST_CASE("whatever is wrong with a peer, it is the one that is named, and the first reason stays") {
  Endless peers;
  Opened opened(3, peers.table());
  Lanes& lanes = opened.state.lanes;
  lanes.takeDown(1, failBy(2, sparsecollCorrupted, "first"));
  lanes.takeDown(1, fail(sparsecollPeerFailed, "second"));
  CHECK(lanes.isDown(1));
  CHECK_FALSE(lanes.isDown(2));
  CHECK(lanes.whyDown(1).result() == sparsecollCorrupted);
  CHECK(lanes.whyDown(1).failure().peer == 1);
  CHECK(lanes.whyDown(1).failure().text.view() == "first");
}

TEST_CASE("before a round the engine is told how much of it leaves the host") {
  Endless peers;
  Opened opened(4, peers.table(), nullptr, Endless::calls());
  const FrameLayout layout{100, 4, 4};
  std::vector<std::byte> frames[3];
  std::vector<Outgoing> out;
  uint64_t bytes = 0;
  for (const uint32_t count : {100, 7, 0}) {
    std::vector<std::byte>& frame = frames[out.size()];
    frame.resize(layout.capacityBytes());
    const FrameHeader header{1, 0, count, 0, 0, 0, 0};
    std::memcpy(frame.data(), &header, sizeof header);
    out.push_back({static_cast<int>(out.size()) + 1, frame.data(), layout});
    if (out.back().peer != 2) bytes += layout.usedBytes(header);
  }
  opened.begin();
  opened.rounds.start(opened.operation, out, {});
  CHECK(peers.expected() == std::pair{bytes, out.size() - 1});
  opened.rounds.start(opened.operation, std::span(out).first(2), {});  // to ranks 1 and 2
  CHECK(peers.expected() == std::pair{layout.usedBytes(readHeader(out[0].frame)), size_t{1}});
  opened.rounds.start(opened.operation, {}, {});
  CHECK(peers.expected() == std::pair{uint64_t{0}, size_t{0}});
  opened.rounds.giveUp();
}

TEST_CASE("the peer whose message has no room any more, because nobody takes what was sent, is named") {
  Endless peers;
  Opened opened(3, peers.table());
  const FrameLayout layout{4, 4, 4};
  std::vector<std::byte> frame(layout.capacityBytes());
  const std::array<Outgoing, 2> out = {{{1, frame.data(), layout}, {2, frame.data(), layout}}};
  opened.begin();
  bool over = true;
  while (over && peers.sent(kEnvelopes) < 1000) {
    opened.rounds.start(opened.operation, out, {});
    bool moved = false;
    auto looked = opened.rounds.proceed(moved);
    REQUIRE(looked.ok());
    over = *looked;
    ++opened.operation.round;
  }
  CHECK_FALSE(over);
  const Status late = opened.rounds.timeout();
  CHECK(late.result() == sparsecollTimeout);
  const int next = peers.sent(kEnvelopes) % 2 == 0 ? 1 : 2;
  CHECK(late.failure().peer == next);
  CHECK(std::string(late.failure().text.c_str()) == "rank " + std::to_string(next) + " takes no messages");
  opened.rounds.giveUp();
}

TEST_CASE("a long frame of a peer that has left comes to its end") {
  Slow slow(Slow::Comes::kInPieces);
  CHECK(roundOver(slow).ok());
}

TEST_CASE("of a frame that shows only once it is whole a peer that has left may need its abortTimeoutMs twice") {
  Slow slow(Slow::Comes::kAtOnce);
  CHECK(roundOver(slow, kLossGraceMs).ok());
}

TEST_CASE("a peer that has left is waited for no longer once nothing comes from it") {
  Slow slow(Slow::Comes::kNever);
  const Status ended = roundOver(slow);
  CHECK(ended.result() == sparsecollPeerFailed);
  CHECK(ended.failure().peer == 1);
  CHECK(ended.failure().text.view() == "rank 1: it has left");
}

}  // namespace sparsecoll::engine
