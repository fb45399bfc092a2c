// Where a step's time goes. One clock a reducer: its calls stand between those that enqueue the step's work.
#pragma once

#include <array>
#include <cstdint>

#include "core/kernels.h"

namespace sparsecoll {

enum class Phase : uint32_t { kSelect, kExchange, kScatter };
inline constexpr size_t kPhases = 3;
inline constexpr const char* kPhaseNames[kPhases] = {"select", "exchange", "scatter"};  // for tracing tools

struct PhaseTimes {
  std::array<uint64_t, kPhases> ns{};  // 0: the step did not get to the end of it
  uint64_t totalNs = 0;
};

class StepClock {
 public:
  virtual ~StepClock() = default;
  // A step begins, with this phase.
  virtual void start(Phase first, Stream stream) = 0;
  virtual void end(Phase phase, Stream stream) = 0;  // what comes now is the next one
  virtual void stop() = 0;                           // the step's last call, also where it failed
  // Of the latest step whose work is over, which on a device may be an earlier one than the one that stopped last;
  // zeros before there is one. Never waits. Any thread.
  virtual PhaseTimes latest() = 0;
};

}  // namespace sparsecoll
