// One operation on this rank: its rounds, and who is missing. What moves or takes messages runs under the state's
// mutex, a look at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/transport.h"
#include "transports/engine/state.h"
#include "transports/shared_memory.h"

namespace sparsecoll::engine {

class Rounds {
 public:
  Rounds(State& state, std::unique_ptr<PeerWatch> watch);

  Status open();
  PeerWatch* watch() { return watch_.get(); }

  // Until it is said otherwise: whether only those count that something is missing from. Some of the ranks that sum
  // among themselves go on whatever others refuse or mean, since each of them needs every other one once all have met.
  void lookAtAwaitedOnly(bool only) { awaitedOnly_ = only; }
  // The operation that envelopes are compared with from now on.
  void begin(const Operation& operation);
  // Looks at all lanes. Errors: PeerFailed (a peer is down).
  Status greet();
  // In which ranks of this host meet from now on.
  void share(std::shared_ptr<SharedMemory> memory) { shared_ = std::move(memory); }
  bool reaches(int peer) const { return shared_ != nullptr && shared_->reaches(peer); }

  // A round's messages, which stay until it is over. Without memory for them it throws std::bad_alloc, and nothing has
  // happened.
  void start(const Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in);
  // A round in which ranks meet: each sends a header, the same to all. Those that share memory need no messages for it.
  void startMeeting(const Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in);
  // Moves what can be moved. Result: whether the round is over; moved: whether anything was. Errors: Mismatch,
  // PeerFailed, Corrupted, SystemError.
  Result<bool> proceed(bool& moved);
  // Whether the round's message of a peer is here.
  bool has(int peer) const { return awaited_[static_cast<size_t>(peer)].stage == Stage::kDone; }
  // The round is given up. What is still to come lands where it was meant to, or is dropped.
  void giveUp();
  // Who is missing, or why nothing can be sent to a peer.
  Status timeout() const;
  // Timeout for ranks that something is missing from. Blamed is who has been silent longest, if anyone has been for
  // some beats, even if nothing is missing from it: who is named may be waiting for it.
  Status overdue(std::span<const int> missing, std::string_view what) const;

  // Sends of operations up to this one. Result: whether none is under way any more. Errors: SystemError.
  Result<bool> finishSends(uint64_t sequence, bool& moved);

  // Tell all peers.
  void refuse(const Operation& operation, const Failure& why);
  void farewell(bool aborted);
  bool telling();  // the farewell is still under way to a peer that listens

  // Everything that the engine may still use goes to the port.
  void close();

  // For messages without envelopes. work and lookAround: the engine's turn, and one look at the lane of a peer that may
  // have given up. check: of a peer that something is missing from; came: changes while that comes. Errors: as proceed.
  Result<bool> work();
  Status lookAround(bool& moved);
  Status check(int peer, uint64_t came);
  // For a wait of any kind, at each look. since: from when on no message has ended while a peer was known to be lost or
  // to have aborted.
  // Without that peer the operation may still end; but its last message, begun and never ended, may keep away what
  // others send. Errors: PeerFailed.
  Status checkLost(bool moved, std::optional<Deadline>& since);

 private:
  static constexpr size_t kOwnSlots = 3;  // two refusals in turn, and the farewell
  enum class Stage : uint8_t { kEnvelope, kFrame, kDone };
  struct Awaited {
    Stage stage = Stage::kDone;
    Arrival frame;
    std::optional<Deadline> grace;  // of a peer that is said to be gone, for more of what it has sent before
    uint64_t came = 0;              // when that began
    std::optional<Deadline> ahead;  // of a peer that is in a later operation, to tell why it has left this one
  };

  Awaited& awaited(int peer) { return awaited_[static_cast<size_t>(peer)]; }
  std::byte* slot(size_t index) const { return slots_.as<>() + index * state_.slotBytes; }
  bool hasEnded(int peer);
  bool isLost(int peer);
  uint64_t leftGraceMs() const;
  Status check(int peer, uint64_t came, uint64_t leftMs);
  Status lose(int peer);
  const Outgoing& nextOut() const { return out_[(firstOut_ + sent_) % out_.size()]; }
  static uint64_t bytesOf(const Outgoing& message) { return message.layout.usedBytes(readHeader(message.frame)); }
  Status takeAll(bool& moved);
  Status sendRest(bool& moved);
  bool hasRefused(int peer);
  Status whyDown(int peer);
  Result<bool> post(const Outgoing& message);
  Status take(Incoming& message, bool& moved);
  Status takeEnvelope(Incoming& message, const Envelope& envelope);
  Status takeAnnouncement(Incoming& message, bool& moved);
  bool isElsewhere(int peer) const;
  void noteCame(Awaited& from, int peer);
  void tell(size_t index, uint64_t bytes, Tag tag, uint32_t* count);

  State& state_;
  const std::unique_ptr<PeerWatch> watch_;
  const int rank_, ranks_;
  Buffer slots_;                    // of envelopes to be sent, two for each rank, and of the notices
  std::vector<uint32_t> slotUses_;  // sends from each that are under way
  size_t nextSlot_ = 0;
  std::vector<Awaited> awaited_;
  uint64_t current_ = 0, plan_ = 0;  // the operation's
  uint32_t round_ = 0;
  std::shared_ptr<SharedMemory> shared_;  // nullptr: no rank of this host shares any
  bool meets_ = false;                    // the round is one in which ranks meet
  std::span<const Outgoing> out_;
  std::span<Incoming> in_;
  FlightRecord* record_ = nullptr;
  size_t firstOut_ = 0;  // goes out first: to the next rank, so that not all ranks begin with the same one
  size_t sent_ = 0, missing_ = 0;
  bool awaitedOnly_ = false;
  int around_ = 0;             // the peer that was looked at last though nothing is missing from it
  int asked_ = 0, lost_ = -1;  // by checkLost: the peer whose turn is next, and the first that it found; -1: none yet
  bool noticeSent_ = false;
};

}  // namespace sparsecoll::engine
