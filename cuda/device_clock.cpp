#include "cuda/device_clock.h"

#include <algorithm>
#include <utility>

#include "cuda/cuda_kernels.h"
#include "cuda/objects.h"
#include "cuda/ranges.h"

namespace sparsecoll::cuda {

namespace {

uint64_t nsOf(float milliseconds) { return static_cast<uint64_t>(std::max(0.0, double{milliseconds} * 1e6)); }

}  // namespace

Result<std::unique_ptr<StepClock>> DeviceClock::make(int device) {
  std::unique_ptr<DeviceClock> clock(new DeviceClock());
  const OnDevice current(device);
  cudaError_t error = cudaSuccess;
  for (Lap& lap : clock->laps_)
    for (cudaEvent_t& event : lap.events)
      if (error == cudaSuccess) error = taken(cudaEventCreate(&event));
  if (error == cudaSuccess) return std::unique_ptr<StepClock>(std::move(clock));
  return fail(sparsecollCudaError, "events for {} steps on device {}: {}", kLaps, device, cudaGetErrorString(error));
}

DeviceClock::~DeviceClock() {
  for (Lap& lap : laps_)
    for (const cudaEvent_t event : lap.events)
      if (event != nullptr) (void)taken(cudaEventDestroy(event));
}

void DeviceClock::openRange(size_t phase) {
  pushRange(kPhaseNames[phase]);
  rangeOpen_ = true;
}

void DeviceClock::closeRange() {
  if (std::exchange(rangeOpen_, false)) popRange();
}

void DeviceClock::start(Phase first, Stream stream) {
  openRange(static_cast<size_t>(first));
  const auto handle = static_cast<cudaStream_t>(stream.handle);
  const std::lock_guard lock(mutex_);
  ++steps_;
  running_ = nullptr;
  recording_ = isCaptured(handle, true);  // a step that is being recorded in a graph has no time
  if (recording_) return;
  harvest();
  // A lap that is still under way keeps its events: then this step goes untimed.
  Lap& lap = laps_[steps_ % kLaps];
  if (lap.number != 0 || taken(cudaEventRecord(lap.events[0], handle)) != cudaSuccess) return;
  lap.ended = 0;
  lap.enqueued = false;
  lap.number = steps_;
  running_ = &lap;
}

void DeviceClock::end(Phase phase, Stream stream) {
  closeRange();
  if (const size_t next = static_cast<size_t>(phase) + 1; next < kPhases) openRange(next);
  const std::lock_guard lock(mutex_);
  if (running_ == nullptr) return;
  Lap& lap = *running_;
  const auto handle = static_cast<cudaStream_t>(stream.handle);
  if (taken(cudaEventRecord(lap.events[lap.ended + 1], handle)) != cudaSuccess) return;
  lap.phases[lap.ended++] = phase;
}

void DeviceClock::stop() {
  closeRange();
  const std::lock_guard lock(mutex_);
  if (running_ == nullptr) return;
  running_->enqueued = true;
  if (running_->ended == 0) running_->number = 0;
  running_ = nullptr;
}

PhaseTimes DeviceClock::latest() {
  const std::lock_guard lock(mutex_);
  if (!recording_) harvest();
  return latest_;
}

// What has become known since.
void DeviceClock::harvest() {
  const BesideCaptures beside;
  for (Lap& lap : laps_) {
    if (lap.number == 0 || !lap.enqueued) continue;
    if (taken(cudaEventQuery(lap.events[lap.ended])) != cudaSuccess) continue;
    const std::optional<PhaseTimes> times = timesOf(lap);
    if (times && lap.number > reported_) {
      latest_ = *times;
      reported_ = lap.number;
    }
    lap.number = 0;
  }
}

std::optional<PhaseTimes> DeviceClock::timesOf(const Lap& lap) const {
  PhaseTimes times;
  for (size_t p = 0; p < lap.ended; ++p) {
    float milliseconds = 0;
    const cudaError_t asked = taken(cudaEventElapsedTime(&milliseconds, lap.events[p], lap.events[p + 1]));
    if (asked != cudaSuccess) return std::nullopt;
    times.ns[static_cast<size_t>(lap.phases[p])] = nsOf(milliseconds);
    times.totalNs += nsOf(milliseconds);
  }
  return times;
}

}  // namespace sparsecoll::cuda
