// A reducer that goes on among other ranks.
#include <algorithm>
#include <array>

#include "src/agreement.h"
#include "src/reducer.h"

namespace sparsecoll {

namespace {

// What a rank over nodes tells before it moves.
struct Leaving {
  size_t place;  // whose shard it held
  bool scheduleEnded;

  uint64_t number() const { return static_cast<uint64_t>(place) << 1 | (scheduleEnded ? 1 : 0); }
  static Leaving of(uint64_t number) { return {static_cast<size_t>(number >> 1), (number & 1) != 0}; }
};

}  // namespace

Result<AnyReducer::Moved> Reducer::moveTo(const std::shared_ptr<Communicator>& comm) {
  if (!comm->descendsFrom(*comm_)) return invalid("the communicator is not made of the reducer's");
  if (level_ != nullptr) return moveOverNodes(comm);
  SC_TRY(const bool ended, scheduleEndedOnAll(*comm, scheduleEnded()));
  SC_TRY(const std::shared_ptr<Reducer> made, makeMoved(comm, ended));
  Moved result;
  result.reducer = made;
  // When a rank dies during a step, some survivors may commit it and others not, and with two buffers a rank can go
  // back one step only. Before a step of a transactional reducer begins, all ranks have committed the one before: so
  // the buffer that the latest commit left behind is still what it was then.
  result.steppedBack = residual_.isAhead(comm->parentCompleted());
  residual_.copyTo(made->residual_, result.steppedBack, comm->kernels());
  return result;
}

// The ranks may have met by now.
Result<std::shared_ptr<Reducer>> Reducer::makeMoved(const std::shared_ptr<Communicator>& comm,
                                                    bool scheduleEnded) const {
  Making making;
  SC_TRY(makeTogether(*comm, [&]() -> Status {
    SC_TRY(making, prepare(*comm, movedSpec(scheduleEnded)));
    return {};
  }));
  return make(comm, "ReducerMove", std::move(making));
}

ReducerSpec Reducer::movedSpec(bool scheduleEnded) const {
  ReducerSpec spec = whole_ != nullptr ? *whole_ : spec_;
  spec.buffer = spec.velocity = nullptr;
  spec.params.inputScale = scales_.now().in;
  spec.params.outputScale = scales_.now().out;
  spec.params.teams = spec_.params.teams;
  spec.params.teamGather = spec_.params.teamGather;
  spec.anyTeams = true;
  if (scheduleEnded) {
    spec.densitySchedule.clear();
    spec.scheduleSteps = 0;
  }
  return spec;
}

// Shards are other ones where the smallest node is. What the ranks of a node have held goes to the owners of the node's
// new shards: as a dense sum inside the node, to which each rank brings what it has at its place in the whole vector.
Result<AnyReducer::Moved> Reducer::moveOverNodes(const std::shared_ptr<Communicator>& comm) {
  std::vector<Range> held;  // by the ranks of comm
  held.reserve(static_cast<size_t>(comm->ranks()));
  bool ended = true;
  bool anyFollows = false;  // a schedule; a rank without a shard does not
  SC_TRY(const Agreement left, agree(*comm, "ReducerMove", {}, Leaving{level_->place(), scheduleEnded()}.number()));
  for (const uint64_t number : left.numbers) {
    const Leaving one = Leaving::of(number);
    held.push_back(level_->shard(one.place));
    if (held.back().length() == 0) continue;
    anyFollows = true;
    ended = ended && one.scheduleEnded;
  }
  ended = ended && anyFollows;
  SC_TRY(const std::shared_ptr<Reducer> made, makeMoved(comm, ended));
  Moved result;
  result.reducer = made;
  result.steppedBack =
      owns() ? residual_.isAhead(comm->parentCompleted()) : spec_.transactional && committed_ > comm->parentCompleted();
  SC_TRY(made->takeShardsOf(*this, result.steppedBack));
  // Sums were those of nodes: what became of the others' no rank has heard.
  SC_TRY(agree(*comm, "ReducerMove", {}));
  if (made->level_->node() == 0 && spec_.keepsResidual()) made->stats_->countLost(lostOf(held, made->level_->shard()));
  return result;
}

// Every node has kept the whole vector, a shard on each owner: what is missing of that in this range.
uint64_t Reducer::lostOf(std::span<const Range> held, const Range& range) const {
  uint64_t lost = range.length() * static_cast<uint64_t>(level_->nodes());
  for (const Range& one : held) {
    const uint64_t begin = std::max(one.begin, range.begin);
    lost -= std::max(begin, std::min(one.end, range.end)) - begin;
  }
  return lost;
}

Status Reducer::takeShardsOf(Reducer& from, bool stepBack) {
  Kernels& kernels = comm_->kernels();
  const std::array<bool, 2> kept = {spec_.keepsResidual(), spec_.params.momentum != 0};
  if (!kept[0] && !kept[1]) return {};
  const uint64_t element = elementBytes(spec_.accumulateType);
  Buffer whole;
  SC_TRY(makeTogether(*comm_, [&]() -> Status {
    SC_TRY(whole, kernels.allocate(length() * element, budget_));
    return {};
  }));
  const auto held = from.residual_.vectors(stepBack);
  const auto to = residual_.vectors();
  for (size_t v = 0; v < to.size(); ++v) {
    if (!kept[v]) continue;
    kernels.fillZero(whole.as<>(), whole.bytes(), {});
    if (held[v] != nullptr)
      kernels.copy(whole.as<>() + from.level_->shard().begin * element, held[v], from.residual_.bytes(), {});
    const OperationLabel label = labelOf("ReducerMove");
    Operation operation;
    operation.label = &label;
    operation.plan = plan_;
    operation.turn = ++turn_;
    SC_TRY(comm_->operate(operation, [&](Operation& op) {
      return level_->scatterHeld(op, whole.as<>(), spec_.accumulateType, to[v], {});
    }));
  }
  return {};
}

}  // namespace sparsecoll
