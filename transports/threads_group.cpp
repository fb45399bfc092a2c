#include "transports/threads_group.h"

#include <algorithm>
#include <utility>

#include "transports/common.h"

namespace sparsecoll::threads {

Result<bool> Group::begin(int rank, const Operation& operation, Mode mode) {
  std::unique_lock lock(mutex_);
  at(rank).begun = operation.sequence;
  const uint64_t needed = operation.sequence > 2 ? operation.sequence - 2 : 0;
  // An operation needs every rank, so none begins without one of them.
  const bool done = waitForPeers(lock, rank, operation.deadline, [&] { return anyDown() || allCompleted(needed); });
  if (anyDown()) return failureFor(rank);
  if (!done) return fail(sparsecollTimeout, "a rank has not ended operation {} in time", needed);
  // Not before: until now a peer may still look at what was there two operations ago.
  at(rank).modes[operation.sequence % 2] = {operation.sequence, mode, operation.stream.handle};
  if (mode == Mode::kCaptured) flaggedFrom_ = std::min(flaggedFrom_, operation.sequence);
  if (operation.sequence < flaggedFrom_) return false;
  SC_TRY(meetInModes(lock, rank, operation, mode));
  return mode != Mode::kOnHost;
}

// What is captured runs whenever the caller likes, so streams wait for flags only in operations that all ranks capture,
// or all run: else a flag would be lowered that nobody raises again.
Status Group::meetInModes(std::unique_lock<std::mutex>& lock, int rank, const Operation& operation, Mode mode) {
  wakeWaiters();
  const bool done = waitForPeers(lock, rank, operation.deadline, [&] {
    return anyDown() || isRefused(operation) || inOtherMode(rank, operation, mode) >= 0 || allBegun(operation.sequence);
  });
  if (anyDown()) return failureFor(rank);
  if (isRefused(operation)) return Status(refusals_[operation.sequence % 2].why);
  if (const int peer = inOtherMode(rank, operation, mode); peer >= 0)
    return disagree(peer, "capture", "the operation is captured on some ranks, and not on others");
  if (!done) return fail(sparsecollTimeout, "a rank has not begun operation {} in time", operation.sequence);
  if (mode == Mode::kOnHost) return {};
  const size_t parity = operation.sequence % 2;
  for (const Member& one : members_)
    for (const Member& other : members_)
      if (&one != &other && one.modes[parity].stream == other.modes[parity].stream)
        return fail(sparsecollInvalidUsage, "ranks share a stream: once steps were captured, each needs its own");
  return {};
}

bool Group::allBegun(uint64_t sequence) const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.modes[sequence % 2].sequence >= sequence; });
}

int Group::inOtherMode(int rank, const Operation& operation, Mode mode) {
  for (int peer = 0; peer < ranks(); ++peer) {
    const Begun& begun = at(peer).modes[operation.sequence % 2];
    if (peer != rank && begun.sequence == operation.sequence && begun.mode != mode) return peer;
  }
  return -1;
}

Status Group::post(int rank, const Operation& operation, std::span<const Outgoing> out, std::span<const uint64_t> bytes,
                   const std::shared_ptr<const Marker>& written, Heeds heeds) {
  std::unique_lock lock(mutex_);
  Member& me = at(rank);
  const uint64_t ticket = ticketOf(operation);
  for (size_t m = 0; m < out.size(); ++m) {
    const Outgoing& message = out[m];
    Member& peer = at(message.peer);
    Mail& mail = peer.inbox[static_cast<size_t>(rank)];
    const auto refused = [&] { return isRefusedBy(message.peer, operation, heeds); };
    const bool free =
        waitForPeers(lock, rank, operation.deadline, [&] { return !mail.full || me.down || peer.down || refused(); });
    if (me.down) return failureFor(rank);
    if (peer.down) return peerFailed(rank, message.peer);
    if (mail.full && refused()) return Status(refusals_[operation.sequence % 2].why);
    if (!free) {
      me.blamed = message.peer;
      return failBy(message.peer, sparsecollTimeout, "rank {} takes no messages", message.peer);
    }
    if (isBehind(mail, ticket, operation.plan, peer)) {
      peer.behind = rank;
      peer.wakeUp.wake();
    }
    if (mail.awaited && ticket < peer.ticket) continue;  // of a round that the peer has given up
    mail.ticket = ticket;
    mail.plan = operation.plan;
    mail.frame = message.frame;
    mail.bytes = bytes[m];
    mail.written = written;
    mail.full = true;
    if (!mail.awaited) continue;
    peer.ahead = peer.ahead || ticket > peer.ticket;
    mail.awaited = false;
    if (peer.record != nullptr) peer.record->came(rank);
    if (--peer.missing == 0 || peer.ahead) peer.wakeUp.wake();
  }
  return {};
}

