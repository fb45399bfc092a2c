// Dense sums between ranks that share memory.
#include "transports/engine/dense.h"

#include <algorithm>
#include <utility>

namespace sparsecoll::engine {

Status DenseSum::share(const std::shared_ptr<SharedMemory>& memory) {
  const uint64_t bytes = staging_.bytes();
  staging_ = Buffer();  // nothing has used it, and there is room for one of both
  SC_TRY(staging_, takeBuffer(memory, bytes, state_.setup.budget));
  shared_ = memory;
  return {};
}

// To those that share memory, who have consumed all that earlier sums left in the places for contributions.
void DenseSum::contributeAhead() {
  for (const int peer : members_) {
    Pair& with = pair(peer);
    if (!with.near) continue;
    for (with.sent = 0; with.sent < std::min<uint64_t>(with.segments, windows_); ++with.sent) copyContribution(peer);
    with.ahead = std::exchange(with.sent, 0);
    with.aheadOfPeer = std::min<uint64_t>(segmentsOf(rank_), windows_);
  }
}

// All that stands in this rank's memory for the peer.
bool DenseSum::hasTaken(int peer) const {
  const SharedMemory::Progress& own = shared_->own(peer);
  const SharedMemory::Progress& theirs = shared_->theirs(peer);
  return theirs.consumed.load(std::memory_order_acquire) == own.contributed.load(std::memory_order_relaxed) &&
         theirs.taken.load(std::memory_order_acquire) == own.summed.load(std::memory_order_relaxed);
}

Status DenseSum::serveNear(int peer, bool& moved) {
  Pair& with = pair(peer);
  SharedMemory::Progress& own = shared_->own(peer);
  const SharedMemory::Progress& theirs = shared_->theirs(peer);
  // Since the sum began; what is left out of it counts as done.
  const auto since = [](bool partOfIt, const std::atomic<uint64_t>& count, uint64_t before, uint64_t otherwise) {
    return partOfIt ? count.load(std::memory_order_acquire) - before : otherwise;
  };
  const uint64_t came =
      std::max(with.aheadOfPeer, since(sums(), theirs.contributed, with.consumedBefore, with.arrived));
  const uint64_t consumed = since(sums(), theirs.consumed, with.contributedBefore, with.sent);
  const uint64_t summed = since(gathers(), theirs.summed, with.takenBefore, with.sumsTaken);
  const uint64_t taken = since(gathers(), theirs.taken, with.summedBefore, summed_);
  const uint64_t mayCome = std::max(with.arrived, std::min(segmentsOf(rank_), summed_ + windows_));
  const uint64_t maySum = std::min(with.segments, with.sumsTaken + windows_);
  if (came < with.arrived || came > mayCome || consumed > with.sent || summed < with.sumsTaken || summed > maySum ||
      taken > summed_)
    return failBy(peer, sparsecollCorrupted, "rank {} counts segments of a dense sum that cannot be", peer);
  moved = moved || came != with.arrived;
  with.arrived = came;
  for (; with.sent < std::min(with.segments, consumed + windows_); moved = true) {
    copyContribution(peer);
    ++with.sent;
    own.contributed.store(with.contributedBefore + with.sent, std::memory_order_release);
  }
  for (; with.sumsTaken < summed; moved = true) {
    takeSum(shared_->of(peer) + sumOffset(with.sumsTaken), segmentOf(peer, with.sumsTaken));
    ++with.sumsTaken;
    own.taken.store(with.takenBefore + with.sumsTaken, std::memory_order_release);
  }
  return {};
}

// Members have taken the sums of earlier operations: they have met in this one since. Others might be behind.
bool DenseSum::isSettled() {
  for (int peer = 0; peer < ranks_ && !settled_; ++peer)
    if (holdsUp(peer)) return false;
  return settled_ = true;
}

bool DenseSum::holdsUp(int peer) const {
  return !settled_ && peer != rank_ && !pairs_[static_cast<size_t>(peer)].takesPart && rounds_.reaches(peer) &&
         !hasTaken(peer);
}

// Nobody needs what stands where the next sum goes.
bool DenseSum::mayOverwriteSum() const {
  if (sumSending_[summed_ % windows_] != 0) return false;
  return std::ranges::none_of(members_, [&](int member) { return readsSum(member); });
}

// An older sum, which stands where the next one goes.
bool DenseSum::readsSum(int member) const {
  const Pair& with = pairs_[static_cast<size_t>(member)];
  if (!with.near) return false;
  return summed_ >= shared_->theirs(member).taken.load(std::memory_order_acquire) - with.summedBefore + windows_;
}

}  // namespace sparsecoll::engine
