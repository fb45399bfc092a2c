#include "transports/engine/rounds.h"

#include <algorithm>

#include "transports/common.h"

namespace sparsecoll::engine {

namespace {

constexpr uint64_t kMostLeftMs = 60000;
constexpr uint64_t kManyBeats = 2;  // one may be late

Status inAnotherOperation(int peer) {
  return disagree(peer, "order", "rank {} is in another operation, or in this one with another density", peer);
}

Status hasLeftForLater(int peer) {
  return disagree(peer, "order", "rank {} has left the operation for a later one", peer);
}

}  // namespace

Rounds::Rounds(State& state, std::unique_ptr<PeerWatch> watch)
    : state_(state), watch_(std::move(watch)), rank_(state.setup.rank), ranks_(state.setup.ranks) {
  awaited_.resize(static_cast<size_t>(ranks_));
}

Status Rounds::open() {
  if (ranks_ == 1) return {};
  const auto ranks = static_cast<uint64_t>(ranks_);
  const EngineSetup& setup = state_.setup;
  slotUses_.resize(2 * ranks + kOwnSlots);
  state_.port.expectRetirement();
  SC_TRY(slots_, setup.kernels->allocate(slotUses_.size() * state_.slotBytes, setup.budget));
  SC_TRY(Buffer received, setup.kernels->allocate(state_.lanes.bytes(), setup.budget));
  return state_.lanes.open(std::move(received));
}

void Rounds::begin(const Operation& operation) {
  current_ = operation.sequence;
  plan_ = operation.plan;
  round_ = 0;
  awaitedOnly_ = false;
}

// An operation that a peer has refused begins, so that its round finds why.
Status Rounds::greet() {
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_ && hasRefused(peer)) return {};
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    if (state_.lanes.isDown(peer)) return state_.lanes.whyDown(peer);
    if (const EnvelopeKind notice = state_.lanes.noticeOf(peer); notice != EnvelopeKind::kFrame)
      return gone(peer, notice);
  }
  return {};
}

void Rounds::start(const Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in) {
  size_t requests = 0, farPeers = 0;
  uint64_t bytesToFar = 0;
  for (const Outgoing& message : out) {
    requests += 1 + Port::piecesOf(message.layout.capacityBytes());
    if (!state_.port.leavesHost(message.peer)) continue;
    ++farPeers;
    bytesToFar += bytesOf(message);
  }
  for (const Incoming& message : in) {
    requests += Port::piecesOf(message.capacity);
    Port::makeRoom(awaited(message.peer).frame, message.capacity);
  }
  state_.port.makeRoom(requests);
  state_.port.expect(bytesToFar, farPeers);
  plan_ = operation.plan;
  round_ = operation.round;
  out_ = out;
  in_ = in;
  sent_ = 0;
  firstOut_ = 0;
  while (firstOut_ < out.size() && out[firstOut_].peer < rank_) ++firstOut_;
  missing_ = in.size();
  meets_ = false;
  record_ = operation.record;
  noteRound(operation, in);
  for (const Incoming& message : in) {
    awaited(message.peer).stage = Stage::kEnvelope;
    awaited(message.peer).grace.reset();
    awaited(message.peer).ahead.reset();
  }
}

void Rounds::startMeeting(const Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in) {
  start(operation, out, in);
  meets_ = true;
  for (const Outgoing& message : out)
    if (reaches(message.peer)) shared_->announce(message.peer, {readHeader(message.frame), round_});
}

// Before a rank sends, what is here already may tell that this operation is given up. It sends before the engine's turn,
// which may be a sleep until more of a message has come.
Result<bool> Rounds::proceed(bool& moved) {
  moved = false;
  if (sent_ != out_.size()) {
    SC_TRY(takeAll(moved));
    SC_TRY(sendRest(moved));
  }
  SC_TRY(const bool worked, work());
  moved = moved || worked;
  SC_TRY(takeAll(moved));
  if (missing_ != 0 || sent_ != out_.size()) return false;
  in_ = {};
  out_ = {};
  return true;
}

