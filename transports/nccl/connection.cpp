#include "transports/nccl/connection.h"

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/beside.h"
#include "core/patience.h"
#include "cuda/calls.h"

namespace sparsecoll::nccl {

namespace {

struct Row {
  Code code;
  sparsecollResult_t made;  // outside of operations
  sparsecollResult_t run;   // in one, where NCCL's communicator is of no use after any error
};

constexpr Row kRows[] = {
    {kUnhandledCudaError, sparsecollCudaError, sparsecollCudaError},
    {kSystemError, sparsecollSystemError, sparsecollSystemError},
    {kInternalError, sparsecollInternalError, sparsecollInternalError},
    {kInvalidArgument, sparsecollInvalidArgument, sparsecollInternalError},
    {kInvalidUsage, sparsecollInvalidUsage, sparsecollInternalError},
    {kRemoteError, sparsecollRemoteError, sparsecollRemoteError},
    {kTimeout, sparsecollTimeout, sparsecollTimeout},
};

Row rowOf(Code code) {
  for (const Row& row : kRows)
    if (row.code == code) return row;
  return {code, sparsecollInternalError, sparsecollInternalError};
}

Text<200> textOf(const Library& library, Code code, const char* call, Comm comm) {
  const char* const name = library.GetErrorString(code);
  const char* const last = library.GetLastError(comm);
  Text<200> text = Text<200>::format("{}: {}", call, name != nullptr ? name : "unknown");
  if (last != nullptr && last[0] != '\0') text.append(" ({})", last);
  return text;
}

constexpr const char* kNotInTime = "the other ranks have not come in time";

// NCCL may still write there.
void leaveBehind(std::unique_ptr<Comm> place) {
  static std::mutex mutex;
  static auto& places = *new std::vector<std::unique_ptr<Comm>>;
  const std::lock_guard lock(mutex);
  places.push_back(std::move(place));
}

Code stateOf(const Library& library, Comm comm) {
  Code state = kInProgress;
  const Code asked = library.CommGetAsyncError(comm, &state);
  return asked != kSuccess ? asked : state;
}

// What a communicator of the caller's says once it is no longer in progress; nothing: it is at the deadline.
std::optional<Code> settle(const Library& library, Comm comm, const Deadline& deadline) {
  for (Patience patience(deadline);;) {
    const Code state = stateOf(library, comm);
    if (state != kInProgress) return state;
    if (!patience.rest()) return std::nullopt;
  }
}

// NCCL frees the streams at once, but returns only when no graph lives that holds operations of the communicator: and
// the one that is to destroy it may be the caller of this.
void abortInTime(const Library& library, Comm comm, const Deadline& deadline) {
  const auto abort = [abort = library.CommAbort, comm] {
    const cuda::BesideCaptures beside;
    (void)abort(comm);
  };
  try {
    (void)runBeside(abort, deadline);
  } catch (const std::exception&) {  // no memory, or no thread
    abort();
  }
}

}  // namespace

Status statusOf(const Library& library, Code code, const char* call) {
  if (code == kSuccess) return {};
  return fail(rowOf(code).made, "{}", textOf(library, code, call, nullptr));
}

Result<std::unique_ptr<Connection>> Connection::make(const Library& library, int ranks, int rank, const UniqueId& id,
                                                     const Deadline& deadline, uint64_t abortTimeoutMs) {
  std::unique_ptr<Connection> made(new Connection(library, true, abortTimeoutMs));
  made->rank_ = rank;
  made->ranks_ = ranks;
  Config config;
  const Code code = library.CommInitRankConfig(&made->comm_, ranks, id, rank, &config);
  SC_TRY(made->begin("ncclCommInitRankConfig", code, deadline));
  return made;
}

Result<std::unique_ptr<Connection>> Connection::adopt(const Library& library, Comm comm, bool split,
                                                      const Deadline& deadline, uint64_t abortTimeoutMs) {
  if (split && library.CommSplit == nullptr)
    return unsupported("NCCL {} cannot split communicators, 2.18 and newer can", library.version);
  std::unique_ptr<Connection> made(new Connection(library, split, abortTimeoutMs));
  SC_TRY(statusOf(library, library.CommUserRank(comm, &made->rank_), "ncclCommUserRank"));
  SC_TRY(statusOf(library, library.CommCount(comm, &made->ranks_), "ncclCommCount"));
  if (!split) {
    made->comm_ = comm;
    return made;
  }
  // Of a communicator that does not block the call has only begun it, whatever it returns, and writes to the place once
  // that communicator is no longer in progress: after a Timeout some time, or never.
  auto place = std::make_unique<Comm>(nullptr);
  Config config;
  Code code = library.CommSplit(comm, 0, made->rank_, place.get(), &config);
  if (code == kSuccess || code == kInProgress) {
    const auto settled = settle(library, comm, deadline);
    if (!settled) {
      leaveBehind(std::move(place));
      return made->failHere(sparsecollTimeout, "ncclCommSplit: {}", kNotInTime);
    }
    code = *settled;
  }
  made->comm_ = *place;
  if (code == kSuccess && made->comm_ != nullptr) code = kInProgress;  // the new one may need a while
  SC_TRY(made->begin("ncclCommSplit", code, deadline));
  return made;
}

Status Connection::begin(const char* what, Code code, const Deadline& deadline) {
  if (code == kInProgress) {
    SC_TRY(code, finish(what, deadline));
  }
  SC_TRY(statusOf(library_, code, what));
  if (comm_ == nullptr) return fail(sparsecollInternalError, "{} made no communicator", what);
  return {};
}

// Whatever was not given back by close is of no use any more.
Connection::~Connection() { abort(); }

Status Connection::inOperation(Code code, const char* what) const {
  if (code == kSuccess) return {};
  return failHere(rowOf(code).run, "{}", textOf(library_, code, what, nullptr));
}

Result<Code> Connection::finish(const char* what, const Deadline& deadline) {
  for (Patience patience(deadline);;) {
    Code state = kInProgress;
    {
      const std::lock_guard lock(mutex_);
      if (comm_ == nullptr || aborted_) return aborted();
      state = stateOf(library_, comm_);
    }
    if (state != kInProgress) return state;
    if (!patience.rest()) return failHere(sparsecollTimeout, "{}: {}", what, kNotInTime);
  }
}

Status Connection::health() {
  Code state = kSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr || aborted_) return aborted();
    state = stateOf(library_, comm_);
  }
  return state == kInProgress ? Status() : inOperation(state, "NCCL");
}

void Connection::abort() {
  aborted_ = true;
  if (!owned_) return;
  Comm comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) abortInTime(library_, comm, Deadline::in(abortTimeoutMs_));
}

void Connection::close(const Deadline& deadline) {
  const bool drained =
      owned_ && call("ncclCommFinalize", deadline, [&](Comm comm) { return library_.CommFinalize(comm); }).ok();
  const std::lock_guard lock(mutex_);
  if (!owned_) comm_ = nullptr;
  if (!drained || comm_ == nullptr) return;  // what is left is aborted
  (void)library_.CommDestroy(comm_);
  comm_ = nullptr;
}

}  // namespace sparsecoll::nccl
