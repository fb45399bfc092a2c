// A libc whose calls fail when a test wants it. The executable's own definitions go before libc's, for all that is in
// the process; only a thread that has armed a fault sees one.
#pragma once

#include <cstdint>

namespace sparsecoll::test::libc {

enum class Call {
  kSocket,
  kBind,
  kListen,
  kAccept,
  kConnect,
  kSend,
  kRecv,
  kPoll,
  kGetSockName,
  kEventFd,
  kOpen,
  kRead,
  kWrite,
  kFsync,
  kRename,
  kClose,
  kCalls
};

constexpr int kShort = -1;  // instead of an errno: the call does one byte less than it was asked for

// From now on the call of this thread that follows `skip` ones of its kind fails, once.
void failAfter(Call call, uint64_t skip, int error);
// Whether it has; nothing fails any more.
bool failed();

// While it lives no other thread comes back from a wait for descriptors, as on a machine that is too busy for it. There
// is one at a time.
class Starvation {
 public:
  // Returns once so many threads are kept.
  explicit Starvation(int threads);
  ~Starvation();
  Starvation(const Starvation&) = delete;
  Starvation& operator=(const Starvation&) = delete;
};

}  // namespace sparsecoll::test::libc
