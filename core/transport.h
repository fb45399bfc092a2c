// Transport: what a network can do. A collective is a list of rounds; in a round a rank sends frames to some peers and
// receives frames from some. Engines that share memory hand out views of the sender's frame instead of copying it.
//
// Frames are sent from windows, memory the engine knows. A frame must stay unchanged from the round that sends it until
// the operation after the next begins on the sender, so a sender keeps two sets and alternates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/flight_record.h"
#include "core/frame.h"
#include "core/kernels.h"
#include "core/partition.h"
#include "core/status.h"
#include "core/wait.h"

namespace sparsecoll {

struct Outgoing {
  int peer = 0;
  const std::byte* frame = nullptr;
  FrameLayout layout;  // with the header it tells how many bytes travel
};

struct Incoming {
  int peer = 0;
  std::byte* landing = nullptr;  // capacity bytes, unless the engine shares memory
  uint64_t capacity = 0;
  const std::byte* frame = nullptr;  // out: where the frame lies, valid until the operation ends
  uint64_t bytes = 0;                // out
};

// One operation of the communicator; every rank goes through the same ones in the same order.
struct Operation {
  FrameExpectation identity() const { return {sequence, plan, sequenceAt}; }
  bool captured() const { return sequenceAt != nullptr; }

  uint64_t sequence = 0;
  const uint64_t* sequenceAt = nullptr;  // see FrameExpectation; set by begin() where the operation is captured
  uint64_t* replays = nullptr;  // in the kernels' memory: its owner's count of captured operations that were replayed
  uint64_t plan = 0;
  uint64_t turn = 0;   // counts the operations of one owner of windows; its frames alternate with it
  uint32_t round = 0;  // advanced by each round
  uint64_t sentBytes = 0;
  uint64_t receivedBytes = 0;
  uint64_t sentMessages = 0;
  Deadline deadline = Deadline::in(0);
  Stream stream;                          // that its frames are written and read on
  bool onHost = false;                    // its frames are the host's, wherever the kernels' memory is
  const OperationLabel* label = nullptr;  // what it is, for people
  FlightRecord* record = nullptr;         // what is remembered of it; nullptr: nothing
};

// A round of the operation begins, in which something is missing from these; for engines whose rounds the caller's
// thread goes through.
template <class Messages>
void noteRound(const Operation& operation, const Messages& missing) {
  if (operation.record == nullptr) return;
  operation.record->beginRound(operation.sentBytes, operation.receivedBytes);
  for (const Incoming& message : missing) operation.record->await(message.peer);
}

// Memory that frames are sent from, or land in. Dropping it is safe at once: the engine keeps it alive while a peer may
// read it, or something may land.
class FrameWindow {
 public:
  virtual ~FrameWindow() = default;
  virtual std::byte* data() const = 0;
};

struct DenseArgs {
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  Scale inputScale;
  Finish finish;
  bool accumulate = false;
  bool* nonFinite = nullptr;  // out: some element of the sum is NaN or Inf, the same on all ranks
  // For kernels that do not finish before they return, in their memory: set to 1 if some element of the part that this
  // rank sums is. nullptr: nobody asks.
  uint32_t* nonFiniteAt = nullptr;
};

// A dense sum among some ranks, each of which owns a part of the vector; or one of its halves.
struct AmongArgs {
  enum class Half : uint8_t {
    kBoth,    // as allReduce does it
    kSum,     // dense.out is this rank's part alone, from its first element on
    kGather,  // dense.out has this rank's part of the sum already, and gets the others'
  };
  static constexpr size_t kHalves = 3;

  size_t own(int rank) const {
    return static_cast<size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
  }

