// The dense sum over messages. Each rank owns a part of the vector: all send it their contribution to the part, it sums
// them in rank order, and sends the sum to all. That is what a ring sends, in two steps instead of 2 (P - 1), with one
// rounding of each sum, and the same bits as when ranks share memory. Parts go through in segments, a few at a time, so
// that both directions of the links and the arithmetic overlap. Where the engine sums on its own, it does.
//
// Two ranks alone exchange whole vectors, and each sums all of it: as many bytes, in one step.
//
// Where contributions are of one segment, they begin in the frames by which ranks meet, so that links are busy from the
// start. Of a small sum they are there as a whole, and sums travel in a round of frames: two messages between two
// ranks, one after the other, are all that it takes.
//
// Where requests can change their memory under way, messages leave from the caller's vectors and land there. Elsewhere
// they are staged, as an engine may use a request's memory after the operation that it belonged to.
//
// Ranks that share memory send none of it, though counters of bytes count it: a contribution or a sum stands where its
// sender has put it, the peer reads it there, and both count segments in that memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/partition.h"
#include "transports/engine/rounds.h"
#include "transports/shared_memory.h"

namespace sparsecoll::engine {

// Writes the header of a frame whose run of layout.denseCount values is there already.
void sealRun(FrameHeader header, const FrameLayout& layout, std::byte* frame);
// The header of a frame that holds such a run, or nothing else where there are no values. Errors: as checkFrame, with
// the peer.
Result<FrameHeader> openRun(const Incoming& message, const FrameLayout& layout, const FrameExpectation& expected);

class DenseSum {
 public:
  DenseSum(State& state, Rounds& rounds);

  Status open();
  // What of its memory peers may read; 0: nothing.
  uint64_t sharedBytes() const { return staging_.bytes(); }
  // Whether the sum that has started goes through memory that a peer shares.
  bool anyNear() const { return std::ranges::any_of(pairs_, &Pair::near); }
  // Between two operations, for whoever gave so many bytes. Errors: OutOfMemory.
  Status share(const std::shared_ptr<SharedMemory>& memory);
  // Before the ranks meet in a sum. Makes room for all that it may have under way: without memory it throws
  // std::bad_alloc now, and not later, where all ranks need this one. Ranks that share memory find the first
  // contributions there once they have met.
  void prepare(const DenseArgs& args, Stream stream);
  // Of the frames by which ranks meet in the sum that was prepared: what one to a peer, and one from it, holds; a run
  // of no values: nothing but its header.
  FrameLayout layoutTo(int peer) const;
  FrameLayout layoutFrom(int peer) const;
  // Where a frame with a run lies; that to a peer has its values already.
  std::byte* frameTo(int peer) const { return frames_.as<>() + static_cast<uint64_t>(peer) * frameBytes_; }
  std::byte* frameFrom(int peer) const { return frameTo(ranks_ + peer); }
  // After the ranks have met in the operation, whose next round the sums may need; it stays until the end. alike: all
  // of them sum in place, or none: engines may need that.
  Status start(Operation& operation, bool alike);
  // The same among some ranks.
  void prepareAmong(const AmongArgs& args, Stream stream);
  Status startAmong(Operation& operation);
  // As Rounds::proceed.
  Result<bool> proceed(bool& moved);
  Status timeout() const;
  // What is still under way uses this object's memory, and not the caller's any more. Of every operation's end: sends
  // of a sum that went well may be given up, or their operation.
  void letGo();
  // After an error: what is still to come lands in this object's memory, or is dropped.
  void giveUp();
  // Neither the caller's vectors nor args are used any more, but by what is still being sent (letGo), and by the
  // engine's own sum after an error.
  void end();
  void close();

 private:
  static constexpr uint32_t kMostWindows = 4;  // segments under way between two ranks, in each direction

  enum class Round : uint8_t { kNone, kUnderWay, kOver };

  // What goes on between this rank and another. Segments are counted from 0 in each of the two parts.
  struct Pair {
    Arrival contributions[kMostWindows], sums[kMostWindows];
    uint32_t sending[kMostWindows] = {};  // contributions under way from each window
    uint64_t posted = 0, arrived = 0;     // contributions of the peer to this rank's part
    uint64_t sent = 0;                    // contributions of this rank to the peer's part
    uint64_t sumsPosted = 0, sumsTaken = 0;
    uint64_t segments = 0;  // of the peer's part
    bool takesPart = false;
    bool near = false;  // it shares memory with this rank
    // What this rank had done for it, and it for this rank, when the sum began.
    uint64_t contributedBefore = 0, consumedBefore = 0, summedBefore = 0, takenBefore = 0;
    // Contributions that were told of as the ranks met, in shared memory: of this rank to the peer's part, and of the
    // peer.
    uint64_t ahead = 0, aheadOfPeer = 0;
  };

