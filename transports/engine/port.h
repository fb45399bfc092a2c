// The table of functions with what is under way in it: requests, and the memory that they use. Used by one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/status.h"
#include "core/wait.h"
#include "transports/engine/messenger_calls.h"
#include "transports/engine/tag.h"
#include "transports/pace.h"

namespace sparsecoll::engine {

// What has become of a request.
enum class Outcome { kUnderWay, kDone, kFailed };

// A message that is to come, in the pieces that it was cut into.
class Arrival {
 public:
  bool posted() const { return !pieces_.empty(); }
  uint64_t bytes() const { return bytes_; }  // that have come in whole pieces
  // Grows while a message comes, where the engine tells.
  uint64_t moved() const { return bytes_ + partly_; }

 private:
  friend class Port;
  struct Piece {
    void* request;
    std::byte* data;
    uint64_t bytes;
  };
  int peer_ = -1;
  std::vector<Piece> pieces_;
  size_t done_ = 0;
  uint64_t bytes_ = 0, partly_ = 0;
};

class Port {
 public:
  // pace: nullptr, or messages wait here until they may leave; only progress looks at them again.
  Port(const sparsecollEngine_t& table, std::shared_ptr<Pace> pace, const MessengerCalls& calls)
      : table_(table), pace_(std::move(pace)), calls_(calls) {}
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Room for more requests, and for the end of all that there are then; and in an arrival for a message of so many
  // bytes. Without memory they throw std::bad_alloc, and nothing has happened. What there is room for send and receive
  // take no memory for.
  void makeRoom(size_t requests);
  static void makeRoom(Arrival& arrival, uint64_t capacity) { arrival.pieces_.reserve(piecesOf(capacity)); }
  // At most.
  static size_t piecesOf(uint64_t bytes) { return bytes / SPARSECOLL_ENGINE_MESSAGE_BYTES + 1; }

  // Errors: PeerFailed (the engine does not reach the peer).
  // count: nullptr, or raised by one for every piece until it is sent, whatever happens: it stays where it is until
  // then.
  Status send(int peer, Tag tag, const std::byte* data, uint64_t bytes, uint64_t sequence, uint32_t* count = nullptr);
  // Where it fails the pieces that were posted are abandoned.
  Status receive(Arrival& arrival, int peer, Tag tag, std::byte* data, uint64_t capacity);
  // kDone and kFailed end an arrival: it can be posted again.
  Outcome test(Arrival& arrival);
  // Whether what is under way can go on in other memory.
  bool moves() const { return calls_.move != nullptr; }
  // What is under way of the sends that `count` counts, each in one piece, or of the arrival uses `to` from now on;
  // what is to be sent is copied there.
  void moveSends(const uint32_t& count, std::byte* to);
  void moveArrival(Arrival& arrival, std::byte* to);
  // Nobody is interested in it any more. It still takes what comes, so that the next one gets what is meant for it;
  // memory that it may write to is kept, see retire.
  void abandon(Arrival& arrival) noexcept;

  // Whether messages to the peer leave this host, as far as the engine tells; how many bytes of such the next calls of
  // send are about, and in how many frames; 0: in messages that wait for word.
  bool leavesHost(int peer) const { return calls_.leavesHost != nullptr && calls_.leavesHost(table_.user, peer); }
  void expect(uint64_t bytes, size_t frames) const {
    if (calls_.expect != nullptr) calls_.expect(table_.user, bytes, frames);
  }
  // The next two calls of send are to the same peer: their messages may leave together.
  void joinNext() const {
    if (calls_.joinNext != nullptr && pace_ == nullptr) calls_.joinNext(table_.user);
  }

  bool sums() const { return table_.iallreduce != nullptr; }
  // Whether a sum for which this rank sends so many bytes may be started now.
  bool maySum(uint64_t bytes);
  // Errors: Unsupported (nothing has happened), SystemError.
  Status startSum(const void* in, void* out, uint64_t count, sparsecollDataType_t type);
  Outcome testSum();

  // Lets the engine work, and looks at what is sent. Returns whether something has moved. Errors: SystemError.
  Result<bool> progress();
  // When the next message that waits for its time may leave; Time::max(): none does.
  Pace::Time due() const { return pace_ != nullptr ? pace_->due() : Pace::Time::max(); }
  // Until when at most a wait may sleep between two calls of progress. Where that itself sleeps until something comes,
  // which it does not while kept awake, others need a moment to get at the engine, and a longer one would be late.
  Pace::Time restUntil(bool keptAwake) const;
  // The peer of a send of operations up to this one that is still under way.
  std::optional<int> sendingTo(uint64_t sequence) const;
  bool isSending(int peer, const uint32_t& count) const;
  // Whether something of each send that `count` counts has left, as far as the engine tells. What waits here for its
  // time counts as if it had: the order of those is that of send.
  bool haveBegun(const uint32_t& count) const;
  // What waits leaves now: nothing looks at it once an operation is given up, and what tells that stands behind it.
  void hurry() {
    if (waiting_ != 0) (void)letLeave(true);
  }
  // Sends to the peer are given up.
  void giveUp(int peer);
  // The peer of a send that has failed, told once; -1: none has.
  int takeFailedPeer();

  // Memory that no request uses is freed in these, and in close. Not where the engine works: to free pinned memory may
  // wait for a stream that waits for that. expectRetirement comes first, once for each retire: it makes room, so that
  // whoever ends for want of memory needs none for it.
  void expectRetirement();
  void retire(Buffer memory) noexcept;

  // Cancels what is under way, and waits until the engine has let go of it. What it does not let go of is never freed.
  void close(const Deadline& deadline) noexcept;
  // After close: what was sent last leaves. The table is not used any more.
  void release(const Deadline& latest);

  // PeerFailed, in the words of the latest function that failed.
  Status unreachable(int peer) const;

 private:
  struct UnderWay {
    void* request;
    int peer;
    const std::byte* data;
    uint64_t bytes;
    uint64_t sequence;  // UINT64_MAX: no send
    uint32_t* count;
    bool givenUp;
    // Of a send that waits for its time:
    Tag tag = kEnvelopes;
    uint64_t ticket = 0;  // its place among those; 0: the table has it
    Pace::Time since = {};
  };

  bool good(int code, const char* function);
  Outcome look(void** request, uint64_t* bytes);
  void giveUp(UnderWay& one);
  void end(UnderWay& one, bool failed);
  bool letLeave(bool all = false);
  bool uses(const Buffer& memory) const;
  void sweep();

  sparsecollEngine_t table_;
  const std::shared_ptr<Pace> pace_;
  const MessengerCalls calls_;
  uint64_t tickets_ = 0;            // given out
  uint64_t begun_ = 0;              // ticket of the message that the pace is about
  bool sumBegun_ = false;           // it is about the sum
  size_t waiting_ = 0;              // messages for their time
  std::vector<UnderWay> underWay_;  // has room for what is posted, too, and for the sum: to give up takes no memory
  size_t posted_ = 0;               // pieces of arrivals
  std::vector<std::unique_ptr<Buffer>> expected_;  // empty ones, for what is to be retired
  std::vector<std::unique_ptr<Buffer>> retired_;
  std::vector<int> failedPeers_;
  void* sum_ = nullptr;
  std::span<const std::byte> summed_;  // where the sum is formed
  bool summing_ = false;
  bool closed_ = false;
  int lastCode_ = 0;  // of the latest function that failed
  const char* lastFunction_ = "";
};

}  // namespace sparsecoll::engine
