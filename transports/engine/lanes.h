// What comes from the peers, one envelope after the other from each. An envelope stays at the head of its lane until
// the round that it belongs to takes it; what is left of operations that this rank has given up is read and dropped on
// the way.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "transports/engine/envelope.h"
#include "transports/engine/port.h"

namespace sparsecoll::engine {

class Lanes {
 public:
  // places: see placesOf.
  Lanes(Port& port, int rank, int ranks, uint64_t slotBytes, size_t places);

  // Of the memory that open gets: slots for each rank's envelopes, and one for its notice.
  uint64_t bytes() const { return lanes_.size() * (places_ * slotBytes_ + kSlotBytes); }
  // Posts the receives. Errors: PeerFailed.
  Status open(Buffer slots);

  // Looks at a peer's lane, and drops what belongs to operations before `current`. Returns whether something has moved.
  bool look(int peer, uint64_t current);
  // The envelope at the head, or nullptr.
  const Envelope* head(int peer) const { return at(peer).full ? &at(peer).envelope : nullptr; }
  const std::byte* slotOf(int peer) const { return at(peer).slots[at(peer).next]; }
  // Grows while the next envelope comes, where the engine tells.
  uint64_t moved(int peer) const { return at(peer).full ? 0 : at(peer).arrivals[at(peer).next].moved(); }
  // The envelope at the head has been read: the next one may come.
  void advance(int peer);

  // isDown: nothing comes from the peer any more. goesDown: nothing can be sent to it, and it is down already, or
  // will be after afterMs, until when what it sent before may still come. Of several reasons the first stays.
  bool isDown(int peer) const { return goesDown(peer) && at(peer).until.expired(); }
  bool goesDown(int peer) const { return at(peer).down; }
  Status whyDown(int peer) const { return Status(at(peer).why); }
  void takeDown(int peer, const Status& why, uint64_t afterMs = 0);
  // The peer has said so itself.
  bool hasLeft(int peer) const { return at(peer).left; }
  // What the peer says of its end, though there may be envelopes from before it: kLeave, kAbort, or kFrame for nothing.
  EnvelopeKind noticeOf(int peer);

  // Of the communicator's end: the receives that wait are given up.
  void close();

 private:
  class Waste;
  struct Lane {
    Arrival arrivals[kMostPlaces];
    std::byte* slots[kMostPlaces] = {};
    size_t next = 0;  // which one is read, or comes first
    Envelope envelope{};
    bool full = false;
    bool dropping = false;  // the envelope's frame, which comes apart, goes to waste
    bool down = false, left = false;
    Deadline until = Deadline::in(0);  // for what may still come
    Arrival notice;
    EnvelopeKind noticed = EnvelopeKind::kFrame;
    Arrival dropped;
    Buffer waste;
    Failure why;
  };

  Lane& at(int peer) { return lanes_[static_cast<size_t>(peer)]; }
  const Lane& at(int peer) const { return lanes_[static_cast<size_t>(peer)]; }
  std::byte* noticeSlot(int peer) const;
  void post(int peer);
  bool takeEnvelope(int peer);
  void drop(int peer);
  Status receiveWaste(int peer);

  Port& port_;
  const int rank_;
  const uint64_t slotBytes_;
  const size_t places_;
  std::vector<Lane> lanes_;
  const std::shared_ptr<MemorySource> waste_;
  Buffer slots_;
};

}  // namespace sparsecoll::engine