Status Group::collect(int rank, const Operation& operation, std::span<Incoming> in,
                      std::span<std::shared_ptr<const Marker>> written, Heeds heeds) {
  std::unique_lock lock(mutex_);
  Member& me = at(rank);
  me.ticket = ticketOf(operation);
  me.plan = operation.plan;
  me.heeds = heeds;
  me.missing = 0;
  me.behind = -1;
  me.ahead = false;
  for (const Incoming& message : in) me.inbox[static_cast<size_t>(message.peer)].awaited = true;
  for (int peer = 0; peer < ranks(); ++peer) {
    const Mail& mail = me.inbox[static_cast<size_t>(peer)];
    if (mail.full && isBehind(mail, mail.ticket, mail.plan, me)) me.behind = peer;
  }
  for (const Incoming& message : in) {
    Mail& mail = me.inbox[static_cast<size_t>(message.peer)];
    if (mail.full && mail.ticket < me.ticket) {  // of a round that this rank has given up
      mail.full = false;
      if (at(message.peer).waitsForPeers) at(message.peer).wakeUp.wake();
    }
    me.ahead = me.ahead || (mail.full && mail.ticket > me.ticket);
    mail.awaited = !mail.full;
    if (mail.awaited) ++me.missing;
    if (mail.full && operation.record != nullptr) operation.record->came(message.peer);
  }
  me.record = operation.record;
  // Once a rank has aborted the others have a moment left: they may miss nothing from it, and only they themselves are
  // not through yet.
  const auto over = [&] { return me.missing == 0 || endingOf(rank, in, operation).why != Ending::kNone; };
  const bool told = me.wakeUp.wait(lock, operation.deadline, [&] { return over() || abortedPeer(rank) >= 0; });
  if (told && !over()) me.wakeUp.wait(lock, Deadline::earlier(operation.deadline, Deadline::in(kLossGraceMs)), over);
  const Status status = finishCollect(rank, in, operation);
  me.record = nullptr;
  for (const Incoming& message : in) me.inbox[static_cast<size_t>(message.peer)].awaited = false;
  if (!status.ok()) return Status(status.failure());
  for (size_t m = 0; m < in.size(); ++m) written[m] = std::move(me.inbox[static_cast<size_t>(in[m].peer)].written);
  for (const Incoming& message : in)
    if (at(message.peer).waitsForPeers) at(message.peer).wakeUp.wake();
  return {};
}

int Group::abortedPeer(int rank) const {
  if (!anyDown()) return -1;
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank && members_[static_cast<size_t>(peer)].aborted) return peer;
  return -1;
}

bool Group::isRefusedBy(int peer, const Operation& operation, Heeds heeds) const {
  if (heeds == Heeds::kAll) return isRefused(operation);
  return heeds == Heeds::kSenders && hasRefused(peer, operation);
}

// Whether a message with this ticket shows the receiver that its sender is in another operation. Whoever heeds senders
// alone leaves what others have sent where it is, for a later round that heeds all.
bool Group::isBehind(const Mail& mail, uint64_t ticket, uint64_t plan, const Member& receiver) {
  if (sequenceOf(ticket) != sequenceOf(receiver.ticket)) return false;
  // Whose message is awaited is compared once it is read, which tells more.
  if (ticket >= receiver.ticket && (mail.awaited || plan == receiver.plan)) return false;
  return receiver.heeds == Heeds::kAll || (receiver.heeds == Heeds::kSenders && mail.awaited);
}