Status Rounds::takeAll(bool& moved) {
  SC_TRY(lookAround(moved));
  for (Incoming& message : in_) SC_TRY(take(message, moved));
  return {};
}

Status Rounds::sendRest(bool& moved) {
  for (; sent_ < out_.size(); ++sent_) {
    const Outgoing& message = nextOut();
    const int peer = message.peer;
    if (meets_ && reaches(peer)) continue;
    if (state_.lanes.isDown(peer) || (state_.lanes.goesDown(peer) && isLost(peer))) return whyDown(peer);
    if (state_.lanes.goesDown(peer)) break;
    auto posted = post(message);
    if (!posted.ok()) state_.lanes.takeDown(peer, posted.takeStatus(), kLossGraceMs);
    if (state_.lanes.goesDown(peer) || !*posted) break;
    moved = true;
  }
  return {};
}

bool Rounds::hasRefused(int peer) {
  while (state_.lanes.look(peer, current_)) continue;  // what is left of operations before stands in front
  const Envelope* const envelope = state_.lanes.head(peer);
  return envelope != nullptr && envelope->kind == EnvelopeKind::kRefuse && envelope->sequence == current_;
}

// A peer that left because of a mismatch has said so before, and so has whoever found it. Where only some ranks sum, a
// mismatch of others is not the reason.
Status Rounds::whyDown(int peer) {
  state_.port.giveUp(peer);
  const bool inRound = !in_.empty() || !out_.empty();
  for (int other = 0; inRound && other < ranks_; ++other) {
    if (other == rank_ || (awaitedOnly_ && other != peer)) continue;
    if (hasRefused(other)) return Status(failureOf(state_.lanes.slotOf(other), other));
  }
  return state_.lanes.whyDown(peer);
}

// The engine's turn.
Result<bool> Rounds::work() {
  SC_TRY(const bool moved, state_.port.progress());
  for (int peer = state_.port.takeFailedPeer(); peer >= 0; peer = state_.port.takeFailedPeer()) {
    state_.lanes.takeDown(peer, state_.port.unreachable(peer), kLossGraceMs);
    state_.port.giveUp(peer);
  }
  return moved;
}

// One lane that nothing is missing from: it may hold what is left of another operation, or tell that this one is given
// up.
Status Rounds::lookAround(bool& moved) {
  around_ = (around_ + 1) % ranks_;
  if (around_ == rank_ || awaited(around_).stage != Stage::kDone) return {};
  moved = state_.lanes.look(around_, current_) || moved;
  const Envelope* const envelope = state_.lanes.head(around_);
  if (awaitedOnly_) return {};
  if (isElsewhere(around_)) return inAnotherOperation(around_);
  if (envelope == nullptr || envelope->sequence != current_) return {};
  if (envelope->kind == EnvelopeKind::kRefuse) return Status(failureOf(state_.lanes.slotOf(around_), around_));
  if (envelope->plan != plan_ || envelope->round < round_) return inAnotherOperation(around_);
  return {};
}

Status Rounds::take(Incoming& message, bool& moved) {
  const int peer = message.peer;
  Awaited& from = awaited(peer);
  if (from.stage == Stage::kEnvelope) {
    moved = state_.lanes.look(peer, current_) || moved;
    // In that order: a peer that has met this one already may send what belongs to the next operation.
    if (reaches(peer)) SC_TRY(takeAnnouncement(message, moved));
    if (const Envelope* const envelope = state_.lanes.head(peer);
        from.stage == Stage::kEnvelope && envelope != nullptr && envelope->sequence >= current_) {
      moved = true;
      SC_TRY(takeEnvelope(message, *envelope));
    }
  }
  if (from.stage == Stage::kFrame) {
    const Outcome outcome = state_.port.test(from.frame);
    if (outcome == Outcome::kFailed) state_.lanes.takeDown(peer, state_.port.unreachable(peer));
    if (outcome == Outcome::kDone) {
      moved = true;
      noteCame(from, peer);
      if (from.frame.bytes() != message.bytes)
        return failBy(peer, sparsecollCorrupted, "{} bytes came from rank {} for a frame of {}", from.frame.bytes(),
                      peer, message.bytes);
    }
  }
  return from.stage == Stage::kDone ? Status() : check(peer, from.frame.moved() + state_.lanes.moved(peer));
}

