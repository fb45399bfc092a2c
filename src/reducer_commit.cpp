// What a step leaves behind: where the residual lies, what leaves it, and what is put back where a step came to
// nothing.
#include "src/reducer.h"

namespace sparsecoll {

// Where the residual is once the operation is over. A graph keeps its addresses, so from the first capture on a
// transactional reducer stays with one buffer, and the other one gets a copy of what was there before each step.
int Reducer::bufferAfter(const Operation& operation) const {
  const bool turns = spec_.transactional && !captured_ && operation.sequenceAt == nullptr;
  return turns ? 1 - current_ : current_;
}

void Reducer::copyResidual(int to, int from, Stream stream) {
  comm_->kernels().copy(accBuffer(to), accBuffer(from), accBytes(), stream);
  shape_.copy(to, from, stream);
}

Status Reducer::keepBefore(Stream stream) {
  copyResidual(1 - current_, current_, stream);
  SC_TRY(comm_->kernels().enqueued());
  copied_ = true;
  return {};
}

// Undoes what of a step could be enqueued.
void Reducer::putBack(Stream stream) {
  copyResidual(current_, 1 - current_, stream);
  copied_ = false;
}

// Only now does anything leave the residual: a step that failed before has at most added its gradient. Whether the step
// takes effect is decided where its kernels run, so on a device nobody waits: there the new buffer becomes the residual
// in any case, and gets the old one's content back where the step came to nothing.
Status Reducer::commit(const Operation& operation, const Delivered& delivered, Stream stream) {
  Kernels& kernels = comm_->kernels();
  Control* const control = selection_->control();
  const bool fails = comm_->config().nonFinite == sparsecollNonFiniteError;
  // A step that ends with NonFinite delivers nothing, so nothing leaves either.
  const bool undoes = fails || spec_.transactional;
  Status concluded = kernels.conclude({control, operation.identity(), undoes, fails}, stream);
  if (!spec_.keepsResidual()) return concluded;
  if (!concluded.ok() && concluded.result() != sparsecollNonFinite) return concluded;  // nothing was decided
  const int next = bufferAfter(operation);
  void* const acc = accBuffer(next);
  leaveResidual(next, delivered, stream);
  kernels.clearNonFinite(acc, spec_.accumulateType, spec_.n, control, stream);
  shape_.clearNonFinite(next, control, stream);
  if (spec_.transactional) {
    kernels.restore(acc, accBuffer(1 - next), spec_.accumulateType, spec_.n, control, stream);
    shape_.restore(next, control, stream);
  }
  SC_TRY(kernels.enqueued());
  current_ = next;
  copied_ = false;
  committed_ = operation.sequence;
  outLeftResidual_ = true;
  return concluded;
}

void Reducer::leaveResidual(int which, const Delivered& delivered, Stream stream) {
  Kernels& kernels = comm_->kernels();
  Control* const control = selection_->control();
  void* const acc = accBuffer(which);
  uint64_t* const gone = gone_.as<uint64_t>();
  anyGone_ = gone != nullptr;
  if (delivered.settles) {
    SettleArgs args{acc, spec_.accumulateType, spec_.n, delivered.lists[0], delivered.sent, delivered.dropped};
    if (delivered.lossy) args.lost = &control->lost;
    args.decision = control;
    args.gone = gone;
    kernels.settle(args, stream);
    shape_.mask(which, delivered.sent, delivered.lists[0], control, stream);
    return;
  }
  for (const ListView& list : delivered.sent) {
    if (gone != nullptr)
      kernels.noteGone(gone, spec_.n, list, control, stream);
    else
      kernels.zeroAt(acc, spec_.accumulateType, spec_.n, list, control, stream);
    shape_.mask(which, list, control, stream);
  }
}

}  // namespace sparsecoll
