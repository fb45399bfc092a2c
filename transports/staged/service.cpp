#include "transports/staged/service.h"

#include <cstring>
#include <exception>
#include <utility>

#include "core/frame.h"
#include "core/patience.h"
#include "core/signals.h"

namespace sparsecoll::staged {

namespace {

void seal(const FrameExpectation& identity, std::byte* frame) {
  sealHeader({identity.sequence, identity.plan, 0, 0, 0, 0, 0}, frame);
}

// A header of zeros is of no operation.
void spoil(std::byte* frame) { std::memset(frame, 0, kFrameHeaderBytes); }
void spoil(const Job& job) {
  for (const Incoming& message : job.in) spoil(message.landing);
  if (job.verdict != nullptr) spoil(job.verdict);
}

}  // namespace

void Service::start() {
  const WithoutSignals blocked;
  ended_ = false;
  thread_ = std::thread([this] { run(); });
}

Result<Job*> Service::claim(Job::Kind kind, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const bool ends = kind == Job::Kind::kRefuse || kind == Job::Kind::kEnd;
  const auto room = [&] { return ends || !free_.empty() || jobs_ < kMostJobs; };
  if (claimed_.empty()) {
    if (!changed_.wait(lock, deadline, room))
      return fail(sparsecollTimeout, "{} rounds wait for the streams or for other ranks, and none has ended in time",
                  jobs_);
    if (free_.empty()) {
      free_.emplace_back();
      ++jobs_;
    }
    claimed_.splice(claimed_.end(), free_, free_.begin());
  }
  Job& job = claimed_.front();
  job.kind = kind;
  job.ticket = ++tickets_;
  job.awaitsStream = job.gathers = false;
  job.out.clear();
  job.in.clear();
  job.verdict = nullptr;
  return &job;
}

void Service::post(Job& job) {
  const std::lock_guard lock(mutex_);
  if (!ended_) {
    waiting_.splice(waiting_.end(), claimed_, claimed_.begin());
    changed_.wake();
    return;
  }
  spoil(job);  // nobody is there any more
  words_.pass(job.ticket);
}

bool Service::idle(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, deadline, [this] { return waiting_.empty(); });
}

Status Service::health() const {
  if (!dead_) return {};
  const std::lock_guard lock(mutex_);
  return Status(failure_.failure());
}

void Service::abandon(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (dead_) return;
  failure_ = Status(why.failure());
  dead_ = true;
}

Status Service::takeNotice() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notice_, Status());
}

void Service::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.wake();
  }
  if (thread_.joinable()) thread_.join();
}

void Service::keep(std::unique_ptr<FrameWindow> window) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(window));
}

void Service::run() {
  for (;;) {
    Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      (void)changed_.wait(lock, Deadline::in(SPARSECOLL_NO_TIMEOUT), [this] { return stops_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        ended_ = true;
        break;
      }
      job = &waiting_.front();
    }
    serveOrFail(*job);
    endJob(*job);
  }
  if (begun_) engine_.end(operation_);  // its own end comes too late, and would leave the engine at work for ever
}

// Nobody above this thread catches anything.
void Service::serveOrFail(Job& job) {
  try {
    serve(job);
  } catch (const std::exception& thrown) {
    (void)accept(fail(sparsecollInternalError, "operation {}: {}", operation_.sequence, thrown.what()));
    spoil(job);
  }
}

void Service::endJob(const Job& job) {
  const std::lock_guard lock(mutex_);
  words_.pass(job.ticket);
  free_.splice(free_.end(), waiting_, waiting_.begin());
  changed_.wake();
}

void Service::serve(Job& job) {
  switch (job.kind) {
    case Job::Kind::kBegin:
      operation_ = job.operation;
      givenUp_ = false;
      summed_ = true;
      begun_ = !dead_;
      if (begun_) (void)accept(engine_.begin(operation_));
      return;
    case Job::Kind::kRound:
      if (!bring(job)) spoil(job);
      return;
    case Job::Kind::kSum:
      summed_ = bring(job) && summed_;
      if (job.verdict == nullptr) return;
      if (summed_)
        seal(operation_.identity(), job.verdict);
      else
        spoil(job.verdict);
      return;
    case Job::Kind::kRefuse:
      if (begun_ && !givenUp_) engine_.refuse(operation_, job.why);
      givenUp_ = true;
      return;
    case Job::Kind::kEnd:
      if (begun_) engine_.end(operation_);
      begun_ = false;
      return;
  }
}

// Whether what was to arrive has. Where the operation is given up, nothing is touched before its stream has come this
// far, either: earlier frames may still be on their way to the device.
bool Service::bring(Job& job) {
  if (dead_) return false;
  if (job.awaitsStream && !accept(awaitStream(job))) return false;
  return !givenUp_ && begun_ && accept(work(job));
}

Status Service::work(Job& job) {
  if (job.kind == Job::Kind::kSum) return engine_.allReduce(operation_, job.sum, {});
  for (const Outgoing& message : job.out)
    if (message.layout.usedBytes(readHeader(message.frame)) > message.layout.capacityBytes())
      return fail(sparsecollInternalError, "a frame that is longer than its room, from the device");
  return job.gathers ? engine_.gather(operation_, job.out, job.in, {}) : engine_.round(operation_, job.out, job.in, {});
}

Status Service::awaitStream(const Job& job) {
  for (Patience patience(operation_.deadline); !words_.signalled(job.ticket);) {
    if (dead_) return health();
    if (!patience.rest())
      return fail(sparsecollTimeout, "the stream has not come to operation {} in time", operation_.sequence);
  }
  return {};
}

bool Service::accept(const Status& status) {
  if (status.ok()) return true;
  Failure failure = status.failure();
  if (failure.result == sparsecollMismatch) {  // the ranks go on with the next one
    givenUp_ = true;
    engine_.refuse(operation_, failure);
    const std::lock_guard lock(mutex_);
    if (notice_.ok()) notice_ = Status(failure);
    return false;
  }
  if (!isFatal(failure.result)) failure.result = sparsecollInternalError;
  abandon(Status(failure));
  engine_.abort();  // peers must not wait for this rank
  return false;
}

}  // namespace sparsecoll::staged