// The envelope is of this operation or a later one.
Status Rounds::takeEnvelope(Incoming& message, const Envelope& envelope) {
  const int peer = message.peer;
  if (envelope.sequence > current_) return hasLeftForLater(peer);
  const std::byte* const slot = state_.lanes.slotOf(peer);
  if (envelope.kind == EnvelopeKind::kRefuse) return Status(failureOf(slot, peer));
  if (envelope.plan != plan_ || envelope.round != round_) return inAnotherOperation(peer);
  if (envelope.bytes > message.capacity)
    return failBy(peer, sparsecollCorrupted, "rank {} sends a frame of {} bytes, the capacity is {}", peer,
                  envelope.bytes, message.capacity);
  Awaited& from = awaited(peer);
  message.frame = message.landing;
  message.bytes = envelope.bytes;
  if (envelope.inside != 0) {
    std::memcpy(message.landing, slot + sizeof(Envelope), envelope.bytes);
    noteCame(from, peer);
  } else {
    SC_TRY(state_.port.receive(from.frame, peer, kFrames, message.landing, envelope.bytes));
    from.stage = Stage::kFrame;
  }
  state_.lanes.advance(peer);
  return {};
}

// Of a peer that has gone on to a later operation there may still be a message under way that belongs to this one, or
// tells why it has given it up.
Status Rounds::takeAnnouncement(Incoming& message, bool& moved) {
  const int peer = message.peer;
  Awaited& from = awaited(peer);
  bool ahead = false;
  for (size_t which = 0; which < SharedMemory::kAnnouncements; ++which) {
    const auto announced = shared_->announced(peer, which);
    if (!announced || announced->header.sequence < current_) continue;
    if (announced->header.sequence > current_) {
      ahead = true;
    } else if (announced->header.plan != plan_) {
      return inAnotherOperation(peer);
    } else if (meets_ && announced->round == round_) {
      std::memcpy(message.landing, &announced->header, kFrameHeaderBytes);
      message.frame = message.landing;
      message.bytes = kFrameHeaderBytes;
      moved = true;
      noteCame(from, peer);
      return {};
    }
  }
  if (!ahead) return {};
  if (moved || !from.ahead) from.ahead = Deadline::in(kLossGraceMs);
  return from.ahead->expired() ? hasLeftForLater(peer) : Status();
}

// It has announced this operation as another one than this rank is in.
bool Rounds::isElsewhere(int peer) const {
  if (!reaches(peer)) return false;
  for (size_t which = 0; which < SharedMemory::kAnnouncements; ++which) {
    const auto announced = shared_->announced(peer, which);
    if (announced && announced->header.sequence == current_ && announced->header.plan != plan_) return true;
  }
  return false;
}

void Rounds::noteCame(Awaited& from, int peer) {
  from.stage = Stage::kDone;
  --missing_;
  if (record_ != nullptr) record_->came(peer);
}

Status Rounds::check(int peer, uint64_t came) { return check(peer, came, leftGraceMs()); }

Status Rounds::check(int peer, uint64_t came, uint64_t leftMs) {
  if (state_.lanes.isDown(peer)) return whyDown(peer);
  if (state_.lanes.noticeOf(peer) == EnvelopeKind::kAbort) return gone(peer, EnvelopeKind::kAbort);
  if (watch_ == nullptr) return {};
  const PeerState now = watch_->stateOf(peer);
  if (now == PeerState::kHere) return {};
  Awaited& from = awaited(peer);
  if (!from.grace || (now == PeerState::kLeft && came != from.came)) {
    from.grace = Deadline::in(now == PeerState::kLeft ? leftMs : 0);
    from.came = came;
    return {};
  }
  return from.grace->expired() ? lose(peer) : Status();
}

