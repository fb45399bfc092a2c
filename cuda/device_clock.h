// Events between a step's phases. They are asked, never waited for, so a step's times are known once it is over.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "core/step_clock.h"
#include "cuda/device_context.h"

namespace sparsecoll::cuda {

class DeviceClock final : public StepClock {
 public:
  static Result<std::unique_ptr<StepClock>> make(int device);
  ~DeviceClock() override;
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  void start(Phase first, Stream stream) override;
  void end(Phase phase, Stream stream) override;
  void stop() override;
  PhaseTimes latest() override;

 private:
  // So many steps may be under way at once and still be timed.
  static constexpr size_t kLaps = 4;

  struct Lap {
    std::array<cudaEvent_t, kPhases + 1> events{};  // its start, and the end of each phase
    std::array<Phase, kPhases> phases{};
    size_t ended = 0;       // phases
    uint64_t number = 0;    // of the step; 0: nothing to be learnt here
    bool enqueued = false;  // all of it
  };

  DeviceClock() = default;
  void openRange(size_t phase);
  void closeRange();
  void harvest();
  std::optional<PhaseTimes> timesOf(const Lap& lap) const;

  bool rangeOpen_ = false;  // of the thread that runs the steps
  std::mutex mutex_;        // guards all that follows
  bool recording_ = false;  // the latest step is being recorded in a graph, while events must not be asked
  std::array<Lap, kLaps> laps_;
  Lap* running_ = nullptr;  // nullptr: this step is not timed
  uint64_t steps_ = 0;
  uint64_t reported_ = 0;  // the step that latest_ is of
  PhaseTimes latest_;
};

}  // namespace sparsecoll::cuda
