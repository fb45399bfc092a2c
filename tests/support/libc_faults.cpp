#include "tests/support/libc_faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <thread>

namespace sparsecoll::test::libc {

namespace {

thread_local Call armed = Call::kCalls;
thread_local uint64_t left = 0;
thread_local int how = 0;
thread_local bool fired = false;

std::atomic<bool> starving{false};
std::atomic<int> kept{0};
thread_local bool goesOn = false;

void aMoment() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

void starve() {
  if (goesOn || !starving) return;
  const int error = errno;
  for (++kept; starving;) aMoment();
  --kept;
  errno = error;
}

// 0: the call is to do its work.
int fault(Call call) {
  if (armed != call || left-- != 0) return 0;
  armed = Call::kCalls;
  fired = true;
  if (how != kShort) errno = how;
  return how;
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

size_t shortened(int result, size_t bytes) { return result == kShort && bytes > 1 ? bytes - 1 : bytes; }

}  // namespace

void failAfter(Call call, uint64_t skip, int error) {
  fired = false;
  left = skip;
  how = error;
  armed = call;
}

bool failed() {
  armed = Call::kCalls;
  return fired;
}

Starvation::Starvation(int threads) {
  goesOn = starving = true;
  while (kept < threads) aMoment();
}

Starvation::~Starvation() { goesOn = starving = false; }

}  // namespace sparsecoll::test::libc

using namespace sparsecoll::test::libc;

#define LIBC extern "C" __attribute__((visibility("default")))
#define REAL(name) static auto* const call = real(&::name, #name)

LIBC int socket(int domain, int type, int protocol) noexcept {
  REAL(socket);
  return fault(Call::kSocket) > 0 ? -1 : call(domain, type, protocol);
}
LIBC int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  REAL(bind);
  return fault(Call::kBind) > 0 ? -1 : call(fd, address, length);
}
LIBC int listen(int fd, int backlog) noexcept {
  REAL(listen);
  return fault(Call::kListen) > 0 ? -1 : call(fd, backlog);
}
LIBC int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  REAL(accept4);
  return fault(Call::kAccept) > 0 ? -1 : call(fd, address, length, flags);
}
// One that is interrupted goes on.
LIBC int connect(int fd, const sockaddr* address, socklen_t length) {
  REAL(connect);
  const int error = fault(Call::kConnect);
  if (error <= 0) return call(fd, address, length);
  if (error == EINTR) (void)call(fd, address, length);
  errno = error;
  return -1;
}
LIBC ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  REAL(send);
  const int error = fault(Call::kSend);
  return error > 0 ? -1 : call(fd, data, shortened(error, bytes), flags);
}
LIBC ssize_t recv(int fd, void* data, size_t bytes, int flags) {
  REAL(recv);
  const int error = fault(Call::kRecv);
  return error > 0 ? -1 : call(fd, data, shortened(error, bytes), flags);
}
LIBC int ppoll(pollfd* watched, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  REAL(ppoll);
  const int ready = fault(Call::kPoll) > 0 ? -1 : call(watched, count, timeout, mask);
  starve();
  return ready;
}
LIBC int getsockname(int fd, sockaddr* address, socklen_t* length) noexcept {
  REAL(getsockname);
  return fault(Call::kGetSockName) > 0 ? -1 : call(fd, address, length);
}
LIBC int eventfd(unsigned int count, int flags) noexcept {
  REAL(eventfd);
  return fault(Call::kEventFd) > 0 ? -1 : call(count, flags);
}
LIBC int open(const char* path, int flags, ...) {
  static auto* const call = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return fault(Call::kOpen) > 0 ? -1 : call(path, flags, mode);
}
LIBC ssize_t read(int fd, void* data, size_t bytes) {
  REAL(read);
  const int error = fault(Call::kRead);
  return error > 0 ? -1 : call(fd, data, shortened(error, bytes));
}
LIBC ssize_t write(int fd, const void* data, size_t bytes) {
  REAL(write);
  const int error = fault(Call::kWrite);
  return error > 0 ? -1 : call(fd, data, shortened(error, bytes));
}
LIBC int fsync(int fd) {
  REAL(fsync);
  return fault(Call::kFsync) > 0 ? -1 : call(fd);
}
LIBC int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  return fault(Call::kRename) > 0 ? -1 : call(from, to);
}
// One that fails has closed.
LIBC int close(int fd) {
  REAL(close);
  const int error = fault(Call::kClose);
  const int closed = call(fd);
  if (error <= 0) return closed;
  errno = error;
  return -1;
}
