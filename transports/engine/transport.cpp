// Rounds over a table of functions. An operation's thread looks at what has come, moves on what it can, and rests,
// until its round is over; between two looks the mutex is free, so that an abort from another thread comes in at once.
#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "core/patience.h"
#include "transports/common.h"
#include "transports/engine.h"
#include "transports/engine/dense.h"
#include "transports/engine/rounds.h"

namespace sparsecoll::engine {

namespace {

constexpr uint64_t kFarewellMs = 500;  // at most, of abortTimeoutMs
constexpr const char* kTooSlow = "what this rank sends has not all left in time, at the rate that it is limited to";

class EngineTransport final : public Transport {
 public:
  EngineTransport(std::shared_ptr<State> state, std::unique_ptr<PeerWatch> watch)
      : state_(std::move(state)), rounds_(*state_, std::move(watch)), dense_(*state_, rounds_) {
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank()) continue;
      outgoing_.push_back({peer, nullptr, {}});
      incoming_.push_back({peer, nullptr, 0, nullptr, 0});
    }
    amongOut_.reserve(outgoing_.size());
    amongIn_.reserve(incoming_.size());
  }
  ~EngineTransport() override {
    goDown(Down::kLeft);
    shutDown();
  }

  Status open() {
    const std::lock_guard lock(state_->mutex);
    SC_TRY(rounds_.open());
    SC_TRY(dense_.open());
    const uint64_t bytes = (static_cast<uint64_t>(ranks()) + 1) * FrameLayout{}.capacityBytes();
    SC_TRY(headers_, state_->setup.kernels->allocate(bytes, state_->setup.budget));
    return {};
  }
  void takeOver() { owned_ = true; }

