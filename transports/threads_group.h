// What the ranks of a threads group share, all of it guarded by one mutex. A message is a pointer put into the
// receiver's mailbox; the receiver sleeps until the last one it misses has come, so a round costs each rank one
// wake-up.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/transport.h"

namespace sparsecoll::threads {

// Names one round of one operation; grows along every rank's path. A million rounds an operation, 2^44 operations.
constexpr uint64_t ticketOf(const Operation& operation) { return (operation.sequence << 20) + operation.round + 1; }

constexpr uint64_t sequenceOf(uint64_t ticket) { return (ticket - 1) >> 20; }

struct Mail {
  uint64_t ticket = 0;
  uint64_t plan = 0;
  const std::byte* frame = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const Marker> written;  // the frame is whole behind it; nullptr: it is already
  bool full = false;
  bool awaited = false;  // the receiver sleeps and counts this one as missing
};

// What a rank shows its peers for a dense all-reduce: a header, then where its vectors lie.
struct DenseOffer {
  FrameHeader header;
  const void* in;
  void* out;
  FrameHeader done;  // sent when this rank's part is summed; carries kFrameNonFinite
};

// What a rank's operation is: run, made of frames in the host's memory, or captured in a graph.
enum class Mode : uint8_t { kRun, kOnHost, kCaptured };

// Whose refusals, and whose messages of rounds that are over, end a wait. Some of the ranks that sum among themselves
// go on whatever others refuse: once all of them have met each of them needs every other one, which may be inside its
// vectors.
enum class Heeds : uint8_t { kAll, kSenders, kNobody };

struct Begun {
  uint64_t sequence = 0;
  Mode mode = Mode::kRun;
  const void* stream = nullptr;
};

struct Member {
  WaitPoint wakeUp;
  std::vector<Mail> inbox;  // by sender
  uint64_t ticket = 0;      // of the round it collects,
  uint64_t plan = 0;        // of its operation
  Heeds heeds = Heeds::kAll;
  uint32_t missing = 0;
  FlightRecord* record = nullptr;  // of the round, while it sleeps
  int behind = -1;                 // a peer that sent a message of a round this rank has been through without it
  bool ahead = false;              // a peer's message shows that it has left the operation for a later one
  uint64_t begun = 0;              // the last operation this rank has begun
  Begun modes[2];                  // by parity of the sequence
  uint64_t completed = 0;          // and ended
  uint64_t refused[2] = {};        // and given up, by parity of the sequence
  bool waitsForPeers = false;      // sleeps for something other than a message
  bool down = false;               // aborted or gone
  bool gone = false;               // destroyed: reads nothing any more
  bool closed = false;             // its communicator was destroyed, though some reducer may still hold it
  bool left = false;               // went once its work was done,
  bool aborted = false;            // or before
  int blamed = -1;                 // the rank because of which it has given up
  bool passes = false;             // its flags hold nobody up any more
  std::unique_ptr<Flags> flags;    // on devices; they live as long as somebody may raise them
  DenseOffer offers[2][AmongArgs::kHalves];  // by parity of the sequence; allReduce has the first
  std::shared_ptr<Marker> read[2];           // behind it the rank reads nothing of the operation any more; by parity
};

// Some ranks of a group that make one of their own.
struct Gathering {
  uint64_t tag = 0;
  bool dropsGone = false;    // who has closed is not waited for
  std::vector<bool> wanted;  // by rank
  std::vector<bool> here;
  std::vector<uint64_t> own;  // what each has brought
  std::vector<int> order;     // ranks by new rank; empty: as they are
  std::vector<int> members;   // once all have come
  std::shared_ptr<class Group> group;
  size_t taken = 0;  // by so many of them
};

class Group {
 public:
  explicit Group(int ranks) : members_(static_cast<size_t>(ranks)) {
    for (Member& member : members_) member.inbox.resize(members_.size());
  }

  int ranks() const { return static_cast<int>(members_.size()); }
  bool anyDown() const { return anyDown_.load(std::memory_order_acquire); }
  bool anyDown(std::span<const int> members);
  // Once one of the members is down: Aborted if it is this rank, else PeerFailed.
  Status whoIsDown(int rank, std::span<const int> members);

  // Whether flags order the operation on the ranks' streams: from the first captured one on. Then, and while one is
  // captured, all ranks meet here.
  Result<bool> begin(int rank, const Operation& operation, Mode mode);
  // bytes: of every message. written: see Mail; it outlives a sender that goes.
  Status post(int rank, const Operation& operation, std::span<const Outgoing> out, std::span<const uint64_t> bytes,
              const std::shared_ptr<const Marker>& written, Heeds heeds = Heeds::kAll);
  // written: a place for every message.
  Status collect(int rank, const Operation& operation, std::span<Incoming> in,
                 std::span<std::shared_ptr<const Marker>> written, Heeds heeds = Heeds::kAll);
  void refuse(int rank, const Operation& operation, const Failure& why);
  void end(int rank, const Operation& operation);
  enum class Down { kAborted, kLeft, kGone };
  void takeDown(int rank, Down how);
  // The rank does not come to make another group of this one.
  void close(int rank);
  // Errors: Aborted or PeerFailed once a rank has failed in a group whose operations are ordered by flags; also where
  // one has left that this rank's streams have waited for in vain.
  Status replaysSound(int rank, bool inTime);

