// A connection between two ranks that have proven themselves, and one that has not got as far.
#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "core/wait.h"
#include "transports/bootstrap/control_frame.h"
#include "transports/bootstrap/hello.h"
#include "transports/bootstrap/socket.h"

namespace sparsecoll::bootstrap {

class Link {
 public:
  Link() = default;
  Link(Fd socket, int peer, const FrameKeys& keys) : socket_(std::move(socket)), peer_(peer), keys_(keys) {}

  int peer() const { return peer_; }
  bool open() const { return socket_.open() && !closed_; }
  bool closed() const { return closed_; }    // by the other side
  bool starved() const { return starved_; }  // by this one, which had no memory for a frame
  void close() { socket_.close(); }
  const Fd& socket() const { return socket_; }
  // For something else than frames, once both sides have read all of these.
  Fd takeSocket() { return std::move(socket_); }

  // Puts a frame behind what has not left yet, and sends what the socket takes. Once the other side takes nothing any
  // more frames are dropped; what it said before can still be received, and then that it closed.
  // Without memory for it the connection is closed: the other side would wait for ever for half a frame.
  void send(FrameType type, Bytes payload) noexcept;
  void flush();
  bool pending() const { return !out_.empty(); }
  pollfd watch() const { return {socket_.get(), static_cast<short>(POLLIN | (pending() ? POLLOUT : 0)), 0}; }

  // Reads what has come and calls onFrame(type, payload), a Status, for every whole frame. Errors: Corrupted,
  // AuthFailed, and onFrame's; what came is forgotten then.
  template <class OnFrame>
  Status receive(OnFrame onFrame) {
    fill();
    size_t at = 0;
    Status status;
    while (status.ok()) {
      auto parsed = parseFrame(Bytes(in_).subspan(at), keys_.in, received_);
      if (!parsed.ok()) {
        status = parsed.takeStatus();
        break;
      }
      if (!parsed->has_value()) break;
      ++received_;
      at += (*parsed)->bytes;
      status = onFrame((*parsed)->type, (*parsed)->payload);
    }
    in_.erase(in_.begin(), status.ok() ? in_.begin() + static_cast<ptrdiff_t>(at) : in_.end());
    return status;
  }

 private:
  void fill();

  Fd socket_;
  int peer_ = -1;
  FrameKeys keys_;
  bool closed_ = false;
  bool starved_ = false;
  bool unheard_ = false;  // nothing can be sent any more
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
};

// One side of a hello on a socket.
class Stranger {
 public:
  enum class State { kGoing, kProven, kGone };

  Stranger(Fd socket, Hello hello, const Deadline& deadline, bool connecting)
      : socket_(std::move(socket)), hello_(std::move(hello)), deadline_(deadline), connecting_(connecting) {}

  const Deadline& deadline() const { return deadline_; }
  pollfd watch() const;
  // Goes on as far as it can. kGone: the deadline has passed, the other side has gone, or what it said was wrong.
  State advance();
  const Status& why() const { return why_; }     // once it is gone
  bool reached() const { return !connecting_; }  // by its connection
  bool greeted() const { return hello_.greeted(); }
  Claim peer() const { return hello_.peer(); }
  Link intoLink(int peer) { return {std::move(socket_), peer, hello_.frameKeys()}; }

 private:
  State gone(Status why);

  Fd socket_;
  Hello hello_;
  Deadline deadline_;
  bool connecting_;
  std::vector<std::byte> in_;
  Status why_;
};

}  // namespace sparsecoll::bootstrap