// Its farewell, which comes behind all that a peer has sent, takes its lane down. Until then that may lie in its
// process, for abortTimeoutMs at most, and as long again in the buffers of hosts, on a slow link.
uint64_t Rounds::leftGraceMs() const {
  return std::max(kLossGraceMs, 2 * std::min(state_.setup.abortTimeoutMs, kMostLeftMs));
}

Status Rounds::lose(int peer) {
  state_.lanes.takeDown(peer, watch_ == nullptr
                                  ? gone(peer, EnvelopeKind::kAbort)
                                  : failBy(peer, sparsecollPeerFailed, "rank {}: {}", peer, watch_->reasonOf(peer)));
  return whyDown(peer);
}

bool Rounds::isLost(int peer) {
  if (watch_ == nullptr) return state_.lanes.noticeOf(peer) == EnvelopeKind::kAbort;
  const PeerState now = watch_->stateOf(peer);
  return now == PeerState::kLost || now == PeerState::kAborted;  // which may have been killed a moment later
}

Status Rounds::checkLost(bool moved, std::optional<Deadline>& since) {
  if (moved) {
    since.reset();
    return {};
  }
  // A look of its own for each peer: a look at all of them would make many of those that find nothing expensive.
  if (lost_ < 0 && asked_ != rank_ && isLost(asked_)) lost_ = asked_;
  asked_ = (asked_ + 1) % ranks_;
  if (lost_ < 0) return {};
  if (!since) since = Deadline::in(kLossGraceMs);
  return since->expired() ? lose(lost_) : Status();
}

// False: no slot is free yet.
Result<bool> Rounds::post(const Outgoing& message) {
  const size_t slots = slotUses_.size() - kOwnSlots;
  size_t free = 0;
  while (free < slots && slotUses_[(nextSlot_ + free) % slots] != 0) ++free;
  if (free == slots) return false;
  const size_t index = (nextSlot_ + free) % slots;
  nextSlot_ = index + 1;
  const uint64_t bytes = bytesOf(message);
  const auto inside = static_cast<uint32_t>(bytes <= state_.slotBytes - sizeof(Envelope) ? bytes : 0);
  if (inside == 0) state_.port.makeRoom(1 + Port::piecesOf(bytes));  // whoever gets the envelope waits for the frame
  std::memcpy(slot(index) + sizeof(Envelope), message.frame, inside);
  seal({EnvelopeKind::kFrame, round_, current_, plan_, bytes, inside, 0}, slot(index));
  if (inside == 0) state_.port.joinNext();
  SC_TRY(
      state_.port.send(message.peer, kEnvelopes, slot(index), sizeof(Envelope) + inside, current_, &slotUses_[index]));
  if (inside == 0) SC_TRY(state_.port.send(message.peer, kFrames, message.frame, bytes, current_));
  return true;
}

void Rounds::giveUp() {
  for (const Outgoing& message : out_)
    if (meets_ && reaches(message.peer)) shared_->withdraw(message.peer);
  for (const Incoming& message : in_) {
    Awaited& from = awaited(message.peer);
    if (from.frame.posted()) state_.port.abandon(from.frame);
    from.stage = Stage::kDone;
  }
  in_ = {};
  out_ = {};
}