// A rank that has gone matters only to those who miss something from it: it may have finished.
Group::Ending Group::endingOf(int rank, std::span<const Incoming> wanted, const Operation& operation) const {
  const Member& me = members_[static_cast<size_t>(rank)];
  const auto mailOf = [&](const Incoming& message) -> const Mail& {
    return me.inbox[static_cast<size_t>(message.peer)];
  };
  if (me.down) return {Ending::kOwn, rank};
  for (const Incoming& message : wanted)
    if (me.missing != 0 && isRefusedBy(message.peer, operation, me.heeds)) return {Ending::kRefused, message.peer};
  if (me.behind >= 0) return {Ending::kBehind, me.behind};
  for (const Incoming& message : wanted)
    if (me.ahead && mailOf(message).full && mailOf(message).ticket > me.ticket) return {Ending::kAhead, message.peer};
  for (const Incoming& message : wanted)
    if (anyDown() && mailOf(message).awaited && members_[static_cast<size_t>(message.peer)].down)
      return {Ending::kDown, message.peer};
  return {};
}

// The wait is over: takes the messages, or says why not.
Status Group::finishCollect(int rank, std::span<Incoming> in, const Operation& operation) {
  const Member& me = at(rank);
  const Ending ending = endingOf(rank, in, operation);
  switch (ending.why) {
    case Ending::kOwn:
      return fail(sparsecollAborted, "the communicator was aborted");
    case Ending::kRefused:
      return Status(refusals_[operation.sequence % 2].why);
    case Ending::kBehind:
      return disagree(ending.peer, "order", "rank {} is in another operation, with other rounds", ending.peer);
    case Ending::kAhead:
      return disagree(ending.peer, "order", "rank {} has left the operation for a later one", ending.peer);
    case Ending::kDown:
      return peerFailed(rank, ending.peer);
    case Ending::kNone:
      break;
  }
  if (const int peer = abortedPeer(rank); me.missing != 0 && peer >= 0) return peerFailed(rank, peer);
  if (me.missing != 0) return timeout(rank, in, me.ticket);
  for (Incoming& message : in) {
    Mail& mail = at(rank).inbox[static_cast<size_t>(message.peer)];
    message.frame = mail.frame;
    message.bytes = mail.bytes;
    mail.full = false;
  }
  return {};
}

void Group::refuse(int rank, const Operation& operation, const Failure& why) {
  const std::lock_guard lock(mutex_);
  const bool first = !isRefused(operation);
  at(rank).refused[operation.sequence % 2] = operation.sequence;
  if (!first) return wakeAll();
  Refusal& refusal = refusals_[operation.sequence % 2];
  refusal = {operation.sequence, why};
  refusal.why.peer = rank;
  wakeAll();
}

void Group::end(int rank, const Operation& operation) {
  std::list<Retired> freed;
  const std::lock_guard lock(mutex_);
  Member& me = at(rank);
  me.completed = std::max(me.completed, operation.sequence);
  for (Mail& mail : me.inbox)  // what a step that was given up has left behind
    if (mail.full && sequenceOf(mail.ticket) <= operation.sequence) mail.full = false;
  freed = takeRetired();
  wakeWaiters();
}

void Group::takeDown(int rank, Down how) {
  const bool aborts = how == Down::kAborted;
  std::list<Retired> freed;  // last, once nobody is held up any more
  int blamed = rank;
  {
    const std::lock_guard lock(mutex_);
    if (at(rank).blamed >= 0) blamed = at(rank).blamed;
    at(rank).down = true;
    at(rank).left = at(rank).left || (!aborts && !at(rank).aborted);
    at(rank).aborted = at(rank).aborted || (aborts && !at(rank).left);
    at(rank).gone = at(rank).gone || how == Down::kGone;
    at(rank).closed = at(rank).closed || how == Down::kGone;
    anyDown_.store(true, std::memory_order_release);
    if (!aborts) freed = takeRetired();
    wakeAll();
  }
  // Nobody raises what others wait for any more; or nothing is left to do that this rank's own streams could wait for.
  endWaits(rank, sparsecollAborted, rank);
  for (int other = 0; aborts && other < ranks(); ++other)
    if (other != rank) endWaits(other, sparsecollPeerFailed, blamed != other ? blamed : rank);
}

// Once: from then on no writer undoes it. In this order of the state and the flags nobody who was let pass finds that
// all is well.
void Group::endWaits(int rank, sparsecollResult_t why, int peer) {
  {
    const std::lock_guard lock(mutex_);
    if (flaggedFrom_ == UINT64_MAX || std::exchange(at(rank).passes, true)) return;
  }
  at(rank).flags->endWaits(why, peer);
}