  DenseArgs dense;
  std::span<const int> members;  // ranks in the order of the sum, this one among them; the same on all of them,
                                 // as what follows
  std::span<const Range> parts;  // of the members; together they are the vector, and some may be empty
  Half half = Half::kBoth;
  bool wide = false;       // kSum: dense.out is of the accumulate type, so that nothing is rounded
  bool nonFinite = false;  // kGather: this rank has met NaN or Inf; out: some rank has. Only in host memory
};

class SharedMemory;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual sparsecollTransport_t kind() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual bool sharesMemory() const = 0;      // Incoming.landing is not needed
  virtual bool checksumsPayload() const = 0;  // frames leave the process

  // budget: what the memory counts for; nullptr: the communicator. memory: whose it is; nullptr: the kernels' that the
  // transport was made for.
  virtual Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t bytes,
                                                          std::shared_ptr<MemoryBudget> budget = nullptr,
                                                          Kernels* memory = nullptr) = 0;

  // Waits until this rank's frames of the operation before the previous one may be overwritten by what comes next on
  // the operation's stream. Where that stream is captured, all ranks' have to be: Mismatch. Errors besides: Unsupported
  // (this engine cannot be captured).
  virtual Status begin(Operation& operation) = 0;
  virtual Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) = 0;
  // A round of all ranks in which each sends one frame to all others, and all frames have one capacity. Landings, where
  // the engine needs them, lie by rank in one block that has a place for this rank's too, which is the engine's.
  virtual Status gather(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) {
    return round(operation, out, in, stream);
  }
  // The engine's own dense all-reduce.
  virtual Status allReduce(Operation& operation, const DenseArgs& args, Stream stream) = 0;
  // Whether it has the next one, the same on all ranks.
  virtual bool sumsAmong() const { return false; }
  // A dense sum among some of the ranks, in their order. An operation has at most one of each half on a rank; its kSum
  // is where all ranks of the communicator find out whether they mean the same.
  virtual Status sumAmong(Operation&, AmongArgs&, Stream) {
    return fail(sparsecollInternalError, "this engine has no sums among some ranks");
  }
  // The ranks mean different things by the operation, and this rank gives it up. Whoever still waits for a frame in it
  // learns so instead of waiting on: in a schedule of few peers not every rank sees every other one's frame.
  virtual void refuse(const Operation& operation, const Failure& why) = 0;
  // This rank reads no more frames of the operation but by what is on its stream.
  virtual void end(const Operation& operation) = 0;

  // Waits until what this rank has put on the stream is done, as far as that takes peers: true; false once the deadline
  // has passed. Errors: the engine's, and Timeout where an operation's own deadline has passed.
  virtual Result<bool> await(Stream, const Deadline&) { return true; }

  // What has ended the communicator on a thread of the engine's, of which no call has told yet. Does not wait. Any
  // thread.
  virtual Status health() const { return {}; }

  // Ends this rank's waits with its own failure and the peers' with PeerFailed. Any thread, any moment.
  virtual void abort() = 0;
  // The communicator is destroyed in good order: what is under way may end first, until the deadline.
  virtual void close(const Deadline&) {}
  // What abort() does, for a rank that goes once its work is done; what streams of others still have to do goes on.
  virtual void leave() { abort(); }
  // After leave or abort: what the engine borrowed goes back. An operation that is still under way on another thread
  // puts it off until the destructor.
  virtual void shutDown() {}
  // Whether what streams did can be trusted; inTime: they are done. Errors: Aborted or PeerFailed, where replays of
  // captured operations were let pass because of that, or wait for a rank that has left.
  virtual Status replaysSound(bool) { return {}; }
  // How much memory of this rank ranks of its host may read instead of getting messages from it; 0: none.
  virtual uint64_t sharedBytes() const { return 0; }
  // It is shared with those that the memory reaches, which share theirs; between two operations. Errors: OutOfMemory.
  virtual Status share(const std::shared_ptr<SharedMemory>&) { return {}; }
  // A caller's engine brings an all-reduce of its own.
  virtual bool sumsItself() const { return false; }
};

}  // namespace sparsecoll
