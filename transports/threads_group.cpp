#include "transports/threads_group.h"

#include <algorithm>

namespace sparsecoll::threads {

namespace {

Status peerFailed(int peer) {
  return Status(
      Failure{sparsecollPeerFailed, peer, {}, fmt::format("rank {} aborted or destroyed its communicator", peer)});
}

}  // namespace

template <class Done>
bool Group::waitForPeers(std::unique_lock<std::mutex>& lock, int rank, const Deadline& deadline, Done done) {
  Member& me = at(rank);
  me.waitsForPeers = true;
  const bool met = me.wakeUp.wait(lock, deadline, done);
  me.waitsForPeers = false;
  return met;
}

Status Group::begin(int rank, const Operation& operation) {
  std::unique_lock lock(mutex_);
  newest_ = std::max(newest_, operation.sequence);
  Member& me = at(rank);
  const uint64_t needed = operation.sequence > 2 ? operation.sequence - 2 : 0;
  const bool done =
      waitForPeers(lock, rank, operation.deadline, [&] { return anyDown() || me.down || allCompleted(needed); });
  if (me.down || anyDown()) return failureFor(rank, {}, 0);
  if (!done) return fail(sparsecollTimeout, "a rank has not ended operation {} in time", needed);
  return {};
}

Status Group::post(int rank, const Operation& operation, std::span<const Outgoing> out) {
  std::unique_lock lock(mutex_);
  Member& me = at(rank);
  for (const Outgoing& message : out) {
    Member& peer = at(message.peer);
    Mail& mail = peer.inbox[static_cast<size_t>(rank)];
    const bool free = waitForPeers(lock, rank, operation.deadline, [&] { return !mail.full || me.down || peer.down; });
    if (me.down || peer.down) return failureFor(rank, {}, 0);
    if (!free) {
      return Status(
          Failure{sparsecollTimeout, message.peer, {}, fmt::format("rank {} takes no messages", message.peer)});
    }
    mail.ticket = ticketOf(operation);
    mail.frame = message.frame;
    mail.bytes = message.layout.usedBytes(readHeader(message.frame));
    mail.full = true;
    if (mail.awaited) {
      mail.awaited = false;
      if (--peer.missing == 0) peer.wakeUp.wake();
    }
  }
  return {};
}

Status Group::collect(int rank, const Operation& operation, std::span<Incoming> in) {
  std::unique_lock lock(mutex_);
  Member& me = at(rank);
  const uint64_t ticket = ticketOf(operation);
  me.missing = 0;
  for (const Incoming& message : in) {
    Mail& mail = me.inbox[static_cast<size_t>(message.peer)];
    if (mail.full && mail.ticket < ticket) {  // left over from an operation this rank gave up
      mail.full = false;
      if (at(message.peer).waitsForPeers) at(message.peer).wakeUp.wake();
    }
    mail.awaited = !mail.full;
    if (mail.awaited) ++me.missing;
  }
  me.wakeUp.wait(lock, operation.deadline, [&] { return me.missing == 0 || me.down || anyDown(); });
  const bool complete = me.missing == 0;
  me.missing = 0;
  for (const Incoming& message : in) me.inbox[static_cast<size_t>(message.peer)].awaited = false;
  if (me.down || (!complete && anyDown())) return failureFor(rank, in, ticket);
  if (!complete) return timeout(rank, in, ticket);

  for (Incoming& message : in) {
    Mail& mail = me.inbox[static_cast<size_t>(message.peer)];
    if (mail.ticket != ticket) {
      return Status(
          Failure{sparsecollMismatch, message.peer, "order",
                  fmt::format("rank {} has left operation {} for another", message.peer, operation.sequence)});
    }
    message.frame = mail.frame;
    message.bytes = mail.bytes;
    mail.full = false;
    if (at(message.peer).waitsForPeers) at(message.peer).wakeUp.wake();
  }
  return {};
}

void Group::end(int rank, const Operation& operation) {
  std::vector<Buffer> freed;  // memory is given back outside the lock
  const std::lock_guard lock(mutex_);
  at(rank).completed = std::max(at(rank).completed, operation.sequence);
  freeRetired(freed);
  wakeWaiters();
}

void Group::takeDown(int rank, bool gone) {
  std::vector<Buffer> freed;
  const std::lock_guard lock(mutex_);
  at(rank).down = true;
  at(rank).gone = at(rank).gone || gone;
  anyDown_.store(true, std::memory_order_release);
  freeRetired(freed);
  wakeAll();
}

bool Group::enter() {
  const std::lock_guard lock(mutex_);
  if (anyDown()) return false;
  ++accessing_;
  return true;
}

void Group::leave() {
  const std::lock_guard lock(mutex_);
  if (--accessing_ == 0) wakeWaiters();
}

void Group::settle(int rank, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  waitForPeers(lock, rank, deadline, [&] { return accessing_ == 0; });
}

void Group::retire(Buffer memory) {
  std::vector<Buffer> freed;
  const std::lock_guard lock(mutex_);
  retired_.push_back({std::move(memory), newest_});
  freeRetired(freed);
}

bool Group::allCompleted(uint64_t sequence) const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.gone || member.completed >= sequence; });
}

Status Group::failureFor(int rank, std::span<const Incoming> wanted, uint64_t ticket) {
  if (at(rank).down) return fail(sparsecollAborted, "the communicator was aborted");
  for (const Incoming& message : wanted) {
    const Mail& mail = at(rank).inbox[static_cast<size_t>(message.peer)];
    if (at(message.peer).down && !(mail.full && mail.ticket == ticket)) return peerFailed(message.peer);
  }
  for (int peer = 0; peer < ranks(); ++peer)
    if (at(peer).down) return peerFailed(peer);
  return fail(sparsecollInternalError, "a group without a failed rank reports one");
}

Status Group::timeout(int rank, std::span<const Incoming> wanted, uint64_t ticket) {
  std::string missing;
  int first = -1;
  for (const Incoming& message : wanted) {
    const Mail& mail = at(rank).inbox[static_cast<size_t>(message.peer)];
    if (mail.full && mail.ticket == ticket) continue;
    if (first < 0) first = message.peer;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", message.peer);
  }
  return Status(Failure{sparsecollTimeout, first, {}, fmt::format("nothing came in time from rank(s) {}", missing)});
}

void Group::wakeWaiters() {
  for (Member& member : members_)
    if (member.waitsForPeers) member.wakeUp.wake();
}

void Group::wakeAll() {
  for (Member& member : members_) member.wakeUp.wake();
}

void Group::freeRetired(std::vector<Buffer>& freed) {
  for (size_t i = 0; i < retired_.size();) {
    if (!allCompleted(retired_[i].sequence)) {
      ++i;
      continue;
    }
    freed.push_back(std::move(retired_[i].memory));
    retired_[i] = std::move(retired_.back());
    retired_.pop_back();
  }
}

}  // namespace sparsecoll::threads