Status Group::replaysSound(int rank, bool inTime) {
  int gone = -1;
  {
    const std::lock_guard lock(mutex_);
    if (flaggedFrom_ == UINT64_MAX) return {};
    if (at(rank).aborted) return fail(sparsecollAborted, "the communicator was aborted");
    for (int peer = 0; peer < ranks(); ++peer) {
      if (at(peer).aborted) return peerFailed(rank, peer);
      if (at(peer).left) gone = peer;
    }
  }
  // Whoever left may have done all that it had to. If not, it has had time enough.
  if (inTime || gone < 0) return {};
  endWaits(rank, sparsecollPeerFailed, gone);
  return peerFailed(rank, gone);
}

bool Group::anyDown(std::span<const int> members) {
  if (!anyDown()) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(members, [&](int member) { return at(member).down; });
}

bool Group::enter(std::span<const int> members) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(members, [&](int member) { return at(member).down; })) return false;
  ++accessing_;
  return true;
}

void Group::leave() {
  const std::lock_guard lock(mutex_);
  if (--accessing_ == 0) wakeWaiters();
}

Status Group::whoIsDown(int rank, std::span<const int> members) {
  const std::lock_guard lock(mutex_);
  return failureFor(rank, members);
}

void Group::awaitReaders(int rank) {
  std::unique_lock lock(mutex_);
  waitForPeers(lock, rank, Deadline::in(SPARSECOLL_NO_TIMEOUT), [&] { return accessing_ == 0; });
}

void Group::expectRetirement() {
  const std::lock_guard lock(mutex_);
  windows_.emplace_back();
}

void Group::retire(int rank, Buffer memory) noexcept {
  std::list<Retired> freed;
  const std::lock_guard lock(mutex_);
  windows_.front() = {std::move(memory), at(rank).begun};
  retired_.splice(retired_.end(), windows_, windows_.begin());
  freed = takeRetired();
}

bool Group::allCompleted(uint64_t sequence) const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.gone || member.completed >= sequence; });
}

int Group::culpritOf(int rank, int peer) const {
  const int blamed = members_[static_cast<size_t>(peer)].blamed;
  return blamed >= 0 && blamed != rank ? blamed : peer;
}

// The peer is down. It may have given up because of another one, which then is the one to be named.
Status Group::peerFailed(int rank, int peer) {
  const int culprit = culpritOf(rank, peer);
  at(rank).blamed = culprit;
  if (culprit == peer) return failBy(peer, sparsecollPeerFailed, "rank {} aborted or destroyed its communicator", peer);
  return failBy(culprit, sparsecollPeerFailed, "rank {} gave up because of rank {}", peer, culprit);
}

Status Group::failureFor(int rank, std::span<const int> members) {
  if (at(rank).down) return fail(sparsecollAborted, "the communicator was aborted");
  for (const int member : members)
    if (at(member).down) return peerFailed(rank, member);
  if (const int peer = abortedPeer(rank); peer >= 0) return peerFailed(rank, peer);
  for (int peer = 0; peer < ranks(); ++peer)
    if (at(peer).down) return peerFailed(rank, peer);
  return fail(sparsecollInternalError, "a group without a failed rank reports one");
}

Status Group::timeout(int rank, std::span<const Incoming> wanted, uint64_t ticket) {
  Text<128> missing;
  int first = -1;
  for (const Incoming& message : wanted) {
    const Mail& mail = at(rank).inbox[static_cast<size_t>(message.peer)];
    if (mail.full && mail.ticket == ticket) continue;
    if (first < 0) first = message.peer;
    missing.append("{}{}", missing.empty() ? "" : ", ", message.peer);
  }
  at(rank).blamed = first;
  return failBy(first, sparsecollTimeout, "nothing came in time from rank(s) {}", missing);
}

void Group::wakeWaiters() {
  for (Member& member : members_)
    if (member.waitsForPeers) member.wakeUp.wake();
}

void Group::wakeAll() {
  for (Member& member : members_) member.wakeUp.wake();
}

std::list<Group::Retired> Group::takeRetired() noexcept {
  std::list<Retired> taken;
  for (auto next = retired_.begin(); next != retired_.end();) {
    const auto one = next++;
    if (allCompleted(one->sequence)) taken.splice(taken.end(), retired_, one);
  }
  return taken;
}

}  // namespace sparsecoll::threads