  Pair& pair(int peer) { return pairs_[static_cast<size_t>(peer)]; }
  Range partOf(int rank) const { return parts_[static_cast<size_t>(rank)]; }
  bool sums() const { return half_ != AmongArgs::Half::kGather; }
  bool gathers() const { return half_ != AmongArgs::Half::kSum; }
  void makeRoom();
  void reset(const DenseArgs& args, Stream stream);
  void prepareMeeting();
  void contributeAhead();
  Range beginningOf(int owner) const;
  bool isInFrames(int owner) const { return partOf(owner).length() <= mostBegun_; }  // all of it
  void fillFrame(int peer);
  void takeFrame(int peer);
  FrameLayout layoutOf(int owner) const;
  void startSums();
  Status takeFrames(bool& moved);
  void announceFar() const;
  void begin(Operation& operation);
  Range segmentOf(int rank, uint64_t segment) const;
  uint64_t segmentsOf(int rank) const;
  enum Use : uint64_t { kContribution, kOwnContribution, kSumOf, kUses };
  uint64_t offset(int peer, Use use, uint64_t segment) const;
  std::byte* place(int peer, Use use, uint64_t segment) const { return staging_.as<>() + offset(peer, use, segment); }
  const std::byte* inAt(uint64_t element) const {
    return static_cast<const std::byte*>(args_.in) + element * elementBytes(args_.type);
  }
  std::byte* outAt(uint64_t element) const {
    return static_cast<std::byte*>(args_.out) + element * elementBytes(args_.type);
  }
  std::byte* landing(int peer, uint64_t segment) const;
  uint64_t sumOffset(uint64_t segment) const { return offset(ranks_, kContribution, segment); }
  std::byte* sumPlace(uint64_t segment) const { return staging_.as<>() + sumOffset(segment); }

  bool isStaged() const;
  Status invite(bool& moved);
  bool letsNextBegin(const Pair& with) const;
  Status serveFar(int peer, bool keptBack, bool& moved);
  Status post(int peer, bool& moved);
  Result<bool> hasCome(Arrival& arrival, int peer, uint64_t bytes, const char* what);
  uint64_t begunOf(int owner) const { return bytesOf(beginningOf(owner)); }  // with the frames
  uint64_t bytesOf(const Range& segment) const { return segment.length() * elementBytes(args_.type); }
  Status takeSums(int peer, bool& moved);
  Status serveNear(int peer, bool& moved);
  void copyContribution(int peer);
  // Contributions leave from in, and sums come to out, and leave from there, unless out is to be increased by them, or
  // ranks that share memory read them elsewhere.
  bool isDirect() const { return state_.port.moves() && !small_; }
  bool landsInOut() const { return isDirect() && gathers() && !args_.accumulate; }
  bool leavesFromOut() const { return landsInOut() && !anyNear(); }
  bool isSent(const Pair& with, uint64_t segment) const;
  bool hasTaken(int peer) const;
  // Whether the sums of a small sum go out, and come, in a round that has not begun.
  bool awaitsRound() const { return small_ && sums() && gathers() && round_ == Round::kNone; }
  bool isReady(int member) const;
  bool isSettled();
  bool holdsUp(int peer) const;
  bool mayOverwriteSum() const;
  bool readsSum(int member) const;
  const void* contributionOf(int member) const;
  Status sumOwn(bool& moved);
  Status passOn(const Range& segment);
  void formSum(uint64_t at, uint64_t length);
  bool over(int peer) const;

  Status startPiece();
  Result<bool> proceedPiece(bool& moved);
  void takeSum(const void* sum, const Range& segment);

  State& state_;
  Rounds& rounds_;
  const int rank_, ranks_;
  const uint32_t windows_;
  uint64_t segmentBytes_ = 0;
  uint64_t mostInFrame_ = 0, frameBytes_ = 0;
  Buffer staging_;
  Buffer frames_;                         // with values: to each rank, from each rank, and with this rank's sum
  std::shared_ptr<SharedMemory> shared_;  // whose the staging is; nullptr: nobody's but this rank's
  std::vector<Pair> pairs_;
  std::vector<uint32_t> sumSending_;
  bool invited_ = false;        // peers have word of what they may send first
  bool inTurn_ = false;         // some first contributions may be kept back
  uint64_t summed_ = 0;         // of this rank's segments
  bool mirrored_ = false;       // two ranks exchange all, and each sums it
  bool small_ = false;          // every part fits into one frame, and those that share no memory send frames
  uint64_t mostBegun_ = 0;      // elements of a part that frames hold by which ranks meet
  Round round_ = Round::kNone;  // of frames with sums
  Operation* operation_ = nullptr;
  std::vector<Outgoing> sumsOut_;
  std::vector<Incoming> sumsIn_;
  bool settled_ = false;  // no rank reads sums of an earlier operation from this rank's memory any more
  DenseArgs args_;
  Stream stream_;
  uint32_t nonFinite_ = 0;
  std::vector<Range> parts_;  // by rank
  std::vector<int> members_;  // who takes part
  AmongArgs::Half half_ = AmongArgs::Half::kBoth;
  bool wide_ = false;
  std::vector<const void*> in_;  // by member
  bool byEngine_ = false;
  bool pieceStarted_ = false;
  bool alike_ = true;
  uint64_t pieceAt_ = 0, pieceLength_ = 0;  // of the engine's own sum
};

}  // namespace sparsecoll::engine
