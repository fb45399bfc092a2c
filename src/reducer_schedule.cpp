// A reducer whose density changes: a warm-up's stages, and SetDensity. Room is made for what one stage asks for,
// because over NCCL frames travel whole, and a warm-up's are 25 times as large as what follows. With maxDensity there
// is room for all stages from the start, and no step takes memory.
#include <algorithm>

#include "src/agreement.h"
#include "src/reducer.h"

namespace sparsecoll {

namespace {

// How far a rank got with a stage.
enum Readiness : uint64_t {
  kNoMemory,  // not at all
  kStays,     // it can go on with the room that it has
  kMade,
};

}  // namespace

// Whether room is made for a stage when it begins. A rank without a shard would not know when that is.
bool Reducer::sizesStages() const {
  return schedule_.last() != 0 && spec_.maxDensity == 0 && (level_ == nullptr || level_->allOwn(comm_->ranks()));
}

Status Reducer::followSchedule(Stream& stream) {
  if (!selects() || schedule_.last() == 0 || comm_->kernels().captures(stream)) return {};
  if (residual_.captured()) return {};  // the schedule is over, and graphs have the method's addresses
  method_.selection->use(stream);
  if (!sizesStages()) {
    schedule_.follow(*method_.selection);
    return {};
  }
  const size_t stage = schedule_.stageAt(method_.selection->iteration());
  if (stage == schedule_.current()) return {};
  Status entered = enterStage(stage, stream);
  if (!entered.ok()) residual_.forgetStep();  // the step has failed, and out is not the one before's any more
  return entered;
}

// Most entries that are selected now, and by the next step, which may begin a stage.
uint64_t Reducer::capacity() const {
  const uint64_t now = method_.selection->capacity();
  return sizesStages() ? std::max(now, stages_[schedule_.stageAt(method_.selection->iteration())].capacity) : now;
}

DensitySchedule::Stage Reducer::askedIn(size_t stage) const {
  if (stage == schedule_.last() && nextDensity_) return {*nextDensity_, 0};
  return schedule_.at(stage);
}

// The next method is made beside the present one. Where some rank has no memory for both, all stay with the present
// one, if it has room for the stage: it holds more than it needs, and no step is lost.
Status Reducer::enterStage(size_t stage, Stream& stream) {
  const auto [density, k] = askedIn(stage);
  Kernels& kernels = comm_->kernels();
  SC_TRY(comm_->drain(stream));
  Method next;
  DensityPlan plan;
  Status made = makeOwn([&]() -> Status {
    SC_TRY(next, methodFor(stage));
    SC_TRY(const auto zeroed, kernels.makeMarker());
    kernels.mark(*zeroed, kernels.stream());
    kernels.await(*zeroed, stream);
    next.selection->use(stream);
    SC_TRY(next.selection->takeOver(*method_.selection));
    return nextDensity_ ? next.selection->setDensity(density) : Status();
  });
  const Status planned = makeOwn([&]() -> Status {
    SC_TRY(plan, method_.selection->planDensity(density, k));
    return {};
  });
  const AgreedField fields[] = {{"densitySchedule", stage}};
  SC_TRY(const Agreement told, agree(*comm_, "densitySchedule", fields,
                                     made.ok()      ? kMade
                                     : planned.ok() ? kStays
                                                    : kNoMemory));
  const uint64_t least = *std::ranges::min_element(told.numbers);
  if (least == kNoMemory) return agreeMade(*comm_, made);
  {
    const std::lock_guard lock(methodMutex_);
    if (least == kMade)
      std::swap(method_, next);
    else
      method_.selection->adopt(plan);
  }
  stream.workspace = method_.workspace.get();
  schedule_.entered(stage);
  nextDensity_.reset();
  if (comm_->onHost()) return {};
  next = {};  // which may wait for all that the device does, a rank's step that waits for this one included
  return agree(*comm_, "densitySchedule", fields).takeStatusOrOk();
}

Status Reducer::setDensity(double density) {
  if (spec_.dense()) return unsupported("the dense collective has no density");
  if (!(density >= 0 && density <= 1)) return invalid("density is {}", density);
  if (density == 0 && !spec_.has(SPARSECOLL_SELECT_NOTHING))
    return invalid("density is 0 (SPARSECOLL_SELECT_NOTHING allows it)");
  const double most = std::max(spec_.maxDensity, spec_.params.density);
  if (level_ != nullptr) {  // what ranks without a shard find, too
    if (spec_.params.k != 0 || !spec_.densitySchedule.empty())
      return unsupported("SetDensity over nodes of a reducer with a schedule, or made for k");
    if (density > most) return invalid("density is {}, the reducer was made for {}", density, most);
  }
  if (const uint64_t steps = selects() ? schedule_.stepsLeft(method_.selection->iteration()) : 0; steps != 0)
    return fail(sparsecollInvalidUsage, "the schedule sets the density of {} more steps", steps);
  SC_TRY(notCaptured(stats_->lastStream()));
  if (selects()) {
    schedule_.follow(*method_.selection);  // else the next step would still take what comes after the schedule
    if (schedule_.current() == schedule_.last()) {
      method_.selection->use(stats_->lastStream());
      SC_TRY(method_.selection->setDensity(density));
    } else {
      const SelectionRequest request = selectionRequest(schedule_.last());
      if (entriesOf(density, request.selectable()) > wantedOf(request).most)
        return invalid("density {} was not planned for, the most are {} entries", density, wantedOf(request).most);
      nextDensity_ = density;
    }
  }
  askedDensity_ = density;
  return settleAside();
}

Status Reducer::askAsMade() {
  if (!selects()) return {};
  SC_TRY(const DensityPlan plan, method_.selection->planDensity(spec_.params.density, spec_.params.k));
  method_.selection->use(stats_->lastStream());
  method_.selection->adopt(plan);
  askedDensity_ = spec_.params.density;
  return {};
}

// What replays do is not followed by a schedule on the host.
Status Reducer::keepsSchedule() const {
  if (!residual_.captured() || spec_.densitySchedule.empty()) return {};
  return fail(sparsecollInvalidUsage, "steps were captured, so the density schedule cannot begin anew");
}

Result<bool> Reducer::scheduleEndedOnAll(Communicator& comm, bool own) const {
  if (spec_.densitySchedule.empty()) return own;
  SC_TRY(const Agreement told, agree(comm, "ReducerMove", {}, own ? 1 : 0));
  return std::ranges::find(told.numbers, 0U) == told.numbers.end();
}

}  // namespace sparsecoll
