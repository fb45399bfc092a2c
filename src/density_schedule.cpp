#include "src/density_schedule.h"

#include <algorithm>

namespace sparsecoll {

Result<DensitySchedule> DensitySchedule::make(std::span<const double> densities, uint64_t steps,
                                              const Selection& selection, double densityAfterwards,
                                              uint64_t kAfterwards) {
  DensitySchedule schedule;
  if (densities.empty()) return schedule;
  schedule.steps_ = steps;
  for (const double density : densities) {
    SC_TRY(DensityPlan plan, selection.planDensity(density, 0));
    schedule.plans_.push_back(std::move(plan));
  }
  SC_TRY(DensityPlan last, selection.planDensity(densityAfterwards, kAfterwards));
  schedule.plans_.push_back(std::move(last));
  schedule.current_ = densities.size();
  return schedule;
}

void DensitySchedule::follow(Selection& selection) {
  if (plans_.empty()) return;
  const uint64_t wanted = std::min<uint64_t>(selection.iteration() / steps_, plans_.size() - 1);
  if (wanted == current_) return;
  current_ = wanted;
  selection.adopt(plans_[current_]);
}

uint64_t DensitySchedule::stepsLeft(const Selection& selection) const {
  if (plans_.empty()) return 0;
  const uint64_t steps = (plans_.size() - 1) * steps_;
  return steps - std::min(selection.iteration(), steps);
}

}  // namespace sparsecoll
