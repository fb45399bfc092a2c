#include "src/density_schedule.h"

#include <algorithm>

namespace sparsecoll {

DensitySchedule::DensitySchedule(std::span<const double> densities, uint64_t steps, Stage last) : steps_(steps) {
  stages_.clear();
  for (const double density : densities) stages_.push_back({density, 0});
  stages_.push_back(last);
}

size_t DensitySchedule::stageAt(uint64_t iteration) const {
  return last() == 0 ? 0 : static_cast<size_t>(std::min<uint64_t>(iteration / steps_, last()));
}

uint64_t DensitySchedule::stepsLeft(uint64_t iteration) const {
  const uint64_t steps = last() * steps_;
  return steps - std::min(iteration, steps);
}

double DensitySchedule::largestDensity() const {
  return std::ranges::max_element(stages_, {}, &Stage::density)->density;
}

Status DensitySchedule::planStages(const Selection& selection) {
  for (const Stage& stage : stages_) {
    SC_TRY(DensityPlan plan, selection.planDensity(stage.density, stage.k));
    plans_.push_back(std::move(plan));
  }
  return {};
}

void DensitySchedule::follow(Selection& selection) {
  const size_t wanted = stageAt(selection.iteration());
  if (!isPlanned() || wanted == current_) return;
  selection.adopt(plans_[wanted]);
  entered(wanted);
}

}  // namespace sparsecoll
