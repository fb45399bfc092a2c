// A step over nodes: the node's sum to the owners of its shards, the method between the owners of each shard, and the
// shards of the sum to everyone in the node. All of it is one operation of the communicator.
#include "src/agreement.h"
#include "src/reducer.h"

namespace sparsecoll {

Status Reducer::runOverNodes(const void* gradient, void* out, Stream stream) {
  void* const part = level_->partOf(out);
  const bool selects = owns() && !spec_.dense();
  if (selects) {
    SC_TRY(preservedOut_.prepare(part, false, stream));
    residual_.beginStep();
  }
  if (spec_.transactional) SC_TRY(agree(*comm_, "commit", {}).takeStatusOrOk());
  if (selects) {
    selection_->use(stream);
    schedule_.follow(*selection_);
  }
  const OperationLabel label = labelOf(call_);
  Operation operation;
  operation.label = &label;
  operation.plan = stepPlan();
  operation.turn = ++turn_;
  stats_->begin(operation, selects ? Phase::kSelect : Phase::kExchange, stream);
  bool nonFinite = false;
  const Status status =
      comm_->operate(operation, [&](Operation& op) { return stepOverNodes(op, gradient, out, nonFinite, stream); });
  sparsecollStats_t& step = stats_->step();
  step.bytesSentBetweenNodes = level_->sentBetween();
  step.bytesReceivedBetweenNodes = level_->receivedBetween();
  if (!selects) step.opsNonFinite = nonFinite ? 1 : 0;
  if (spec_.dense()) tellDense(nonFinite);
  stats_->finish(operation, status, selects ? selection_.get() : nullptr);
  if (selects) {
    residual_.endStep(false, selection_->control(), stream);
    if (!status.ok() && status.result() != sparsecollNonFinite) selection_->startAgreedAnew();
  }
  return Status(status.failure());
}

Status Reducer::stepOverNodes(Operation& operation, const void* gradient, void* out, bool& nonFinite, Stream stream) {
  SC_TRY(level_->scatter(operation, gradient, stream));
  void* const part = level_->partOf(out);
  Delivered delivered;
  Control* control = nullptr;
  level_->beginBetween(operation);
  if (owns() && spec_.dense()) {
    SC_TRY(denseBetween(operation, part, nonFinite, stream));
  } else if (owns()) {
    SelectionInput input;
    input.gradient = level_->sum();
    input.gradientType = level_->sumType();
    input.scale = scales_.in(false);
    control = selection_->control();
    SC_TRY(delivered, exchange(operation, input, &Reducer::finishDense, part, stream));
    nonFinite = control->anyNonFinite != 0;
  }
  level_->endBetween(operation);
  // What one shard's owners meet decides for all of them: they commit only after they have heard of each other.
  SC_TRY(level_->gather(operation, out, nonFinite, stream));
  if (control == nullptr) return denseEnd(nonFinite);
  control->anyNonFinite = nonFinite ? 1 : 0;
  Status committed = residual_.commit(operation, delivered, control, stream);
  stats_->end(Phase::kScatter, stream);
  return committed;
}

Status Reducer::denseBetween(Operation& operation, void* out, bool& nonFinite, Stream stream) {
  DenseArgs args{level_->sum(), out, spec_.n, spec_.type, scales_.in(false), finishOf(operation), false, &nonFinite};
  if (spec_.shapesDense()) shapeDense(args, stream);
  SC_TRY(level_->between().allReduce(operation, args, stream));
  stats_->end(Phase::kExchange, stream);
  return {};
}

}  // namespace sparsecoll
