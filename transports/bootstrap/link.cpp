#include "transports/bootstrap/link.h"

#include <array>

#include "core/poll.h"

namespace sparsecoll::bootstrap {

void Link::send(FrameType type, Bytes payload) noexcept {
  if (!open() || unheard_) return;
  try {
    appendFrame(out_, type, payload, keys_.out, sent_++);
  } catch (const std::bad_alloc&) {
    out_.clear();
    close();
    starved_ = true;
    return;
  }
  flush();
}

void Link::flush() {
  size_t at = 0;
  while (at < out_.size() && open() && !unheard_) {
    const size_t sent = bootstrap::send(socket_, Bytes(out_).subspan(at), unheard_);
    if (sent == 0) break;
    at += sent;
  }
  out_.erase(out_.begin(), open() && !unheard_ ? out_.begin() + static_cast<ptrdiff_t>(at) : out_.end());
}

// No more than about one frame of the longest is taken before it is looked at.
void Link::fill() {
  std::array<std::byte, 4096> piece;
  while (open() && in_.size() <= kMostControlBytes) {
    const size_t got = bootstrap::receive(socket_, piece, closed_);
    if (got == 0) return;
    in_.insert(in_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(got));
  }
}

pollfd Stranger::watch() const {
  const bool writes = connecting_ || hello_.speaks();
  return {socket_.get(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0};
}

Stranger::State Stranger::gone(Status why) {
  why_ = std::move(why);
  return State::kGone;
}

Stranger::State Stranger::advance() {
  if (connecting_) {
    std::array<pollfd, 1> self = {watch()};
    if (!awaitAny(self, Deadline::in(0)))
      return deadline_.expired() ? gone(fail(sparsecollTimeout, "nobody answers")) : State::kGoing;
    if (Status status = connected(socket_); !status.ok()) return gone(std::move(status));
    connecting_ = false;
  }
  for (;;) {
    bool closed = false;
    std::vector<std::byte>& out = hello_.outgoing();
    while (!out.empty()) {
      const size_t sent = bootstrap::send(socket_, out, closed);
      if (sent == 0) break;
      out.erase(out.begin(), out.begin() + static_cast<ptrdiff_t>(sent));
    }
    if (out.empty() && hello_.done()) return State::kProven;
    std::array<std::byte, kServerHelloBytes> piece;
    const size_t missing = hello_.wanted() - in_.size();
    const size_t got = closed ? 0 : bootstrap::receive(socket_, std::span(piece).first(missing), closed);
    in_.insert(in_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(got));
    if (closed) return gone(fail(sparsecollSystemError, "the other side closed the connection"));
    if (deadline_.expired()) return gone(fail(sparsecollTimeout, "no hello in time"));
    if (in_.size() < hello_.wanted() || hello_.wanted() == 0) return State::kGoing;
    if (Status status = hello_.take(in_); !status.ok()) return gone(std::move(status));
    in_.clear();
  }
}

}  // namespace sparsecoll::bootstrap