Status Rounds::overdue(std::span<const int> missing, std::string_view what) const {
  for (const int peer : missing)
    if (state_.lanes.goesDown(peer)) return state_.lanes.whyDown(peer);
  Text<128> named;
  for (const int peer : missing) named.append("{}{}", named.empty() ? "" : ", ", peer);
  int blamed = missing.empty() ? -1 : missing.front();
  uint64_t most = kManyBeats - 1;
  for (int peer = 0; watch_ != nullptr && peer < ranks_; ++peer) {
    if (peer == rank_ || watch_->stateOf(peer) != PeerState::kHere) continue;
    const uint64_t missed = watch_->missedBeatsOf(peer);
    if (missed <= most) continue;
    most = missed;
    blamed = peer;
  }
  if (most < kManyBeats) return failBy(blamed, sparsecollTimeout, "{} rank(s) {}", what, named);
  return failBy(blamed, sparsecollTimeout, "{} rank(s) {}; rank {} gives no sign of life", what, named, blamed);
}

Status Rounds::timeout() const {
  if (sent_ < out_.size() && state_.lanes.goesDown(nextOut().peer)) return state_.lanes.whyDown(nextOut().peer);
  std::vector<int> missing;
  for (const Incoming& message : in_)
    if (awaited_[static_cast<size_t>(message.peer)].stage != Stage::kDone) missing.push_back(message.peer);
  if (!missing.empty()) return overdue(missing, "nothing came in time from");
  const int slow = sent_ < out_.size() ? nextOut().peer : -1;
  return failBy(slow, sparsecollTimeout, "rank {} takes no messages", slow);
}

Result<bool> Rounds::finishSends(uint64_t sequence, bool& moved) {
  SC_TRY(moved, work());
  const std::optional<int> slow = state_.port.sendingTo(sequence);
  if (!slow) return true;
  moved = state_.lanes.look(*slow, current_) || moved;
  if (!check(*slow, 0, kLossGraceMs).ok())
    state_.port.giveUp(*slow);  // what it needs of this rank it has, or never will
  return false;
}

void Rounds::refuse(const Operation& operation, const Failure& why) {
  const size_t index = slotUses_.size() - kOwnSlots + operation.sequence % 2;
  if (slotUses_[index] != 0) return;  // told already
  const Refusal refusal = refusalOf(why);
  std::memcpy(slot(index) + sizeof(Envelope), &refusal, sizeof refusal);
  seal({EnvelopeKind::kRefuse, 0, operation.sequence, 0, 0, sizeof refusal, 0}, slot(index));
  tell(index, sizeof(Envelope) + sizeof refusal, kEnvelopes, &slotUses_[index]);
}

void Rounds::farewell(bool aborted) {
  if (noticeSent_ || slots_.bytes() == 0) return;  // alone, or never opened
  noticeSent_ = true;
  const size_t index = slotUses_.size() - 1;
  seal({aborted ? EnvelopeKind::kAbort : EnvelopeKind::kLeave, 0, UINT64_MAX, 0, 0, 0, 0}, slot(index));
  tell(index, sizeof(Envelope), kNotices, &slotUses_[index]);
  // It may have to wait until the peer takes what is before it. Peers that watch this rank need not be waited for.
  tell(index, sizeof(Envelope), kEnvelopes, watch_ == nullptr ? &slotUses_[index] : nullptr);
}

void Rounds::tell(size_t index, uint64_t bytes, Tag tag, uint32_t* count) {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_ || hasEnded(peer)) continue;  // others may still listen, whatever is wrong with them
    const Status sent = state_.port.send(peer, tag, slot(index), bytes, current_, count);
    if (!sent.ok()) state_.lanes.takeDown(peer, sent);
  }
}

bool Rounds::hasEnded(int peer) {
  return state_.lanes.hasLeft(peer) || state_.lanes.noticeOf(peer) != EnvelopeKind::kFrame ||
         (watch_ != nullptr && watch_->stateOf(peer) == PeerState::kLost);
}

bool Rounds::telling() {
  if (!noticeSent_ || slotUses_.back() == 0) return false;
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_ && state_.port.isSending(peer, slotUses_.back()) && !hasEnded(peer)) return true;
  return false;
}

void Rounds::close() {
  giveUp();
  state_.lanes.close();
  state_.port.retire(std::move(slots_));
}

}  // namespace sparsecoll::engine
