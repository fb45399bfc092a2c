#include "cuda/users.h"

#include <algorithm>
#include <new>

#include "cuda/cuda_kernels.h"

namespace sparsecoll::cuda {

namespace {

// An event that was never recorded is reached. What fails counts as reached: the device runs nothing any more.
bool reached(const OwnEvent& event) { return taken(cudaEventQuery(event.get())) != cudaErrorNotReady; }

}  // namespace

Result<size_t> Users::add(int device) {
  auto user = std::make_unique<User>();
  user->device = device;
  const OnDevice current(device);
  if (const cudaError_t error = user->replayed.make(); error != cudaSuccess)
    return fail(sparsecollCudaError, "an event: {}", cudaGetErrorString(error));
  const std::lock_guard lock(mutex_);
  users_.push_back(std::move(user));
  return users_.size() - 1;
}

// A mark that cannot be made is one of a stream, or of a capture, that is of no use any more.
void Users::mark(size_t user, cudaStream_t stream, bool captured) {
  const std::lock_guard lock(mutex_);
  User& one = *users_[user];
  if (captured) {
    one.captured = true;
    (void)taken(cudaEventRecordWithFlags(one.replayed.get(), stream, cudaEventRecordExternal));
    return;
  }
  record(one, stream);
}

// A mark on another stream says nothing of this one's work. Streams come and go, so marks that are reached go as well.
// Without a mark the work itself is waited for.
void Users::record(User& user, cudaStream_t stream) {
  if (!tryRecord(user, stream)) (void)untilDone(stream, Deadline::in(patienceMs_));
}

bool Users::tryRecord(User& user, cudaStream_t stream) try {
  auto run = std::ranges::find(user.runs, stream, &Run::stream);
  if (run == user.runs.end()) {
    const BesideCaptures beside;
    std::erase_if(user.runs, [](const Run& one) { return reached(*one.event); });
    auto event = std::make_shared<OwnEvent>();
    if (event->make() != cudaSuccess) return false;
    run = user.runs.insert(user.runs.end(), {stream, std::move(event)});
  }
  (void)taken(cudaEventRecord(run->event->get(), stream));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void Users::begin(size_t user, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  users_[user]->stream = stream;
}

void Users::end(size_t user) {
  const std::lock_guard lock(mutex_);
  users_[user]->stream.reset();
}

// Marks are taken from their users, whose next ones are others: so work that goes on does not keep memory waiting.
void Users::gather() {
  for (const auto& user : users_) {
    const OnDevice current(user->device);
    if (user->stream && !isCaptured(*user->stream, true)) record(*user, *user->stream);
    for (Run& run : user->runs) pending_.push_back(std::move(run.event));
    user->runs.clear();
  }
  std::erase_if(pending_, [](const auto& event) { return reached(*event); });
}

bool Users::over() {
  const BesideCaptures beside;
  {
    const std::lock_guard lock(mutex_);
    gather();
    if (!pending_.empty()) return false;
  }
  return replaysOver();
}

bool Users::wait() {
  const BesideCaptures beside;
  std::vector<std::shared_ptr<OwnEvent>> pending;
  Deadline deadline = Deadline::in(patienceMs_);
  {
    const std::lock_guard lock(mutex_);
    gather();
    if (!std::exchange(waits_, true)) until_ = deadline;
    deadline = until_;
    pending = pending_;
  }
  const bool over = poll(pending, deadline);
  const std::lock_guard lock(mutex_);
  if (over) waits_ = false;
  return over;
}

bool Users::poll(std::vector<std::shared_ptr<OwnEvent>>& pending, const Deadline& deadline) {
  for (;;) {
    std::erase_if(pending, [](const auto& event) { return reached(*event); });
    if (pending.empty() && replaysOver()) return true;
    if (deadline.expired()) return false;
    pause(deadline);
  }
}

bool Users::replaysOver() {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(users_, [](const auto& user) { return !user->captured || reached(user->replayed); });
}

}  // namespace sparsecoll::cuda
