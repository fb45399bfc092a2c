// Ranks of a group that make a group of their own: the part of Group that works when ranks are down.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "transports/threads_group.h"

namespace sparsecoll::threads {

namespace {

Status leftOut(int rank) { return failBy(rank, sparsecollPeerFailed, "the other ranks go on without this one"); }

}  // namespace

// Whether all have come; then what they make is made.
bool Group::settleGathering(Gathering& gathering) {
  if (gathering.group != nullptr) return true;
  for (size_t r = 0; r < members_.size(); ++r) {
    const bool dropped = gathering.dropsGone && members_[r].closed;
    if (gathering.wanted[r] && !gathering.here[r] && !dropped) return false;
  }
  const auto takes = [&](int rank) { return gathering.here[static_cast<size_t>(rank)]; };
  std::vector<int> members;
  std::ranges::copy_if(gathering.order, std::back_inserter(members), takes);
  gathering.group = std::make_shared<Group>(static_cast<int>(members.size()));
  gathering.members = std::move(members);  // all of it or, without memory, nothing
  return true;
}

void Group::close(int rank) {
  const std::lock_guard lock(mutex_);
  at(rank).closed = true;
  wakeAll();
}

Result<Gathering> Group::gather(int rank, const Gathering& call, uint64_t own, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto self = static_cast<size_t>(rank);
  // Ranks that mean each other differ in nothing but whom they leave out; two splits of one call have other ranks.
  auto mine = std::ranges::find_if(gatherings_, [&](const Gathering& one) {
    return one.tag == call.tag && (call.dropsGone || one.order == call.order);
  });
  if (mine == gatherings_.end()) {
    Gathering fresh = call;
    fresh.here.assign(members_.size(), false);
    fresh.own.assign(members_.size(), 0);
    gatherings_.push_back(std::move(fresh));
    mine = std::prev(gatherings_.end());
  }
  for (size_t r = 0; r < members_.size(); ++r) mine->wanted[r] = mine->wanted[r] && call.wanted[r];
  if (!mine->wanted[self] || mine->group != nullptr) return leftOut(rank);
  mine->here[self] = true;
  mine->own[self] = own;
  wakeWaiters();
  const auto lost = [&]() -> int {
    for (size_t r = 0; r < members_.size(); ++r)
      if (mine->wanted[r] && !mine->here[r] && members_[r].closed && !mine->dropsGone) return static_cast<int>(r);
    return -1;
  };
  // Ranks that split come from an operation in which others may have heard of an abort, and do not come. Whoever only
  // left the group has been through that operation.
  const auto failed = [&] { return !mine->dropsGone && (members_[self].down || abortedPeer(rank) >= 0); };
  bool met = false;
  try {
    met = waitForPeers(lock, rank, deadline,
                       [&] { return settleGathering(*mine) || lost() >= 0 || !mine->wanted[self] || failed(); });
  } catch (...) {  // without memory it is not here any more
    mine->here[self] = false;
    throw;
  }
  if (mine->group != nullptr) {
    wakeWaiters();
    if (++mine->taken < mine->members.size()) return Gathering(*mine);
    Gathering made = std::move(*mine);
    gatherings_.erase(mine);
    return made;
  }
  mine->here[self] = false;
  if (!mine->wanted[self]) return leftOut(rank);
  if (const int peer = lost(); met && peer >= 0)
    return failBy(peer, sparsecollPeerFailed, "rank {} destroyed its communicator", peer);
  if (met && failed()) return failureFor(rank);
  Text<128> missing;
  int first = -1;
  for (size_t r = 0; r < members_.size(); ++r) {
    if (!mine->wanted[r] || mine->here[r] || r == self) continue;
    if (first < 0) first = static_cast<int>(r);
    missing.append("{}{}", missing.empty() ? "" : ", ", r);
  }
  return failBy(first, sparsecollTimeout, "rank(s) {} have not called in time", missing);
}

}  // namespace sparsecoll::threads
