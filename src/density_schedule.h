// Warm-up: densities of the first steps (Lin et al. 2018). It follows the selection's iteration, so it is in step again
// after Import and Reset. All is planned at create; a step that changes the density allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"
#include "selectors/selection.h"

namespace sparsecoll {

class DensitySchedule {
 public:
  DensitySchedule() = default;  // none
  // steps: of each density. afterwards is what the method asks for when the schedule has ended.
  static Result<DensitySchedule> make(std::span<const double> densities, uint64_t steps, const Selection& selection,
                                      double densityAfterwards, uint64_t kAfterwards);

  // Gives the selection the density of its next step.
  void follow(Selection& selection);
  // The selection has the density that stays.
  bool ended() const { return plans_.empty() || current_ + 1 == plans_.size(); }
  // Steps until it has ended.
  uint64_t stepsLeft(const Selection& selection) const;

 private:
  std::vector<DensityPlan> plans_;  // the last one stays; empty: no schedule
  uint64_t steps_ = 0;
  size_t current_ = 0;
};

}  // namespace sparsecoll