  DenseOffer& offer(int rank, uint64_t sequence, AmongArgs::Half half = AmongArgs::Half::kBoth) {
    return at(rank).offers[sequence % 2][static_cast<size_t>(half)];
  }
  void setRead(int rank, size_t parity, std::shared_ptr<Marker> marker) { at(rank).read[parity] = std::move(marker); }
  void setFlags(int rank, std::unique_ptr<Flags> flags) { at(rank).flags = std::move(flags); }
  Flags* flagsOf(int rank) { return at(rank).flags.get(); }
  const Marker* readOf(int rank, uint64_t sequence) { return at(rank).read[sequence % 2].get(); }

  // Members read and write each other's callers' memory only between enter and leave, and nobody enters once a member
  // is down. Other ranks may have left: they miss nothing from these, and these miss nothing from them.
  bool enter(std::span<const int> members);
  void leave();
  // Waits until nobody is inside. What peers do there is one slab's arithmetic and waits for nobody, so like a mutex
  // this has no deadline: to return earlier would let them write to memory that the caller may have freed.
  void awaitReaders(int rank);

  // Waits until everyone who is wanted has called with this tag. Needs no rank to be up. Errors: Timeout, PeerFailed.
  Result<Gathering> gather(int rank, const Gathering& call, uint64_t own, const Deadline& deadline);

  // Keeps memory alive until every rank has ended the operations that this rank has begun. Never needs memory itself:
  // room for the entry was made by expectRetirement.
  void expectRetirement();
  void retire(int rank, Buffer memory) noexcept;

 private:
  struct Retired {
    Buffer memory;
    uint64_t sequence;
  };

  Member& at(int rank) { return members_[static_cast<size_t>(rank)]; }
  bool allCompleted(uint64_t sequence) const;
  bool allBegun(uint64_t sequence) const;
  int inOtherMode(int rank, const Operation& operation, Mode mode);
  Status meetInModes(std::unique_lock<std::mutex>& lock, int rank, const Operation& operation, Mode mode);
  bool isRefused(const Operation& operation) const {
    return refusals_[operation.sequence % 2].sequence == operation.sequence;
  }
  int abortedPeer(int rank) const;  // -1: none
  bool hasRefused(int rank, const Operation& operation) const {
    return members_[static_cast<size_t>(rank)].refused[operation.sequence % 2] == operation.sequence;
  }
  bool isRefusedBy(int peer, const Operation& operation, Heeds heeds) const;
  static bool isBehind(const Mail& mail, uint64_t ticket, uint64_t plan, const Member& receiver);
  // What ends a wait for messages of some peers before all of them have come.
  struct Ending {
    enum Why : uint8_t { kNone, kOwn, kRefused, kBehind, kAhead, kDown };
    Why why = kNone;
    int peer = -1;
  };
  Ending endingOf(int rank, std::span<const Incoming> wanted, const Operation& operation) const;
  Status finishCollect(int rank, std::span<Incoming> in, const Operation& operation);
  int culpritOf(int rank, int peer) const;
  Status peerFailed(int rank, int peer);
  // members: who is looked at first.
  Status failureFor(int rank, std::span<const int> members = {});
  Status timeout(int rank, std::span<const Incoming> wanted, uint64_t ticket);
  template <class Done>
  bool waitForPeers(std::unique_lock<std::mutex>& lock, int rank, const Deadline& deadline, Done done);
  bool settleGathering(Gathering& gathering);
  void endWaits(int rank, sparsecollResult_t why, int peer);
  void wakeWaiters();
  void wakeAll();
  // Memory that nobody needs any more. It is to be freed behind the lock, since that may take as long as the devices
  // do.
  std::list<Retired> takeRetired() noexcept;

  std::mutex mutex_;
  std::vector<Member> members_;
  // By parity of the sequence: no rank begins an operation while one is still in the operation before the previous.
  struct Refusal {
    uint64_t sequence = 0;
    Failure why;
  };
  Refusal refusals_[2];
  std::list<Gathering> gatherings_;
  std::list<Retired> windows_;  // room for those alive, since to retire one must not need memory
  std::list<Retired> retired_;
  uint64_t flaggedFrom_ = UINT64_MAX;  // the first operation that flags order
  uint32_t accessing_ = 0;
  std::atomic<bool> anyDown_{false};
};

// Of frames' memory, see RetiringWindow.
struct WindowKeeper {
  std::shared_ptr<Group> group;
  int rank;

  void expectRetirement() { group->expectRetirement(); }
  void retire(Buffer memory) noexcept { group->retire(rank, std::move(memory)); }
};

template <class Done>
bool Group::waitForPeers(std::unique_lock<std::mutex>& lock, int rank, const Deadline& deadline, Done done) {
  Member& me = at(rank);
  me.waitsForPeers = true;
  const bool met = me.wakeUp.wait(lock, deadline, done);
  me.waitsForPeers = false;
  return met;
}

}  // namespace sparsecoll::threads
