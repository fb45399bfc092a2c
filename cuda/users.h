// Who works on the memory of a group, and how far each of them has got. Memory goes back once all are behind what they
// had enqueued. To wait for the devices instead could last for ever, and is not allowed while anything is captured.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/kernels.h"
#include "core/log.h"
#include "core/wait.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

// Any thread.
class Users {
 public:
  // patienceMs: how long memory that is to go back is waited for, once. log: of what then stays where it is.
  Users(uint64_t patienceMs, Logger log) : patienceMs_(patienceMs), log_(std::move(log)) {}

  // A rank on the device. Returns its number. Errors: CudaError.
  Result<size_t> add(int device);
  // Here on the stream the rank is at the end of what it has enqueued. captured: in every replay again.
  void mark(size_t user, cudaStream_t stream, bool captured);
  // Between the two the rank may enqueue on the stream at any moment.
  void begin(size_t user, cudaStream_t stream);
  void end(size_t user);
  // Whether everybody is past the latest marks, and past what is on the streams that are in use. Waits for that, but
  // all calls together no longer than patience allows.
  bool wait();
  // The same at this moment.
  bool over();
  void tellAbandoned(uint64_t bytes, int device) const {
    log_.write(sparsecollLogError, "cuda", "{} bytes on device {} are left for ever: work that uses them does not end",
               bytes, device);
  }

 private:
  struct Run {
    cudaStream_t stream;
    std::shared_ptr<OwnEvent> event;  // recorded behind what was run there
  };
  struct User {
    int device = 0;
    std::vector<Run> runs;  // of every stream; wait takes them
    OwnEvent replayed;      // a node of all captured steps
    bool captured = false;
    std::optional<cudaStream_t> stream;  // in use
  };
  void gather();
  void record(User& user, cudaStream_t stream);
  bool tryRecord(User& user, cudaStream_t stream);
  bool poll(std::vector<std::shared_ptr<OwnEvent>>& pending, const Deadline& deadline);
  bool replaysOver();

  const uint64_t patienceMs_;
  const Logger log_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<User>> users_;
  std::vector<std::shared_ptr<OwnEvent>> pending_;  // marks that memory waits for
  bool waits_ = false;                              // for them, since a while,
  Deadline until_ = Deadline::in(0);                // and no longer than this
};

}  // namespace sparsecoll::cuda