  sparsecollTransport_t kind() const override { return state_->setup.kind; }
  int rank() const override { return state_->setup.rank; }
  int ranks() const override { return state_->setup.ranks; }
  bool sharesMemory() const override { return false; }
  bool checksumsPayload() const override { return true; }
  bool sumsItself() const override { return state_->port.sums(); }

  Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t bytes, std::shared_ptr<MemoryBudget> budget,
                                                  Kernels* memory) override {
    const EngineSetup& setup = state_->setup;
    Kernels& owner = memory != nullptr ? *memory : *setup.kernels;
    return RetiringWindow<WindowKeeper>::make({state_}, owner, bytes, budget != nullptr ? budget : setup.budget);
  }

  // What this rank sent in operations that all ranks went through is sent when they end. What was left over from one
  // that was given up the peers drop in the next.
  Status begin(Operation& operation) override {
    {
      const std::lock_guard lock(state_->mutex);
      busy_ = true;
      givenUp_ = engaged_ = false;
      rounds_.begin(operation);
    }
    Status begun = ready(operation);
    givenUp_ = !begun.ok();
    return begun;
  }

  Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream) override {
    const Status exchanged = exchange(operation, out, in);
    if (!exchanged.ok()) return Status(exchanged.failure());
    operation.sentMessages += out.size();
    for (const Outgoing& message : out) operation.sentBytes += message.layout.usedBytes(readHeader(message.frame));
    for (const Incoming& message : in) operation.receivedBytes += message.bytes;
    return {};
  }

  Status allReduce(Operation& operation, const DenseArgs& args, Stream stream) override {
    SC_TRY(underLock([&] { return dense_.prepare(args, stream), Status(); }));
    bool alike = true;
    if (ranks() > 1) {
      SC_TRY(const Met met, meet(operation, args.in == args.out, 0, outgoing_, incoming_));
      alike = met.alike;
    }
    const Status started = underLock([&] { return dense_.start(operation, alike); });
    SC_TRY(finishSum(operation, started));
    if (ranks() > 1) countParts(operation, args, ranks(), rank());
    return {};
  }

  bool sumsAmong() const override { return true; }
  Status sumAmong(Operation& operation, AmongArgs& args, Stream stream) override {
    amongOut_.clear();
    amongIn_.clear();
    for (const int member : args.members) {
      if (member == rank()) continue;
      const auto at = static_cast<size_t>(member < rank() ? member : member - 1);
      amongOut_.push_back(outgoing_[at]);
      amongIn_.push_back(incoming_[at]);
    }
    const bool gathers = args.half == AmongArgs::Half::kGather;
    if (gathers && amongOut_.empty()) return {};
    const uint16_t flags = gathers && args.nonFinite ? kFrameNonFinite : 0;
    {
      const std::lock_guard lock(state_->mutex);
      rounds_.lookAtAwaitedOnly(true);
    }
    SC_TRY(underLock([&] { return dense_.prepareAmong(args, stream), Status(); }));
    if (!amongOut_.empty()) {
      SC_TRY(const Met met, meet(operation, false, flags, amongOut_, amongIn_));
      args.nonFinite = met.nonFinite;
    }
    const Status started = underLock([&] { return dense_.startAmong(operation); });
    Status summed = finishSum(operation, started);
    if (summed.ok()) countAmong(operation, args, rank());
    const std::lock_guard lock(state_->mutex);
    rounds_.lookAtAwaitedOnly(false);
    return summed;
  }

  uint64_t sharedBytes() const override { return dense_.sharedBytes(); }
  Status share(const std::shared_ptr<SharedMemory>& memory) override {
    const std::lock_guard lock(state_->mutex);
    SC_TRY(dense_.share(memory));
    rounds_.share(memory);
    return {};
  }

  void refuse(const Operation& operation, const Failure& why) override {
    const std::lock_guard lock(state_->mutex);
    givenUp_ = true;
    if (!closed_ && ranks() > 1) rounds_.refuse(operation, why);
  }

  // Nothing moves between two calls of the library, so the sends have to be over before this one returns.
  void end(const Operation& operation) override {
    if (!givenUp_ && ranks() > 1) unsettled_ = untilSent(operation, operation.sequence);
    {
      const std::lock_guard lock(state_->mutex);
      dense_.letGo();
      if (givenUp_) state_->port.hurry();
      busy_ = false;
    }
    if (isDown()) tell();
  }

  void abort() override { goDown(Down::kAborted); }
  void leave() override { goDown(Down::kLeft); }

  // The table goes back: nobody is in it but this thread, or it has to wait for the destructor.
  void shutDown() override {
    // Also after an abort, and while a reducer keeps this alive: survivors are not to wait for a rank that has gone.
    if (rounds_.watch() != nullptr) rounds_.watch()->announce(false);
    const std::lock_guard lock(state_->mutex);
    if (closed_ || busy_) return;
    closed_ = true;
    const Deadline deadline = Deadline::in(state_->setup.abortTimeoutMs);
    // Ranks that have not met yet learn it by their control connections; some may never have posted a receive.
    const bool tells = owned_ || rounds_.watch() == nullptr;
    for (Patience patience(deadline); tells && rounds_.telling() && rounds_.work().ok() && patience.rest();) continue;
    dense_.close();
    rounds_.close();
    state_->port.close(deadline);
    if (owned_) state_->port.release(deadline);
  }

 private:
  enum class Down { kNo, kLeft, kAborted };

  // Before this rank has said anything in an operation that takes memory has no effect: it may call again. After that
  // its peers count on it.
  Status outOfMemory() const {
    if (!engaged_) return fail(sparsecollOutOfMemory, "out of memory for messages");
    return fail(sparsecollSystemError, "out of memory between messages of an operation");
  }

  template <class Body>
  Status underLock(Body body) {
    const std::lock_guard lock(state_->mutex);
    Status done;
    try {
      done = body();
    } catch (const std::bad_alloc&) {
      done = outOfMemory();
    }
    if (!done.ok()) givenUp_ = true;
    return done;
  }

  Status ready(Operation& operation) try {
    if (!unsettled_.ok()) return std::exchange(unsettled_, Status());
    if (ranks() == 1) return soundHere();
    SC_TRY(untilSent(operation, operation.sequence > 2 ? operation.sequence - 2 : 0));
    Status greeted;
    {
      const std::lock_guard lock(state_->mutex);
      greeted = rounds_.greet();
    }
    return accuse(greeted);
  } catch (const std::bad_alloc&) {
    return outOfMemory();
  }

  bool isDown() const { return down_.load(std::memory_order_acquire) != Down::kNo; }
  Status soundHere() const {
    if (!isDown()) return {};
    return fail(sparsecollAborted, "the communicator was aborted");
  }

  void goDown(Down how) {
    Down before = Down::kNo;
    if (!down_.compare_exchange_strong(before, how)) return;
    if (rounds_.watch() != nullptr) rounds_.watch()->announce(how == Down::kAborted);
    {
      const std::lock_guard lock(state_->mutex);
      if (busy_) return;  // the operation's thread tells, on its way out
    }
    tell();
  }
  // What is still under way may stand in front of the farewell, and nothing moves once this call has returned: a moment
  // is left to it. Peers that do not take it in that time learn it when this rank closes.
  void tell() noexcept try {
    for (Patience patience(Deadline::in(std::min(kFarewellMs, state_->setup.abortTimeoutMs)));;) {
      {
        const std::lock_guard lock(state_->mutex);
        if (closed_) return;
        rounds_.farewell(down_.load() == Down::kAborted);
        if (!rounds_.telling() || !rounds_.work().ok()) return;
      }
      if (!patience.rest()) return;
    }
  } catch (const std::bad_alloc&) {
    return;  // they learn it as those do that take nothing in time
  }

  // A peer that gave up because of another one is not the one to be named.
  Status accuse(const Status& failed) {
    PeerWatch* const watch = rounds_.watch();
    Failure failure = failed.failure();
    const bool byPeer = failure.result == sparsecollPeerFailed || failure.result == sparsecollTimeout;
    if (watch == nullptr || failure.peer < 0 || !byPeer) return Status(failure);
    const int culprit = failure.result == sparsecollPeerFailed ? watch->blameOf(failure.peer) : failure.peer;
    if (failure.result == sparsecollPeerFailed && watch->stateOf(failure.peer) != PeerState::kHere)
      failure = failBy(culprit, sparsecollPeerFailed, "{}", watch->reasonOf(failure.peer)).failure();
    watch->blame(culprit);
    return Status(failure);
  }

  // look(moved): whether it is over. late(): the failure once the deadline has passed.
  template <class Look, class Late>
  Status wait(const Deadline& deadline, Look look, Late late) try {
    std::optional<Deadline> lostSince;
    for (Patience patience(deadline);;) {
      bool moved = false;
      Status failed;
      Pace::Time restUntil;
      {
        const std::lock_guard lock(state_->mutex);
        SC_TRY(soundHere());
        auto over = look(moved);
        if (over.ok() && *over) return {};
        failed = over.ok() ? rounds_.checkLost(moved, lostSince) : over.takeStatus();
        restUntil = state_->port.restUntil(isKeptAwake());
      }
      if (!failed.ok()) return accuse(failed);
      if (moved) patience.renew();
      if (!moved && !patience.rest(restUntil)) {
        const std::lock_guard lock(state_->mutex);
        return accuse(late());
      }
    }
  } catch (const std::bad_alloc&) {
    return outOfMemory();
  }

  using Start = void (Rounds::*)(const Operation&, std::span<const Outgoing>, std::span<Incoming>);
  Status exchange(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in,
                  Start start = &Rounds::start) {
    SC_TRY(underLock([&] { return (rounds_.*start)(operation, out, in), Status(); }));
    engaged_ = true;
    const Status exchanged = wait(
        operation.deadline, [&](bool& moved) { return rounds_.proceed(moved); }, [&] { return rounds_.timeout(); });
    ++operation.round;
    if (exchanged.ok()) return {};
    const std::lock_guard lock(state_->mutex);
    rounds_.giveUp();
    givenUp_ = true;
    return Status(exchanged.failure());
  }

  Status untilSent(const Operation& operation, uint64_t sequence) {
    return wait(
        operation.deadline, [&](bool& moved) { return rounds_.finishSends(sequence, moved); },
        [&] {
          if (state_->port.due() != Pace::Time::max()) return fail(sparsecollTimeout, "{}", kTooSlow);
          const int peer = state_->port.sendingTo(sequence).value_or(-1);
          return failBy(peer, sparsecollTimeout, "rank {} has not taken what was sent to it in time", peer);
        });
  }

  // What moves in shared memory wakes nobody: while that is waited for, whoever watches for messages must not sleep.
  class Awake {
   public:
    Awake(const State& state, bool awake) : flag_(awake ? state.setup.awake.get() : nullptr) { set(true); }
    ~Awake() { set(false); }
    Awake(const Awake&) = delete;
    Awake& operator=(const Awake&) = delete;

   private:
    void set(bool awake) const {
      if (flag_ != nullptr) flag_->store(awake, std::memory_order_relaxed);
    }
    std::atomic<bool>* const flag_;
  };

  bool isKeptAwake() const {
    return state_->setup.awake != nullptr && state_->setup.awake->load(std::memory_order_relaxed);
  }

  // A round of the operation may be part of it. The ranks have met: whatever ends the sum now ends the communicator, as
  // each of them needs all others, and messages of a sum do not tell of which one they are.
  Status finishSum(const Operation& operation, const Status& started) {
    const Awake awake(*state_, dense_.anyNear());
    const auto look = [&](bool& moved) { return dense_.proceed(moved); };
    const Status summed =
        started.ok() ? wait(operation.deadline, look, [&] { return dense_.timeout(); }) : Status(started.failure());
    const std::lock_guard lock(state_->mutex);
    if (!summed.ok()) dense_.giveUp();
    dense_.end();
    if (summed.ok()) return {};
    givenUp_ = true;
    Failure failure = summed.failure();
    if (!isFatal(failure.result)) failure.result = sparsecollInternalError;
    return Status(failure);
  }

  struct Met {
    bool alike = true;       // all sum in place, or none
    bool nonFinite = false;  // some rank's header has the flag
  };

  std::byte* headerOf(int peer) const {
    return headers_.as<>() + (1 + static_cast<uint64_t>(peer)) * FrameLayout{}.capacityBytes();
  }

  // That these ranks mean this operation, each learns for itself.
  Result<Met> meet(Operation& operation, bool inPlace, uint16_t flags, std::span<Outgoing> out,
                   std::span<Incoming> in) {
    const FrameHeader header{operation.sequence, operation.plan, 0, flags, 0, inPlace ? 1u : 0u, 0};
    sealHeader(header, headers_.as<>());
    for (Outgoing& message : out) {
      message.layout = dense_.layoutTo(message.peer);
      const bool more = message.layout.denseCount != 0;
      message.frame = more ? dense_.frameTo(message.peer) : headers_.as<>();
      if (more) sealRun(header, message.layout, dense_.frameTo(message.peer));
    }
    for (Incoming& message : in) {
      const FrameLayout layout = dense_.layoutFrom(message.peer);
      message.landing = layout.denseCount != 0 ? dense_.frameFrom(message.peer) : headerOf(message.peer);
      message.capacity = layout.capacityBytes();
    }
    {
      const Awake awake(
          *state_, std::ranges::any_of(in, [&](const Incoming& message) { return rounds_.reaches(message.peer); }));
      SC_TRY(exchange(operation, out, in, &Rounds::startMeeting));
    }
    Met met;
    met.nonFinite = flags != 0;
    for (const Incoming& message : in) {
      SC_TRY(const FrameHeader theirs, openRun(message, dense_.layoutFrom(message.peer), operation.identity()));
      met.alike = met.alike && theirs.threshold == header.threshold;
      met.nonFinite = met.nonFinite || (theirs.flags & kFrameNonFinite) != 0;
    }
    return met;
  }

  const std::shared_ptr<State> state_;
  Rounds rounds_;
  DenseSum dense_;
  Buffer headers_;  // this rank's, then the ranks', for dense sums
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<Outgoing> amongOut_;  // those of sums among some ranks
  std::vector<Incoming> amongIn_;
  std::atomic<Down> down_{Down::kNo};
  bool busy_ = false;     // an operation's thread is at work
  bool closed_ = false;   // nobody uses the table any more
  bool engaged_ = false;  // this rank may have sent something in the operation
  bool givenUp_ = false;  // this rank does not go on with the operation
  bool owned_ = false;
  Status unsettled_;  // an operation that went well, but for its sends
};

}  // namespace

Result<std::unique_ptr<Transport>> makeTransport(const EngineSetup& setup, const sparsecollEngine_t& table,
                                                 std::unique_ptr<PeerWatch> watch) {
  auto transport = std::make_unique<EngineTransport>(std::make_shared<State>(setup, table), std::move(watch));
  SC_TRY(transport->open());
  return std::unique_ptr<Transport>(std::move(transport));
}

void takeOver(Transport& transport) { static_cast<EngineTransport&>(transport).takeOver(); }

}  // namespace sparsecoll::engine
