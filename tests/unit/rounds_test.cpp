// A rank's rounds over a table of the test's own, whose peer has left: all that it has sent before still comes, however
// long that takes, and what does not come is given up.
#include "transports/engine/rounds.h"

#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "host/host_kernels.h"
#include "tests/support/catch.h"
#include "transports/common.h"

namespace sparsecoll::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFrameBytes = 100000;

// The peer's only frame, of which some comes at every look, or nothing at all.
class Slow {
 public:
  explicit Slow(bool moves) : moves_(moves) {}

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
    if (request.tag == kFrames && moves_) {
      request.done = request.done || Clock::now() > end_;
      request.bytes = request.done ? kFrameBytes : request.bytes + 1;
    }
    *done = request.done ? 1 : 0;
    *bytes = request.bytes;
    return 0;
  }

  const bool moves_;
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

Status roundOver(Slow& slow) {
  EngineSetup setup;
  setup.ranks = 2;
  setup.kernels = host::makeHostKernels();
  setup.budget = std::make_shared<MemoryBudget>(0);
  State state(setup, slow.table());
  Rounds rounds(state, std::make_unique<Left>());
  SC_TRY(rounds.open());
  std::vector<std::byte> landing(kFrameBytes);
  std::array<Incoming, 1> in = {{{1, landing.data(), landing.size(), nullptr, 0}}};
  Operation operation;
  operation.sequence = 1;
  rounds.begin(operation);
  rounds.start(operation, {}, in);
  Status ended;
  for (bool over = false, moved = false; ended.ok() && !over;) {
    auto looked = rounds.proceed(moved);
    over = looked.ok() && *looked;
    if (!looked.ok()) ended = looked.takeStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  rounds.close();
  state.port.close(Deadline::in(60000));
  return ended;
}

}  // namespace

TEST_CASE("a long frame of a peer that has left comes to its end") {
  Slow slow(true);
  CHECK(roundOver(slow).ok());
}

TEST_CASE("a peer that has left is waited for no longer once nothing comes from it") {
  Slow slow(false);
  const Status ended = roundOver(slow);
  CHECK(ended.result() == sparsecollPeerFailed);
  CHECK(ended.failure().peer == 1);
  CHECK(ended.failure().text.view() == "rank 1: it has left");
}

}  // namespace sparsecoll::engine
