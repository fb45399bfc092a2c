// A step over nodes: the node's sum to the owners of its shards, the method between the owners of each shard, and the
// shards of the sum to everyone in the node. All of it is one operation of the communicator.
#include "src/reducer.h"

namespace sparsecoll {

Status Reducer::stepOverNodes(Operation& operation, StepArgs& args) {
  const Status status = stepLevels(operation, args);
  level_->countRounds(operation);
  stats_->step().bytesSentBetweenNodes = level_->sentBetween();
  stats_->step().bytesReceivedBetweenNodes = level_->receivedBetween();
  return Status(status.failure());
}

Status Reducer::stepLevels(Operation& operation, StepArgs& args) {
  const Stream stream = args.stream;
  const bool captured = operation.captured();
  SC_TRY(checkCapture(captured));
  uint32_t* const nonFiniteAt = sumCheck_ ? sumCheck_->begin(stream) : nullptr;
  SC_TRY(level_->scatter(operation, args.gradient, stream));
  SC_TRY(const Scale scale, level_->clip(operation, scales_.in(captured), stream));
  void* const part = level_->partOf(args.out);
  Delivered delivered;
  Control* control = sumCheck_ && !spec_.dense() ? sumCheck_->control() : nullptr;
  // On devices a clock has one span for a phase, and the selection's is the first one.
  if (selects() && comm_->onHost()) stats_->end(Phase::kExchange, stream);
  level_->beginBetween(operation);
  if (selects()) {
    control = method_.selection->control();
    SelectionInput input;
    input.gradient = level_->sum();
    input.gradientType = level_->sumType();
    input.scale = scale;
    SC_TRY(delivered, exchange(operation, input, args.finish, part, stream));
  } else if (owns()) {
    DenseArgs dense{level_->sum(),       part,  spec_.n,         spec_.type, scale,
                    finishOf(operation), false, &args.nonFinite, nonFiniteAt};
    if (spec_.shapesDense()) {
      shapeDense(dense, level_->sumType(), stream);
    } else if (level_->clips()) {  // engines have one scale for the vectors of all ranks
      level_->rescale(scale, stream);
      dense.inputScale = 1;
    }
    SC_TRY(level_->between().allReduce(operation, dense, stream));
    stats_->end(Phase::kExchange, stream);
  }
  level_->endBetween(operation);
  // What one shard's owners meet decides for all of them: they commit only after they have heard of each other.
  SC_TRY(level_->gather(operation, args.out, control, args.nonFinite, stream));
  if (selects()) {
    method_.selection->advance(stream);
    Status committed = residual_.commit(operation, delivered, control, stream);
    stats_->end(Phase::kScatter, stream);
    return committed;
  }
  Status ended;
  if (!sumCheck_)
    ended = denseEnd(args.nonFinite);
  else if (spec_.dense())
    ended = sumCheck_->tell(operation, stream);
  else
    ended = sumCheck_->end(operation, comm_->config().nonFinite == sparsecollNonFiniteError, stream);
  if (!owns() && ended.ok()) committed_ = operation.sequence;
  return ended;
}

}  // namespace sparsecoll
