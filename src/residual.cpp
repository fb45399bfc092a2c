#include "src/residual.h"

#include <algorithm>

#include "src/pointer_checks.h"
#include "transports/common.h"

namespace sparsecoll {

namespace {
constexpr uint64_t kPiece = 4096;  // elements, of a vector that is rounded piece by piece
}

Result<Residual> Residual::make(const ReducerSpec& spec, Communicator& comm, int ranks, DenseTensors& denseTensors,
                                const std::shared_ptr<MemoryBudget>& budget) {
  Residual residual;
  Kernels& kernels = comm.kernels();
  residual.kernels_ = &kernels;
  residual.denseTensors_ = &denseTensors;
  residual.n_ = spec.n;
  residual.type_ = spec.accumulateType;
  residual.kept_ = spec.keepsResidual();
  residual.transactional_ = spec.transactional;
  residual.nonFiniteFails_ = comm.config().nonFinite == sparsecollNonFiniteError;
  residual.callers_ = spec.buffer;
  if (spec.buffer == nullptr) {
    SC_TRY(residual.own_, kernels.allocate(residual.bytes() * (spec.transactional ? 2 : 1), budget));
  }
  SC_TRY(residual.shape_,
         InputShape::make({spec.params, spec.n, spec.accumulateType, ranks, spec.transactional, spec.velocity}, kernels,
                          budget));
  // Not where the caller may look at the residual at any time, nor where a step may have to go back to the one before.
  if (spec.keepsResidual() && kernels.defersZeros() && spec.buffer == nullptr && !spec.transactional &&
      !residual.shape_.changesResidual()) {
    SC_TRY(residual.deferredZeros_, kernels.allocate(Kernels::deferredZerosBytes(spec.n), budget));
  }
  if (spec.takesTurns && residual.kept_ && spec.type != spec.accumulateType) {
    SC_TRY(residual.pieces_,
           kernels.allocate(kPiece * (elementBytes(spec.accumulateType) + elementBytes(spec.type)), budget));
  }
  return residual;
}

void* Residual::buffer(int which) const {
  auto* const base = callers_ != nullptr ? static_cast<std::byte*>(callers_) : own_.as<>();
  return base + static_cast<uint64_t>(which) * bytes();
}

void* Residual::data() {
  if (!kept_) return nullptr;
  void* const acc = buffer(current_);
  if (anyDeferred_) kernels_->writeDeferredZeros(acc, type_, n_, deferredZeros_.as<uint64_t>(), {});
  anyDeferred_ = false;
  return acc;
}

Status Residual::checkApart(const char* name, const void* vector, uint64_t vectorBytes) const {
  if (kernels_ == nullptr) return {};
  const uint64_t held = bytes() * (transactional_ ? 2 : 1);
  SC_TRY(checkDisjoint(name, vector, vectorBytes, "the residual", buffer(0), held));
  if (!shape_.keepsVelocity()) return {};
  return checkDisjoint(name, vector, vectorBytes, "the velocity", shape_.velocity(0), held);
}

void Residual::shapeDense(SelectionInput& input, Selection& selection, void* x, sparsecollDataType_t type,
                          const Finish& finish, Stream stream) {
  input.out = kept_ ? data() : buffer(current_);
  if (kept_) {
    input.in = input.out;
  } else if (shape_.changesResidual()) {  // what leaves nothing behind finds nothing
    kernels_->fillZero(input.out, bytes(), stream);
    input.in = input.out;
  }
  shape_.prepare(input, current_, current_, stream);
  selection.pass(input, stream);
  if (kept_) {
    roundInto(x, type, finish, stream);
    clearOwnNonFinite(selection.control(), stream);
    return;
  }
  clearOwnNonFinite(selection.control(), stream);
  apply(finish, input.out, n_, stream);
  if (type == type_) {
    kernels_->copy(x, input.out, bytes(), stream);
    return;
  }
  kernels_->fillZero(x, n_ * elementBytes(type), stream);
  kernels_->flush(input.out, type_, x, type, n_, stream);
}

void Residual::apply(const Finish& finish, void* x, uint64_t count, Stream stream) {
  if (finish.divisor != 1 || !finish.scale.isOne()) reshape(*kernels_, {x, x, type_, count, 1, finish}, stream);
}

// each(at, acc, count, copy, rounded): of a piece, with room for as many elements of either type.
template <class Each>
void Residual::eachPiece(sparsecollDataType_t type, Stream stream, Each each) {
  auto* const copy = pieces_.as<>();
  auto* const rounded = copy + kPiece * elementBytes(type_);
  for (uint64_t at = 0; at < n_; at += kPiece) {
    const uint64_t count = std::min(kPiece, n_ - at);
    kernels_->fillZero(rounded, count * elementBytes(type), stream);
    each(at, static_cast<std::byte*>(buffer(current_)) + at * elementBytes(type_), count, copy, rounded);
  }
}

// A copy is rounded, because acc has to be whole again if the sum comes to nothing.
void Residual::roundInto(void* x, sparsecollDataType_t type, const Finish& finish, Stream stream) {
  if (type == type_) {
    kernels_->copy(x, buffer(current_), bytes(), stream);
    apply(finish, x, n_, stream);
    return;
  }
  eachPiece(type, stream, [&](uint64_t at, const void* acc, uint64_t count, void* copy, void* rounded) {
    kernels_->copy(copy, acc, count * elementBytes(type_), stream);
    apply(finish, copy, count, stream);
    kernels_->flush(copy, type_, rounded, type, count, stream);
    kernels_->copy(static_cast<std::byte*>(x) + at * elementBytes(type), rounded, count * elementBytes(type), stream);
  });
}

void Residual::leaveDense(sparsecollDataType_t type, const Finish& finish, Stream stream) {
  if (!kept_) return;
  if (type == type_) {
    kernels_->fillZero(buffer(current_), bytes(), stream);
    return;
  }
  eachPiece(type, stream, [&](uint64_t, void* acc, uint64_t count, void*, void* rounded) {
    apply(finish, acc, count, stream);
    kernels_->flush(acc, type_, rounded, type, count, stream);
    apply({1, finish.divisor / finish.scale.now()}, acc, count, stream);
  });
}

// Of NaN and Inf only this rank's own get into what it keeps, so nobody else has to be asked.
void Residual::clearOwnNonFinite(Control* control, Stream stream) {
  kernels_->copy(&control->anyNonFinite, &control->nonFinite.count, sizeof(uint32_t), stream);
  clearNonFinite(control, stream);
}

void Residual::clearNonFinite(const Control* control, Stream stream) {
  if (kept_) kernels_->clearNonFinite(buffer(current_), type_, n_, control, stream);
  shape_.clearNonFinite(current_, control, stream);
}

void Residual::beginStep() {
  outLeft_ = false;
  snapshotTaken_ = undecided_ = false;
}

Status Residual::prepare(SelectionInput& input, const Operation& operation, Stream stream) {
  const bool isCaptured = operation.captured();
  next_ = transactional_ && !captured_ && !isCaptured ? other() : current_;
  if (transactional_ && next_ == current_) {
    snapshot(other(), current_, stream);
    SC_TRY(kernels_->enqueued());
    snapshotTaken_ = !isCaptured;  // else the graph restores it
  }
  input.in = kept_ ? buffer(current_) : nullptr;
  input.out = buffer(next_);
  if (anyDeferred_) input.deferredZeros = deferredZeros_.as<uint64_t>();
  anyDeferred_ = false;  // the pass reads them
  shape_.prepare(input, current_, next_, stream);
  undecided_ = !transactional_ && !isCaptured;
  denseTensors_->cutOut(input, stream);
  return {};
}

// Whether the step takes effect is decided where its kernels run, so on a device nobody waits: there the new buffer
// becomes the residual in any case, and gets the old one's content back where the step came to nothing.
Status Residual::commit(const Operation& operation, const Delivered& delivered, Control* control, Stream stream) {
  // A step that ends with NonFinite delivers nothing, so nothing leaves either.
  const bool nonFiniteUndoes = nonFiniteFails_ || transactional_;
  Status concluded = kernels_->conclude({control, operation.identity(), nonFiniteUndoes, nonFiniteFails_}, stream);
  if (!kept_) return concluded;
  if (!concluded.ok() && concluded.result() != sparsecollNonFinite) return concluded;  // nothing was decided
  denseTensors_->keepVelocity(shape_.velocity(next_), stream);
  leave(delivered, control, &control->lost, stream);
  denseTensors_->returnVelocity(shape_.velocity(next_), stream);
  denseTensors_->restore(buffer(next_), control, stream);
  kernels_->clearNonFinite(buffer(next_), type_, n_, control, stream);
  shape_.clearNonFinite(next_, control, stream);
  if (transactional_) {
    kernels_->restore(buffer(next_), buffer(1 - next_), type_, n_, control, stream);
    shape_.restore(next_, control, stream);
  }
  SC_TRY(kernels_->enqueued());
  current_ = next_;
  snapshotTaken_ = undecided_ = false;
  if (concluded.ok()) committed_ = operation.sequence;  // else nobody applies the step
  outLeft_ = true;
  return concluded;
}

void Residual::leave(const Delivered& delivered, const Control* decision, uint64_t* lost, Stream stream) {
  void* const acc = buffer(next_);
  auto* const deferred = deferredZeros_.as<uint64_t>();
  anyDeferred_ = deferred != nullptr;
  if (delivered.settles) {
    SettleArgs args{acc, type_, n_, delivered.lists[0], delivered.sent, delivered.dropped};
    if (delivered.lossy) args.lost = lost;
    args.decision = decision;
    args.deferredZeros = deferred;
    kernels_->settle(args, stream);
    shape_.mask(next_, delivered.sent, delivered.lists[0], decision, stream);
    return;
  }
  for (const ListView& list : delivered.sent) {
    if (deferred != nullptr)
      kernels_->deferZeros(deferred, n_, list, decision, stream);
    else
      kernels_->zeroAt(acc, type_, n_, list, decision, stream);
    shape_.mask(next_, list, decision, stream);
  }
}

void Residual::endStep(bool captured, Control* control, Stream stream) {
  if (snapshotTaken_) snapshot(current_, other(), stream);  // it failed before its commit
  if (undecided_ && kept_) {
    denseTensors_->putBack(buffer(current_), stream);
    // Selections that cut while they exchange have not noted by now what is in the rest of the vector.
    constexpr uint32_t kSome = 1;
    kernels_->transfer(&control->anyNonFinite, &kSome, sizeof kSome, stream);
    clearNonFinite(control, stream);
  }
  snapshotTaken_ = undecided_ = false;
  captured_ = captured_ || captured;
}

void Residual::snapshot(int to, int from, Stream stream) {
  kernels_->copy(buffer(to), buffer(from), bytes(), stream);
  shape_.copy(to, from, stream);
}

Status Residual::checkStays(Stream stream) const {
  if (!transactional_ || captured_ || !kernels_->captures(stream)) return {};
  return fail(sparsecollInvalidUsage, "the residual of a transactional reducer moves until a step of it was captured");
}

void Residual::giveBack(const void* out, sparsecollDataType_t type, double share, Scale scale, const Control* decision,
                        Stream stream) {
  if (!outLeft_ && !captured_) return;  // of replayed steps only the caller knows
  outLeft_ = false;
  kernels_->addFinite(data(), type_, out, type, n_, share, scale, decision, stream);
}

void Residual::flush(void* x, sparsecollDataType_t type, Stream stream) {
  kernels_->flush(data(), type_, x, type, n_, stream);
}

void Residual::reset(Stream stream) {
  if (kept_) kernels_->fillZero(data(), bytes(), stream);
  shape_.reset(stream);
  outLeft_ = false;
}

std::array<void*, 2> Residual::vectors(bool stepBack) {
  const bool kept = data() != nullptr;  // its zeros are written now
  const int which = stepBack ? other() : current_;
  return {kept ? buffer(which) : nullptr, shape_.velocity(which)};
}

void Residual::copyTo(Residual& to, bool stepBack, Kernels& kernels) {
  const std::array<void*, 2> from = vectors(stepBack);
  const std::array<void*, 2> into = to.vectors();
  for (size_t v = 0; v < into.size(); ++v)
    if (into[v] != nullptr && from[v] != nullptr) kernels.copy(into[v], from[v], bytes(), kernels.stream());
}

}  // namespace sparsecoll
