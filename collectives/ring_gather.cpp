#include "collectives/ring_gather.h"

#include <algorithm>

namespace sparsecoll {

Result<RingGather> RingGather::make(const CollectiveSetup& setup, std::vector<int> ring, uint32_t position,
                                    const std::function<uint64_t(RingSpan)>& roomOf, FrameSet& frames) {
  RingGather gather;
  gather.kernels_ = setup.kernels;
  gather.type_ = setup.accumulateType;
  gather.positions_ = static_cast<uint32_t>(ring.size());
  gather.position_ = position;
  const auto layoutOf = [&](RingSpan stretch) {
    return FrameLayout{roomOf(stretch), 4, static_cast<uint32_t>(elementBytes(setup.accumulateType))};
  };
  const auto after = [&](uint32_t steps) { return (position + steps) % gather.positions_; };
  for (uint32_t gap = 1; gap < gather.positions_; gap *= 2) {
    Round round;
    round.sent = {position, std::min(gap, gather.positions_ - gap)};
    const FrameLayout received = layoutOf({after(gap), round.sent.size});
    SC_TRY(round.peers, PeerRound::make(setup, ring[after(gather.positions_ - gap)], layoutOf(round.sent),
                                        ring[after(gap)], received));
    if (round.sent.size > 1) round.frame = frames.add(layoutOf(round.sent));
    gather.rounds_.push_back(std::move(round));
  }
  gather.sources_.reserve(gather.rounds_.size() + 1);
  gather.parts_.reserve(2 * (gather.rounds_.size() + 1));
  return gather;
}

Status RingGather::run(const CollectiveStep& step, Relay& relay, const FrameSet& frames, std::byte* own,
                       const uint64_t* bounds, const List& to) {
  sources_.assign(1, listOf(own));
  for (Round& round : rounds_) {
    std::byte* frame = own;
    if (round.sent.size > 1) {
      frame = frames.at(*step.operation, round.frame);
      SC_TRY(join(step, round.sent, bounds, frames.list(*step.operation, round.frame)));
    }
    SC_TRY(relay.exchange(step, round.peers, frame));
    sources_.push_back(listOf(round.peers.frame()));
  }
  return join(step, {position_, positions_}, bounds, to);
}

// The sources hold ever later positions in the ring's order; those past the end of the vector come first.
Status RingGather::join(const CollectiveStep& step, RingSpan stretch, const uint64_t* bounds, const List& to) {
  const uint32_t end = stretch.first + stretch.size;
  parts_.clear();
  if (end > positions_) addParts(bounds, bounds + (end - positions_));
  addParts(bounds + stretch.first, bounds + std::min(end, positions_));
  return kernels_->concatenate(parts_, type_, to, step.stream);
}

void RingGather::addParts(const uint64_t* low, const uint64_t* high) {
  for (const ListView& source : sources_) {
    ListPart part{source};
    part.lowAt = low;
    part.highAt = high;
    parts_.push_back(part);
  }
}

}  // namespace sparsecoll
