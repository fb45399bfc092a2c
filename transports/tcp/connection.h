// What goes on between two ranks over their data connection. But for frames a message leaves only once its receiver has
// a place for it: every receive that is posted is granted to the sender. So nothing comes that is not expected, a rank
// that takes nothing stops those that send to it and nobody else, and no message stands in front of one that could be
// taken.
//
// Frames need no grant: they leave once all that was posted before them has, their envelopes among it, and a rank that
// has not taken an envelope yet reads no further. A grant would stand behind what its rank sends itself, so two ranks
// with long frames for each other would take turns: over 100 Mbit/s two of 1.28 MB took 211 ms instead of 106. What
// comes behind a frame, grants too, is of its round or a later one.
//
// A grant for an envelope waits for what is sent next, as long as the peer may send two more without it, one of an
// operation and one that tells why it was given up: what ranks say to each other in turns then needs no messages for
// grants.
//
// On a slow link a socket holds little, unless that is a few frames (room.h).
//
// A message begins with a head, little-endian, and so do grants, which are nothing more:
//
//   offset 0   kind    u16   1: message, 2: grants
//          2   tag     u16   below SPARSECOLL_ENGINE_TAGS
//          4   zero    u32
//          8   amount  u64   of the message's bytes, which follow; of receives posted since the last grants
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sparsecoll/sparsecoll.h"
#include "transports/bootstrap/socket.h"
#include "transports/engine/tag.h"
#include "transports/tcp/room.h"

namespace sparsecoll::tcp {

inline constexpr size_t kHeadBytes = 16;
using HeadBytes = std::array<std::byte, kHeadBytes>;

enum class HeadKind : uint16_t { kMessage = 1, kGrants = 2 };

struct Head {
  HeadKind kind = HeadKind::kMessage;
  uint16_t tag = 0;
  uint64_t amount = 0;
};
HeadBytes writeHead(const Head& head);
// Errors: Corrupted.
Result<Head> readHead(std::span<const std::byte, kHeadBytes> bytes);

inline constexpr bool isFrame(uint16_t tag) { return tag == engine::kFrames; }

// One message, sent or received.
struct Request {
  enum class State : uint8_t { kUnderWay, kDone, kFailed };

  bool ended() const { return state != State::kUnderWay; }
  // Of a send. What has failed keeps nobody waiting.
  bool begun() const { return headMoved != 0 || ended(); }
  uint64_t left() const { return bytes - moved; }

  State state = State::kUnderWay;
  bool receives = false;
  bool cancelled = false;
  uint16_t tag = 0;
  int peer = -1;
  std::byte* data = nullptr;  // only read where the message is sent
  uint64_t bytes = 0;         // of a receive its capacity, until its message has begun
  uint64_t moved = 0;
  uint64_t ticket = 0;   // of a send: its place among those of the connection
  HeadBytes head{};      // of a send
  size_t headMoved = 0;  // of the head's bytes
  Request* next = nullptr;
};

// Requests in the order in which they came. Takes no memory.
class Queue {
 public:
  bool empty() const { return first_ == nullptr; }
  Request* first() const { return first_; }
  void push(Request& request);
  Request& pop();
  // Whether it was there.
  bool remove(Request& request);

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

// What a rank's connections have in common.
struct Tally {
  uint64_t ended = 0;  // requests
  int halfway = 0;     // messages that have come in part
  // Of those that leave this host: bytes, and how fast sockets drained from one time when they were full to the next,
  // in bytes a second, by bytes.
  uint64_t sent = 0;
  Rates drains;
};

class Connection {
 public:
  Connection(bootstrap::Fd socket, Tally& tally) : socket_(std::move(socket)), tally_(tally) {}

  bool open() const { return !ended_; }
  bool deaf() const { return deaf_; }
  bool mute() const { return mute_; }
  int fd() const { return socket_.get(); }
  // What it sends counts for the room from now on.
  void setLeavesHost() { leavesHost_ = true; }
  bool leavesHost() const { return leavesHost_; }
  // The room is another one: what the socket takes until it is full is not what the link has taken.
  void forgetDrain() { fullSince_.reset(); }
  // Bytes of messages that were posted and have not reached the peer's host.
  uint64_t underWay() const;

  // It ends in read, write, cancel or end; a frame that is here already in post. Only of an open connection, a send of
  // one that is not mute.
  void post(Request& request);
  // Ends it at once. What would have come for it has no place any more: nothing is read from then on. A message that
  // has left in part takes the connection with it.
  void cancel(Request& request);

  // Move what the socket gives, or takes, now. Whether anything was moved. A connection that the peer has closed, or on
  // which it says what it must not, ends. One that takes nothing any more goes mute: its sends fail, and what the peer
  // said before is still read.
  bool read();
  bool write();
  bool full() const { return full_; }  // the socket takes nothing now
  bool hasOutput() const { return open() && !mute_ && (!out_.empty() || grantsEnd_ != 0 || grantsAreDue_); }
  // What the socket is to be watched for: bits of epoll; 0: for nothing.
  uint32_t interest() const;

  // All of its requests fail, and the peer learns of it, even if a forked process has copies of the socket.
  void end();
  // Bytes that were written and have not reached the peer's host; 0 where they never will.
  uint64_t undelivered() const;

 private:
  static constexpr size_t kTags = SPARSECOLL_ENGINE_TAGS;
  static constexpr size_t kStagingBytes = 4096;  // a small message comes in one piece
  struct Lane {
    Queue receives;  // granted, or about to be
    Queue waiting;   // sends without a grant; frames behind them
    uint64_t granted = 0;
    uint64_t toGrant = 0;   // receives that the peer has not been told of
    uint64_t promised = 0;  // those it has been told of, and has begun no message for
  };

  void finish(Request& request, Request::State state);
  void failAll(Queue& queue);
  void goMute();
  bool takeStaged();
  Status begin(const Head& head);
  void landed();
  void checkGrants(uint16_t tag);
  void writeGrants();
  void letFramesLeave();
  void left(size_t bytes);
  void leftOf(Request& request, size_t& bytes);
  void noteDrain(size_t bytes);
  uint64_t unacknowledged() const;

  bootstrap::Fd socket_;
  Tally& tally_;
  std::array<Lane, kTags> lanes_;
  uint64_t tickets_ = 0;       // given out
  bool grantsAreDue_ = false;  // they leave even if nothing else does
  Queue out_;                  // sends that may leave; at most the first has left in part
  std::array<std::byte, kTags * kHeadBytes> grants_;
  size_t grantsBegin_ = 0, grantsEnd_ = 0;  // what of them has not left
  Request* landing_ = nullptr;              // the receive whose message is coming
  std::array<std::byte, kStagingBytes> staging_;
  size_t staged_ = 0;  // 0 while a message is coming
  bool leavesHost_ = false;
  bool full_ = false;
  std::optional<std::chrono::steady_clock::time_point> fullSince_;
  bool stalled_ = false;  // a frame has come whose envelope has not been taken
  bool deaf_ = false;     // nothing that comes is of interest any more
  bool mute_ = false;     // nothing can be sent any more
  bool ended_ = false;
};

}  // namespace sparsecoll::tcp
