// Warm-up: densities of the first steps (Lin et al. 2018). Each is a stage, and the last stage, which stays, is what
// the method asks for. It follows the selection's iteration, so it is in step again after Import and Reset.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"
#include "selectors/selection.h"

namespace sparsecoll {

class DensitySchedule {
 public:
  struct Stage {  // one of both, or neither to select nothing
    double density = 0;
    uint64_t k = 0;
  };

  DensitySchedule() = default;  // nothing but a last stage
  // steps: of each density.
  DensitySchedule(std::span<const double> densities, uint64_t steps, Stage last);

  // The stage of the step with this iteration.
  size_t stageAt(uint64_t iteration) const;
  const Stage& at(size_t stage) const { return stages_[stage]; }
  size_t last() const { return stages_.size() - 1; }
  // Steps until the last stage.
  uint64_t stepsLeft(uint64_t iteration) const;
  double largestDensity() const;

  // The stage that the selection is in.
  size_t current() const { return current_; }
  void entered(size_t stage) { current_ = stage; }

  // For a selection that has room for all stages: works them out, so that following them needs no memory.
  Status planStages(const Selection& selection);
  bool isPlanned() const { return !plans_.empty(); }
  // Gives that selection the density of its next step.
  void follow(Selection& selection);

 private:
  std::vector<Stage> stages_{Stage()};
  uint64_t steps_ = 1;
  size_t current_ = 0;
  std::vector<DensityPlan> plans_;  // by stage
};

}  // namespace sparsecoll
