#include "transports/engine/lanes.h"

#include <new>
#include <utility>

namespace sparsecoll::engine {

// What is read and dropped.
class Lanes::Waste final : public MemorySource {
 public:
  Result<void*> allocate(uint64_t) override { return fail(sparsecollInternalError, "waste is not allocated here"); }
  void release(void* data, uint64_t) noexcept override { delete[] static_cast<std::byte*>(data); }
};

Lanes::Lanes(Port& port, int rank, int ranks, uint64_t slotBytes, size_t places)
    : port_(port),
      rank_(rank),
      slotBytes_(slotBytes),
      places_(places),
      lanes_(static_cast<size_t>(ranks)),
      waste_(std::make_shared<Waste>()) {}

Status Lanes::open(Buffer slots) {
  port_.expectRetirement();
  slots_ = std::move(slots);
  for (int peer = 0; peer < static_cast<int>(lanes_.size()); ++peer) {
    if (peer == rank_) continue;
    for (size_t which = 0; which < places_; ++which) {
      std::byte* const slot = slots_.as<>() + (which * lanes_.size() + static_cast<size_t>(peer)) * slotBytes_;
      at(peer).slots[which] = slot;
      SC_TRY(port_.receive(at(peer).arrivals[which], peer, kEnvelopes, slot, slotBytes_));
    }
    SC_TRY(port_.receive(at(peer).notice, peer, kNotices, noticeSlot(peer), kSlotBytes));
  }
  return {};
}

std::byte* Lanes::noticeSlot(int peer) const {
  return slots_.as<>() + places_ * lanes_.size() * slotBytes_ + static_cast<uint64_t>(peer) * kSlotBytes;
}

EnvelopeKind Lanes::noticeOf(int peer) {
  Lane& lane = at(peer);
  if (!lane.notice.posted() || port_.test(lane.notice) != Outcome::kDone) return lane.noticed;
  auto read = readEnvelope(noticeSlot(peer), lane.notice.bytes());
  if (read.ok()) lane.noticed = read->kind;
  return lane.noticed;
}

void Lanes::post(int peer) {
  Lane& lane = at(peer);
  const size_t last = std::exchange(lane.next, (lane.next + 1) % places_);
  if (isDown(peer)) return;
  const Status posted = port_.receive(lane.arrivals[last], peer, kEnvelopes, lane.slots[last], slotBytes_);
  if (!posted.ok()) takeDown(peer, posted);
}

void Lanes::takeDown(int peer, const Status& why, uint64_t afterMs) {
  Lane& lane = at(peer);
  const Deadline until = Deadline::in(afterMs);
  lane.until = lane.down ? Deadline::earlier(lane.until, until) : until;
  if (std::exchange(lane.down, true)) return;
  lane.why = why.failure();
  lane.why.peer = peer;
}

void Lanes::advance(int peer) {
  at(peer).full = false;
  post(peer);
}

bool Lanes::look(int peer, uint64_t current) {
  Lane& lane = at(peer);
  bool moved = false;
  if (!lane.full && lane.arrivals[lane.next].posted()) moved = takeEnvelope(peer);
  if (lane.full && !lane.dropping && lane.envelope.sequence < current) {
    drop(peer);
    moved = true;
  }
  if (!lane.dropping) return moved;
  const Outcome outcome = port_.test(lane.dropped);
  if (outcome == Outcome::kUnderWay) return moved;
  if (outcome == Outcome::kFailed) takeDown(peer, port_.unreachable(peer));
  lane.dropping = false;
  port_.retire(std::move(lane.waste));
  advance(peer);
  return true;
}

// An envelope may have come: reads it.
bool Lanes::takeEnvelope(int peer) {
  Lane& lane = at(peer);
  Arrival& arrival = lane.arrivals[lane.next];
  const Outcome outcome = port_.test(arrival);
  if (outcome == Outcome::kUnderWay) return false;
  if (outcome == Outcome::kFailed) {
    takeDown(peer, port_.unreachable(peer));
    return true;
  }
  auto read = readEnvelope(slotOf(peer), arrival.bytes());
  if (!read.ok()) {
    takeDown(peer, read.takeStatus());
    return true;
  }
  lane.envelope = *read;
  lane.left = lane.envelope.kind == EnvelopeKind::kLeave || lane.envelope.kind == EnvelopeKind::kAbort;
  lane.full = !lane.left;
  if (lane.left) takeDown(peer, gone(peer, lane.envelope.kind));
  return true;
}

void Lanes::drop(int peer) {
  Lane& lane = at(peer);
  const bool apart = lane.envelope.kind == EnvelopeKind::kFrame && lane.envelope.inside == 0;
  if (!apart) {
    advance(peer);
    return;
  }
  const Status posted = receiveWaste(peer);
  lane.dropping = posted.ok();
  lane.full = posted.ok();
  if (!posted.ok()) takeDown(peer, posted);
}

Status Lanes::receiveWaste(int peer) try {
  Lane& lane = at(peer);
  const uint64_t bytes = lane.envelope.bytes;
  port_.expectRetirement();
  lane.waste = Buffer(new std::byte[bytes], bytes, waste_, nullptr);
  const Status posted = port_.receive(lane.dropped, peer, kFrames, lane.waste.as<>(), bytes);
  if (!posted.ok()) port_.retire(std::move(lane.waste));
  return Status(posted.failure());
} catch (const std::bad_alloc&) {
  return fail(sparsecollSystemError, "no memory to drop {} bytes of a given-up operation", at(peer).envelope.bytes);
}

void Lanes::close() {
  for (Lane& lane : lanes_) {
    for (Arrival& arrival : lane.arrivals)
      if (arrival.posted()) port_.abandon(arrival);
    if (lane.notice.posted()) port_.abandon(lane.notice);
    if (!lane.dropping) continue;
    port_.abandon(lane.dropped);
    port_.retire(std::move(lane.waste));
  }
  port_.retire(std::move(slots_));
}

}  // namespace sparsecoll::engine
