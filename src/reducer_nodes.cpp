// A step over nodes: the node's sum to the owners of its shards, the method between the owners of each shard, and the
// shards of the sum to everyone in the node. All of it is one operation of the communicator.
#include "src/reducer.h"

namespace sparsecoll {

Status Reducer::stepOverNodes(Operation& operation, StepArgs& args) {
  const Status status = stepLevels(operation, args);
  stats_->step().bytesSentBetweenNodes = level_->sentBetween();
  stats_->step().bytesReceivedBetweenNodes = level_->receivedBetween();
  return Status(status.failure());
}

Status Reducer::stepLevels(Operation& operation, StepArgs& args) {
  SC_TRY(level_->scatter(operation, args.gradient, args.stream));
  void* const part = level_->partOf(args.out);
  Delivered delivered;
  level_->beginBetween(operation);
  if (selects()) {
    SelectionInput input;
    input.gradient = level_->sum();
    input.gradientType = level_->sumType();
    input.scale = scales_.in(false);
    SC_TRY(delivered, exchange(operation, input, args.finish, part, args.stream));
    args.nonFinite = selection_->control()->anyNonFinite != 0;
  } else if (owns()) {
    SC_TRY(denseBetween(operation, part, args));
  }
  level_->endBetween(operation);
  // What one shard's owners meet decides for all of them: they commit only after they have heard of each other.
  SC_TRY(level_->gather(operation, args.out, args.nonFinite, args.stream));
  if (!selects()) return denseEnd(args.nonFinite);
  Control* const control = selection_->control();
  control->anyNonFinite = args.nonFinite ? 1 : 0;
  Status committed = residual_.commit(operation, delivered, control, args.stream);
  stats_->end(Phase::kScatter, args.stream);
  return committed;
}

Status Reducer::denseBetween(Operation& operation, void* out, StepArgs& args) {
  DenseArgs dense{level_->sum(),       out,   spec_.n,        spec_.type, scales_.in(false),
                  finishOf(operation), false, &args.nonFinite};
  if (spec_.shapesDense()) shapeDense(dense, args.stream);
  SC_TRY(level_->between().allReduce(operation, dense, args.stream));
  stats_->end(Phase::kExchange, args.stream);
  return {};
}

}  // namespace sparsecoll
