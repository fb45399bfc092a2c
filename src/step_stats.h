// What a reducer tells of its steps: counts, bytes and times. On devices steps are counted there, replays of captured
// ones too, and known to the host once they are over.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "core/step_clock.h"
#include "selectors/selection.h"
#include "src/communicator.h"
#include "src/reducer_spec.h"
#include "src/sum_check.h"

namespace sparsecoll {

class StepStats {
 public:
  // All three live as long as it does.
  static Result<std::unique_ptr<StepStats>> make(Communicator& comm, const ReducerSpec& spec,
                                                 const std::shared_ptr<MemoryBudget>& budget);

  // The reducer's vector has n elements, of which spec has a shard, and so many ranks own that.
  void countShard(uint64_t n, int owners) {
    length_ = n;
    ranks_ = owners;
  }

  // Entries of a residual that did not come with the reducer from another communicator.
  void countLost(uint64_t entries) {
    const std::lock_guard lock(mutex_);
    total_.entriesLost += entries;
    comm_.addEntriesLost(entries);
  }

  // A step begins on the stream, with this phase.
  void begin(Operation& operation, Phase first, Stream stream);
  void end(Phase phase, Stream stream) { clock_->end(phase, stream); }
  sparsecollStats_t& step() { return step_; }  // the one under way
  // The step is over. selection: nullptr for the dense collective.
  void finish(const Operation& operation, const Status& status, const Selection* selection);
  Stream lastStream() const { return lastStream_; }               // of the latest step
  bool captured() const { return replay_.opsStarted != 0; }  // a step was

  // Waits for the latest step on a device, unless that is being captured. Any thread. Errors: Timeout, CudaError.
  Status reachLatest() const;
  // All steps that reachLatest has waited for, at least. Any thread. sumCheck: nullptr where there is none.
  sparsecollStats_t now(const Selection* selection, const SumCheck* sumCheck) const;

 private:
  StepStats(Communicator& comm, const ReducerSpec& spec, const std::shared_ptr<MemoryBudget>& budget);
  void tellControl(const Control& control, const Selection& selection, sparsecollStats_t& stats) const;
  void tellTimes(sparsecollStats_t& stats) const;
  void addReplays(sparsecollStats_t& stats) const;
  void addFromDevice(const Selection* selection, const SumCheck* sumCheck, sparsecollStats_t& stats) const;

  Communicator& comm_;
  const ReducerSpec& spec_;
  const std::shared_ptr<MemoryBudget> budget_;
  std::unique_ptr<StepClock> clock_;
  std::unique_ptr<Marker> ended_;  // on devices: the latest step that was run
  Buffer replays_;  // on devices: how many captured steps were replayed
  uint64_t length_;
  int ranks_;
  sparsecollStats_t step_{};
  mutable std::mutex mutex_;  // guards what follows
  sparsecollStats_t total_;
  Stream lastStream_;
  sparsecollStats_t replay_{};  // what a captured step counts for; zeros: none was captured
};

}  // namespace sparsecoll
