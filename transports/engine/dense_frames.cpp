// What of dense sums travels in frames.
#include "transports/engine/dense.h"

#include <algorithm>
#include <cstring>

namespace sparsecoll::engine {

void sealRun(FrameHeader header, const FrameLayout& layout, std::byte* frame) {
  header.count = static_cast<uint32_t>(layout.denseCount);
  header.flags |= kFrameDense;
  std::memcpy(frame, &header, sizeof header);
  header.checksum = frameChecksum(frame, layout.usedBytes(header), true);
  std::memcpy(frame + kFrameChecksumOffset, &header.checksum, sizeof header.checksum);
}

Result<FrameHeader> openRun(const Incoming& message, const FrameLayout& layout, const FrameExpectation& expected) {
  auto checked = checkFrame(message.frame, message.bytes, layout, expected, true);
  if (checked.ok() && (*checked).count != layout.denseCount)
    checked = fail(sparsecollCorrupted, "a frame has no part of a dense sum");
  if (checked.ok()) return checked;
  Failure failure = checked.takeStatus().failure();
  failure.peer = message.peer;
  return Status(failure);
}

// What of a part the frames hold by which ranks meet.
Range DenseSum::beginningOf(int owner) const {
  const Range part = partOf(owner);
  return {part.begin, part.begin + std::min(part.length(), mostBegun_)};
}

// Of the beginning of an owner's part: a contribution to it, or its sum.
FrameLayout DenseSum::layoutOf(int owner) const {
  FrameLayout layout;
  layout.valueBytes = static_cast<uint32_t>(elementBytes(args_.type));
  layout.denseCount = beginningOf(owner).length();
  return layout;
}

FrameLayout DenseSum::layoutTo(int peer) const {
  if (mostBegun_ == 0 || pairs_[static_cast<size_t>(peer)].near) return {};
  return layoutOf(sums() ? peer : rank_);
}

FrameLayout DenseSum::layoutFrom(int peer) const {
  if (mostBegun_ == 0 || pairs_[static_cast<size_t>(peer)].near) return {};
  return layoutOf(sums() ? rank_ : peer);
}

// With what the peer gets as the ranks meet: of this rank's contribution, or of its part of what is only gathered.
void DenseSum::fillFrame(int peer) {
  const Range beginning = beginningOf(sums() ? peer : rank_);
  if (beginning.length() == 0) return;
  const std::byte* const from = sums() ? inAt(beginning.begin) : outAt(beginning.begin);
  std::memcpy(frameTo(peer) + kFrameHeaderBytes, from, bytesOf(beginning));
}

// What came as the ranks met: the beginning of a contribution to this rank's part, or a part of what is only gathered.
void DenseSum::takeFrame(int peer) {
  Pair& with = pair(peer);
  const std::byte* const came = frameFrom(peer) + kFrameHeaderBytes;
  if (sums()) {
    if (isInFrames(peer)) with.sent = with.segments;
    if (isInFrames(rank_))
      with.posted = with.arrived = segmentsOf(rank_);
    else
      std::memcpy(place(peer, kContribution, 0), came, begunOf(rank_));
  }
  if (!small_) return;
  with.sumsPosted = with.segments;
  if (sums()) return;
  takeSum(came, partOf(peer));
  with.sumsTaken = with.segments;
}

// This rank's part is summed: it goes to all whom it shares no memory with, and they send theirs.
void DenseSum::startSums() {
  sumsOut_.clear();
  sumsIn_.clear();
  std::byte* const frame = frameTo(2 * ranks_);
  const FrameLayout layout = layoutOf(rank_);
  if (layout.denseCount != 0) {
    std::memcpy(frame + kFrameHeaderBytes, sumPlace(0), layout.denseCount * layout.valueBytes);
    sealRun({operation_->sequence, operation_->plan, 0, 0, 0, 0, 0}, layout, frame);
  }
  for (const int peer : members_) {
    if (peer == rank_ || pair(peer).near) continue;
    if (layout.denseCount != 0) sumsOut_.push_back({peer, frame, layout});
    const FrameLayout theirs = layoutOf(peer);
    if (theirs.denseCount != 0) sumsIn_.push_back({peer, frameFrom(peer), theirs.capacityBytes(), nullptr, 0});
  }
  rounds_.start(*operation_, sumsOut_, sumsIn_);
  ++operation_->round;
  for (const int member : members_)
    if (operation_->record != nullptr && pair(member).near) operation_->record->await(member);
  round_ = Round::kUnderWay;
}

// Sums that have come in frames.
Status DenseSum::takeFrames(bool& moved) {
  for (const Incoming& message : sumsIn_) {
    Pair& with = pair(message.peer);
    if (with.sumsTaken == with.segments || !rounds_.has(message.peer)) continue;
    SC_TRY(openRun(message, layoutOf(message.peer), operation_->identity()));
    takeSum(message.frame + kFrameHeaderBytes, partOf(message.peer));
    with.sumsTaken = with.segments;
    moved = true;
  }
  return {};
}

}  // namespace sparsecoll::engine
