// A reducer's way to another communicator: made anew there, with this rank's residual.
#include "src/reducer.h"

namespace sparsecoll {

Result<Reducer::Moved> Reducer::moveTo(const std::shared_ptr<Communicator>& comm) {
  if (!comm->descendsFrom(*comm_)) return invalid("the communicator is not made of the reducer's");
  ReducerSpec spec = spec_;
  spec.buffer = nullptr;
  // What was chosen for another number of ranks may not fit this one.
  if (spec.collective->blocks && comm->ranks() % spec.params.teams != 0) spec.params.teams = 0;
  if (schedule_.ended()) {
    spec.densitySchedule.clear();
    spec.scheduleSteps = 0;
  }
  Moved result;
  SC_TRY(result.reducer, make(comm, "ReducerMove", std::move(spec)));
  // Before a step of a transactional reducer begins, all ranks have committed the one before: so the buffer that the
  // latest commit left behind is still what it was then.
  result.steppedBack = spec_.transactional && committed_ > comm->parentSettled();
  const int which = result.steppedBack ? 1 - current_ : current_;
  Reducer& to = *result.reducer;
  const bool kept = residual() != nullptr;  // its zeros are written now
  const std::array<std::pair<void*, const void*>, 2> vectors = {
      {{to.residual(), kept ? accBuffer(which) : nullptr}, {to.shape_.velocity(to.current_), shape_.velocity(which)}}};
  for (const auto& [into, from] : vectors)
    if (into != nullptr && from != nullptr) comm->kernels().copy(into, from, accBytes(), comm->kernels().stream());
  return result;
}

}  // namespace sparsecoll
