#include "transports/bootstrap/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

namespace sparsecoll::bootstrap {

namespace {

Status systemError(const char* call, const Address& address, int error) {
  return fail(sparsecollSystemError, "{} {}: {}", call, address.text(), std::strerror(error));
}

Result<Fd> makeSocket(const Address& address) {
  const SocketName name = address.name();
  Fd made(::socket(name.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.open()) return systemError("socket for", address, errno);
  return made;
}

// Frames are small and answered.
void sendAtOnce(const Fd& socket) {
  const int yes = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool tryAgain(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// Connections of this process by their numbers. A child that is forked has them, too, and as long as it lives the peers
// would not learn that this process has died. So a socket that leads nowhere takes their places there. A port that is
// bound, on the other hand, may be for a child: it may have been made with the id of a rank that runs there.
class Inherited {
 public:
  static void add(int fd) {
    static const int once = pthread_atfork(nullptr, nullptr, leaveInChild);
    (void)once;
    if (fd < kMost) wordOf(fd).fetch_or(bitOf(fd), std::memory_order_relaxed);
  }
  static void remove(int fd) {
    if (fd < kMost) wordOf(fd).fetch_and(~bitOf(fd), std::memory_order_relaxed);
  }

 private:
  static constexpr int kMost = 1 << 16;

  static std::atomic<uint64_t>& wordOf(int fd) { return open_[static_cast<size_t>(fd) / 64]; }
  static uint64_t bitOf(int fd) { return uint64_t{1} << (static_cast<unsigned>(fd) % 64); }

  static int nowhere() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static bool isSocket(int fd) {
    struct stat facts {};
    return fstat(fd, &facts) == 0 && S_ISSOCK(facts.st_mode);
  }

  // Calls nothing that a child of several threads must not call.
  static void leaveInChild() {
    int stand = -1;
    bool takesPlace = false;
    for (size_t word = 0; word < open_.size(); ++word)
      for (uint64_t left = open_[word].exchange(0, std::memory_order_relaxed); left != 0; left &= left - 1) {
        const int fd = static_cast<int>(64 * word) + std::countr_zero(left);
        if (!isSocket(fd)) continue;  // another file by now
        if (stand < 0) stand = nowhere();
        if (stand < 0) {  // no number is left but this one's
          (void)::close(fd);
          stand = nowhere();
          takesPlace = takesPlace || stand == fd;
        }
        if (stand >= 0 && stand != fd) (void)::dup3(stand, fd, O_CLOEXEC);
      }
    if (stand >= 0 && !takesPlace) (void)::close(stand);
  }

  static inline std::array<std::atomic<uint64_t>, kMost / 64> open_{};
};

// No longer in the list before its number may be another file's.
void closeNumber(int fd) {
  if (fd < 0) return;
  Inherited::remove(fd);
  (void)::close(fd);
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this == &other) return *this;
  closeNumber(fd_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

Fd::~Fd() { closeNumber(fd_); }

Result<Fd> bindTo(const Address& address) {
  SC_TRY(Fd made, makeSocket(address));
  const SocketName name = address.name();
  if (::bind(made.get(), name.get(), name.length) != 0) return systemError("bind to", address, errno);
  return made;
}

Status listen(const Fd& bound, int backlog) {
  if (::listen(bound.get(), backlog) == 0) return {};
  return fail(sparsecollSystemError, "listen: {}", std::strerror(errno));
}

Opening openListener(const Address& address, int backlog) {
  const SocketName name = address.name();
  Opening made{Fd(::socket(name.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
  const int yes = 1, no = 0;
  const int fd = made.listener.get();
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (name.storage.ss_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (::bind(fd, name.get(), name.length) == 0 && ::listen(fd, backlog) == 0) return made;
  return {{}, errno};
}

Result<Address> localAddress(const Fd& socket) {
  SocketName name;
  if (getsockname(socket.get(), name.room(), &name.length) != 0)
    return fail(sparsecollSystemError, "getsockname: {}", std::strerror(errno));
  return Address::of(name);
}

Arrival accept(const Fd& listener, Fd& into) {
  for (;;) {
    const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      into = Fd(fd);
      Inherited::add(fd);
      sendAtOnce(into);
      return Arrival::kCame;
    }
    if (tryAgain(errno)) return Arrival::kNone;
    if (errno != EINTR && errno != ECONNABORTED) return Arrival::kNoRoom;
  }
}

Result<Fd> socketFor(const Address& address) {
  SC_TRY(Fd made, makeSocket(address));
  Inherited::add(made.get());
  sendAtOnce(made);
  return made;
}

Status connectTo(const Fd& socket, const Address& address) {
  const SocketName name = address.name();
  if (::connect(socket.get(), name.get(), name.length) != 0 && errno != EINPROGRESS && errno != EINTR)
    return systemError("connect to", address, errno);
  return {};
}

Status connected(const Fd& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error == 0) return {};
  return fail(sparsecollSystemError, "connect: {}", std::strerror(error));
}

size_t receive(const Fd& socket, std::span<std::byte> into, bool& closed) {
  for (;;) {
    const ssize_t got = recv(socket.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    closed = closed || got == 0 || !tryAgain(errno);
    return 0;
  }
}

size_t send(const Fd& socket, std::span<const std::byte> from, bool& closed) {
  for (;;) {
    const ssize_t sent = ::send(socket.get(), from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EINTR) continue;
    closed = closed || !tryAgain(errno);
    return 0;
  }
}

Result<WakeUp> WakeUp::make() {
  WakeUp made;
  made.fd_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made.fd_.open()) return fail(sparsecollSystemError, "eventfd: {}", std::strerror(errno));
  return made;
}

void WakeUp::wake() const {
  const uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof one);
}

void WakeUp::clear() const {
  uint64_t count = 0;
  (void)!::read(fd_.get(), &count, sizeof count);
}

}  // namespace sparsecoll::bootstrap
