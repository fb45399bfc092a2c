// The gradients of a measurement: a few for each rank, used in turn, so that error feedback sees other entries every
// step.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/common/memory.h"
#include "bench/common/random.h"
#include "bench/perf/device.h"
#include "bench/perf/distribution.h"
#include "bench/perf/element.h"
#include "bench/perf/team.h"

namespace bench {

struct GradientPlan {
  uint64_t n = 0;
  const ElementType* type = nullptr;
  double overlap = 0;  // share of the positions at which all ranks have the same entry
  double skew = 0;     // the end of the vector has 1 - skew times the scale of its beginning
  uint64_t seed = 1;
  uint64_t variants = 3;
};

// As many gradients a rank as fit into the memory that a measurement may use, at most three.
uint64_t variantsThatFit(uint64_t n, const ElementType& type, int ranks);

class Gradients {
 public:
  Gradients(const GradientPlan& plan, const Distribution& distribution, Team& team);

  const void* of(const Rank& rank, uint64_t step) const {
    const uint64_t buffer = rank.slot() * plan_.variants + step % plan_.variants;
    const std::byte* const begin =
        rank.onDevice() ? static_cast<const std::byte*>(onDevice_[buffer].data()) : buffers_[buffer].as<>();
    return begin + shiftOf(step) * plan_.type->bytes;
  }

 private:
  // The same on all ranks, so that common entries stay common.
  uint64_t shiftOf(uint64_t step) const { return mixBits(step) % shifts_ * kShiftElements; }
  void fill(Memory& buffer, uint64_t rank, uint64_t variant, const Distribution& distribution) const;

  static constexpr uint64_t kShiftElements = 64;  // whole cache lines of every type
  GradientPlan plan_;
  uint64_t ranks_;
  uint64_t shifts_;
  uint64_t length_;  // of a buffer
  std::vector<Memory> buffers_;
  std::vector<DeviceMemory> onDevice_;  // instead of buffers_, where ranks have a device
};

}  // namespace bench
