// One ncclComm_t and who may touch it. NCCL allows one thread at a time in it, and ncclCommAbort frees it: so every
// call goes through here, and an abort from another thread comes between two calls. That is soon, because communicators
// that the library makes never block inside a call; what NCCL has not finished then is asked for again and again, until
// a deadline.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "core/status.h"
#include "core/wait.h"
#include "transports/nccl/library.h"

namespace sparsecoll::nccl {

// What a result means outside of an operation, where the call had no effect.
Status statusOf(const Library& library, Code code, const char* call);

class Connection {
 public:
  // Collective.
  static Result<std::unique_ptr<Connection>> make(const Library& library, int ranks, int rank, const UniqueId& id,
                                                  const Deadline& deadline, uint64_t abortTimeoutMs);
  static Result<std::unique_ptr<Connection>> adopt(const Library& library, Comm comm, bool split,
                                                   const Deadline& deadline, uint64_t abortTimeoutMs);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const Library& library() const { return library_; }

  // Runs body(comm), a Code, and waits until NCCL has taken all of it.
  template <class Body>
  Status call(const char* what, const Deadline& deadline, Body body) {
    Code code = kSuccess;
    {
      const std::lock_guard lock(mutex_);
      if (comm_ == nullptr || aborted_) return aborted();
      code = body(comm_);
    }
    if (code == kInProgress) {
      SC_TRY(code, finish(what, deadline));
    }
    return inOperation(code, what);
  }
  // The same for calls that travel together.
  template <class Body>
  Status group(const char* what, const Deadline& deadline, Body body) {
    return call(what, deadline, [&](Comm comm) {
      const Code begun = library_.GroupStart();
      if (begun != kSuccess) return begun;
      const Code code = body(comm);
      const Code ended = library_.GroupEnd();
      return code == kSuccess || code == kInProgress ? ended : code;
    });
  }

  // What NCCL has found wrong since.
  Status health();
  // Any thread, any moment, any number of times. Returns within abortTimeoutMs, if a thread can be made.
  void abort();
  void close(const Deadline& deadline);

  // Of this rank, about the others.
  template <class... Args>
  Status failHere(sparsecollResult_t result, fmt::format_string<Args...> text, Args&&... args) const {
    const int other = ranks_ == 2 ? 1 - rank_ : -1;  // NCCL names nobody
    return failBy(other, result, "rank {} of {}: {}", rank_, ranks_,
                  Text<200>::format(text, std::forward<Args>(args)...));
  }

 private:
  Connection(const Library& library, bool owned, uint64_t abortTimeoutMs)
      : library_(library), owned_(owned), abortTimeoutMs_(abortTimeoutMs) {}
  // Waits for what has made comm_.
  Status begin(const char* what, Code code, const Deadline& deadline);
  // What NCCL says once it has taken what it was given. Errors: Timeout, Aborted.
  Result<Code> finish(const char* what, const Deadline& deadline);
  Status inOperation(Code code, const char* what) const;
  Status aborted() const { return fail(sparsecollAborted, "the communicator was aborted"); }

  const Library library_;
  const bool owned_;
  const uint64_t abortTimeoutMs_;
  int rank_ = 0;
  int ranks_ = 1;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards comm_ and all calls with it
  Comm comm_ = nullptr;
};

}  // namespace sparsecoll::nccl
