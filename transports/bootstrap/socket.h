// Sockets that never block: what they cannot do now, poll tells when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "core/status.h"
#include "transports/bootstrap/address.h"

namespace sparsecoll::bootstrap {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() { *this = Fd(); }

 private:
  int fd_ = -1;
};

// A port of its own at the address, which connections find once listen() was called. Errors: SystemError.
Result<Fd> bindTo(const Address& address);
constexpr int kBacklog = 1024;  // connections that wait to be accepted
Status listen(const Fd& bound, int backlog);
// A listener at a port that others may know already: what an earlier one's connections have left behind does not keep
// it from opening, and at any address of IPv6 it is reached by IPv4, too.
struct Opening {
  Fd listener;
  int error = 0;  // errno's value, where it is not open
};
Opening openListener(const Address& address, int backlog);
Result<Address> localAddress(const Fd& socket);

enum class Arrival { kNone, kCame, kNoRoom };  // kNoRoom: the process or the machine has no descriptors left
Arrival accept(const Fd& listener, Fd& into);

// How long to wait before one connects again: at first, and at most, with twice the time in between.
constexpr uint64_t kFirstRetryMs = 2;
constexpr uint64_t kLastRetryMs = 100;  // at one address; where there are many, those of a late rank 0 get no flood

// One that is not connected yet. Errors: SystemError (no descriptor is left).
Result<Fd> socketFor(const Address& address);
// Begins to connect it. Errors: SystemError (at once, as a refusal on this machine is).
Status connectTo(const Fd& socket, const Address& address);
// Once the socket can be written to. Errors: SystemError.
Status connected(const Fd& socket);

// Some bytes; 0: none now. closed: the other side has gone, one way or another.
size_t receive(const Fd& socket, std::span<std::byte> into, bool& closed);
size_t send(const Fd& socket, std::span<const std::byte> from, bool& closed);

// Wakes a thread that waits for descriptors.
class WakeUp {
 public:
  static Result<WakeUp> make();
  int fd() const { return fd_.get(); }
  void wake() const;
  void clear() const;

 private:
  Fd fd_;
};

}  // namespace sparsecoll::bootstrap
