#include "src/reducer.h"

#include <algorithm>
#include <cmath>

#include "src/agreement.h"
#include "src/entries.h"
#include "src/names.h"
#include "src/pointer_checks.h"
#include "src/tables.h"

namespace sparsecoll {

Result<StreamUse> Reducer::streamOf(sparsecollStream_t stream) {
  SC_TRY(checkStream(comm_->onHost(), stream));
  return StreamUse(comm_->kernels(), {stream, method_.workspace.get()});
}

Status Reducer::run(const void* gradient, void* out, Stream stream) {
  SC_TRY(checkRun(gradient, out));
  return runChecked(gradient, out, stream);
}

Status Reducer::runChecked(const void* gradient, void* out, Stream stream) {
  SC_TRY(followSchedule(stream));
  if (selects()) {
    void* const sum = level_ != nullptr ? level_->partOf(out) : out;
    SC_TRY(preservedOut_.prepare(sum, residual_.captured(), stream));
  }
  const StepBody flat = spec_.dense() ? &Reducer::denseStep : &Reducer::sparseStep;
  return step(level_ != nullptr ? &Reducer::stepOverNodes : flat, {gradient, out, &Reducer::finishDense, stream});
}

Status Reducer::checkRun(const void* gradient, const void* out) const {
  SC_TRY(checkVectors(spec_, length(), gradient, out));
  const uint64_t bytes = length() * elementBytes(spec_.type);
  SC_TRY(residual_.checkApart("the gradient", gradient, bytes));
  return residual_.checkApart("out", out, bytes);
}

void Reducer::takeResidual(Reducer& other) {
  residual_ = std::move(other.residual_);
  other.residual_ = Residual();
  residual_.pointAt(denseTensors_);
  preservedOut_.forget();  // what out holds may be the other one's
  owesResidual_ = spec_.keepsResidual();
}

void Reducer::startAnew(uint64_t iteration) {
  if (method_.selection != nullptr) {
    method_.selection->reset(iteration);
    schedule_.follow(*method_.selection);
    if (!scheduleEnded()) nextDensity_.reset();
  }
  preservedOut_.forget();
}

Status Reducer::runSparse(const void* gradient, sparsecollVector_t& out, Stream stream) {
  if (level_ != nullptr) return unsupported("a sparse sum of collective hierarchical");
  if (spec_.dense()) return unsupported("the dense collective has no sparse sum");
  if (spec_.has(SPARSECOLL_ACCUMULATE)) return invalid("SPARSECOLL_ACCUMULATE is for dense sums");
  if (gradient == nullptr) return invalid("gradient is NULL");
  SC_TRY(checkPointer("gradient", gradient, elementBytes(spec_.type)));
  SC_TRY(residual_.checkApart("the gradient", gradient, spec_.n * elementBytes(spec_.type)));
  SC_TRY(checkSparseOut(gradient, out));
  SC_TRY(followSchedule(stream));
  if (out.capacity < sparseNeed()) {
    if (comm_->onHost()) *out.count = sparseNeed();
    return fail(sparsecollCapacity, "out has {} slots, the sum may need {}", out.capacity, sparseNeed());
  }
  SC_TRY(step(&Reducer::sparseStep, {gradient, &out, &Reducer::finishSparse, stream}));
  out.flags |= SPARSECOLL_SORTED;
  return {};
}

uint64_t Reducer::stepPlan() const {
  // Of states that ranks have imported: methods whose ranks take turns would select some parts twice and others not at
  // all, and those whose rounds differ from step to step would not meet. Candidates of auto have no such turns, and
  // after a step in another order not all ranks count alike. Nor do they after steps on devices that one rank alone
  // could not enqueue, and a rank without a shard does not count at all.
  const bool allCount = level_ == nullptr || level_->allOwn(comm_->ranks());
  const bool counts = selects() && comm_->onHost() && !spec_.takesTurns && allCount;
  const uint64_t iteration = counts ? method_.selection->iteration() : 0;
  if (level_ != nullptr) return agreedOfStep(plan_, askedDensity_, iteration, scales_.now());
  return agreedOfStep(plan_, method_.selection.get(), iteration, scales_.now());
}

OperationLabel Reducer::labelOf(const char* call) const {
  OperationLabel label{call, preset_};
  if (!spec_.dense()) label.selector = spec_.selector->name;
  label.collective = spec_.overNodes ? collectiveName(sparsecollCollHierarchical) : spec_.collective->name;
  label.tag = spec_.params.tag;
  label.n = length();
  label.k = method_.selection != nullptr && !spec_.dense() ? spec_.requested(method_.selection->k()) : label.n;
  return label;
}

Status Reducer::step(StepBody body, StepArgs args) {
  const Stream stream = args.stream;
  residual_.beginStep();
  const bool captured = comm_->kernels().captures(stream);
  // A step overwrites what the one before left behind, which survivors may have to go back to: not before all ranks
  // have committed that one.
  if (spec_.transactional && comm_->onHost()) SC_TRY(agree(*comm_, "commit", {}).takeStatusOrOk());
  if (selects()) method_.selection->use(stream);
  const OperationLabel label = labelOf(args.finish == &Reducer::finishSparse ? "ReducerRunSparse" : call_);
  Operation operation;
  operation.label = &label;
  operation.plan = stepPlan();
  operation.turn = ++turn_;
  stats_->begin(operation, selects() ? Phase::kSelect : Phase::kExchange, stream);
  Status status = comm_->operate(operation, [&](Operation& op) { return (this->*body)(op, args); });
  if (spec_.dense()) tellDense();
  if (!selects()) stats_->step().opsNonFinite = args.nonFinite ? 1 : 0;
  stats_->finish(operation, status, selects() ? method_.selection.get() : nullptr);
  if (!selects()) return status;
  residual_.endStep(status.ok() && operation.captured(), method_.selection->control(), stream);
  // Not every rank got equally far, unless all of them met NaN or Inf at the end.
  if (!status.ok() && !captured && status.result() != sparsecollNonFinite) method_.selection->startAgreedAnew();
  return status;
}

Status Reducer::sparseStep(Operation& operation, StepArgs& args) {
  const bool captured = operation.captured();
  SC_TRY(checkCapture(captured));
  SelectionInput input;
  input.gradient = args.gradient;
  input.gradientType = spec_.type;
  input.scale = scales_.in(captured);
  SC_TRY(const Delivered delivered, exchange(operation, input, args.finish, args.out, args.stream));
  method_.selection->advance(args.stream);
  Status committed = residual_.commit(operation, delivered, method_.selection->control(), args.stream);
  stats_->end(Phase::kScatter, args.stream);
  return committed;
}

Result<Delivered> Reducer::exchange(Operation& operation, SelectionInput& input, FinishStep finish, void* out,
                                    Stream stream) {
  const bool captured = operation.captured();
  SC_TRY(residual_.prepare(input, operation, stream));
  method_.selection->pass(input, stream);
  CollectiveStep collective{&operation, input.out, method_.selection->control(), &method_.selection->tables(),
                            {},         stream};
  if (method_.survey) {
    SC_TRY(method_.survey->run(collective));
    method_.selection->afterSurvey(stream);
  }
  if (!method_.collective->selects()) SC_TRY(method_.selection->cut(method_.collective->target(operation), stream));
  stats_->end(Phase::kSelect, stream);

  collective.cut = method_.selection->candidates();
  SC_TRY(Delivered delivered, method_.collective->run(collective));
  if (method_.collective->selects()) method_.selection->afterCut(stream);
  SC_TRY(method_.selection->observe(delivered.lists, stream));
  SC_TRY(delivered.lists, denseTensors_.sum(operation, delivered.lists, stream));
  stats_->end(Phase::kExchange, stream);

  SC_TRY((this->*finish)(delivered, finishOf(operation), out, stream));
  scales_.noteStep(captured || residual_.captured(), stream);
  return delivered;
}

Status Reducer::finishDense(const Delivered& delivered, const Finish& finish, void* out, Stream stream) {
  CombineArgs args;
  args.lists = delivered.lists;
  args.mode = delivered.mode;
  args.accumulateType = spec_.accumulateType;
  args.out = out;
  args.outType = spec_.type;
  args.n = spec_.n;
  args.finish = finish;
  args.overContributors = spec_.countsContributors();
  args.accumulate = spec_.has(SPARSECOLL_ACCUMULATE);
  args.touchedLines = preservedOut_.touchedLines();
  args.control = method_.selection->control();
  return comm_->kernels().combine(args, stream);
}

Status Reducer::finishSparse(const Delivered& delivered, const Finish& finish, void* out, Stream stream) {
  auto& vector = *static_cast<sparsecollVector_t*>(out);
  MergeArgs args;
  args.lists = delivered.lists;
  args.mode = delivered.mode;
  args.accumulateType = spec_.accumulateType;
  args.n = spec_.n;
  args.finish = finish;
  args.overContributors = spec_.countsContributors();
  args.outIndices = vector.indices;
  args.outValues = vector.values;
  args.outType = spec_.type;
  args.outCount = vector.count;
  args.outCapacity = vector.capacity;
  args.control =
      sparseNeed() != 0 ? method_.selection->control() : nullptr;  // a sum without entries shows no NaN either
  SC_TRY(comm_->kernels().merge(args, stream));
  if (comm_->onHost()) stats_->step().lastUnion = *vector.count;
  return {};
}

Finish Reducer::finishOf(const Operation& operation) const {
  const bool overRanks = spec_.params.op == sparsecollAvg && !spec_.countsContributors();
  return {overRanks ? static_cast<double>(comm_->ranks()) : 1.0, scales_.out(operation.captured())};
}

Status Reducer::denseStep(Operation& operation, StepArgs& args) {
  // Where methods take turns, a dense sum after another one finds a residual that is empty, or that rounding has left.
  const bool forms = shapesInput(spec_.params) || owesResidual_;
  const bool keeps = spec_.keepsResidual();
  owesResidual_ = owesResidual_ || (forms && keeps);  // until the sum has taken it along
  const Scale in = scales_.in(operation.captured());
  DenseArgs dense{
      args.gradient,  args.out, spec_.n, spec_.type, in, finishOf(operation), spec_.has(SPARSECOLL_ACCUMULATE),
      &args.nonFinite};
  if (forms) shapeDense(dense, spec_.type, args.stream);
  if (sumCheck_) dense.nonFiniteAt = sumCheck_->begin(args.stream);
  const Status summed = comm_->transport().allReduce(operation, dense, args.stream);
  stats_->end(Phase::kExchange, args.stream);
  if (!summed.ok()) return Status(summed.failure());
  if (sumCheck_) return sumCheck_->tell(operation, args.stream);
  SC_TRY(denseEnd(args.nonFinite));
  if (keeps) {
    if (forms) residual_.leaveDense(spec_.type, finishBefore(finishOf(operation)), args.stream);
    owesResidual_ = false;
    residual_.noteDense();
    scales_.noteStep(false, args.stream);
  }
  return {};
}

Status Reducer::denseEnd(bool nonFinite) const {
  if (nonFinite && comm_->config().nonFinite == sparsecollNonFiniteError)
    return fail(sparsecollNonFinite, "the sum has NaN or Inf");
  return {};
}

void Reducer::tellDense() {
  sparsecollStats_t& step = stats_->step();
  step.opsDense = 1;
  step.lastRequested = step.lastSelected = step.lastUnion = spec_.n;
  step.lastImbalance = 1;
}

// What is done to a dense sum's input before it is rounded to fewer digits, and then not to the sum. Without
// outputScale small gradients would be 0 in Float16, and without the division of an average large ones Inf.
Finish Reducer::finishBefore(const Finish& finish) const {
  return spec_.type == spec_.accumulateType ? Finish() : finish;
}

// The sum is formed in place where it can be: engines may hold on to what they are given for longer than a reducer
// lives.
void Reducer::shapeDense(DenseArgs& args, sparsecollDataType_t inType, Stream stream) {
  SelectionInput input;
  input.gradient = args.in;
  input.gradientType = inType;
  input.scale = args.inputScale;
  void* const x = args.accumulate ? denseInput_.as<>() : args.out;
  residual_.shapeDense(input, *method_.selection, x, args.type, finishBefore(args.finish), stream);
  args.in = x;
  args.inputScale = 1;
  if (spec_.type != spec_.accumulateType) args.finish = Finish();
}

Status Reducer::setScales(ScalePair scales) {
  SC_TRY(checkFactor("inputScale", scales.in, spec_.accumulateType));
  SC_TRY(checkFactor("outputScale", scales.out, spec_.accumulateType));
  SC_TRY(notCaptured(stats_->lastStream()));
  scales_.set(scales, stats_->lastStream());
  return settleAside();
}

Status Reducer::settleAside() {
  const Stream stream = stats_->lastStream();
  comm_->kernels().noteUse(stream);
  return stats_->captured() ? comm_->reach(stream) : Status();
}

Status Reducer::giveBack(const void* out, double factor, Stream stream) {
  if (out == nullptr) return invalid("out is NULL");
  SC_TRY(checkFactor("factor", factor, spec_.accumulateType));
  if (spec_.has(SPARSECOLL_ACCUMULATE)) return unsupported("giving back what was added to out");
  if (!spec_.keepsResidual()) return unsupported("this method keeps no residual to give back to");
  if (spec_.countsContributors()) return unsupported("giving back what was averaged over contributors");
  SC_TRY(checkPointer("out", out, elementBytes(spec_.type)));
  SC_TRY(residual_.checkApart("out", out, length() * elementBytes(spec_.type)));
  SC_TRY(residual_.checkStays(stream));
  if (!owns()) return {};
  if (level_ != nullptr) out = level_->partOf(out);
  const double owners = exchanging().ranks();  // among whom the sum is shared out again
  const double share = spec_.params.op == sparsecollAvg ? comm_->ranks() / owners : 1.0 / owners;
  if (!residual_.captured())
    SC_TRY(checkFactor("a rank's share over factor and outputScale", share / factor / scales_.lastOut(false).now(),
                       spec_.accumulateType));
  residual_.giveBack(out, spec_.type, share / factor, scales_.lastOut(residual_.captured()),
                     spec_.dense() ? nullptr : method_.selection->control(), stream);
  owesResidual_ = true;
  return {};
}

Status Reducer::reset(Stream stream) {
  SC_TRY(notCaptured(stream));
  SC_TRY(keepsSchedule());
  if (method_.selection != nullptr) {
    method_.selection->use(stream);
    method_.selection->reset();
    schedule_.follow(*method_.selection);
    nextDensity_.reset();
  }
  residual_.reset(stream);
  if (!residual_.captured()) preservedOut_.forget();
  return {};
}

Status Reducer::flush(void* dense, Stream stream) {
  if (dense == nullptr) return invalid("dense is NULL");
  SC_TRY(checkPointer("dense", dense, elementBytes(spec_.type)));
  if (!spec_.keepsResidual()) return {};
  SC_TRY(residual_.checkApart("dense", dense, length() * elementBytes(spec_.type)));
  SC_TRY(residual_.checkStays(stream));
  if (!owns()) return {};
  if (level_ != nullptr) dense = level_->partOf(dense);
  residual_.flush(dense, spec_.type, stream);
  return {};
}

Status Reducer::checkSparseOut(const void* gradient, const sparsecollVector_t& out) const {
  SC_TRY(checkVector("out", &out));
  if (out.dataType != spec_.type) return invalid("out.dataType is {}, the reducer's {}", out.dataType, int{spec_.type});
  if (indexBytesOf(out) != sizeof(uint32_t)) return unsupported("64-bit indices for the sum of a reducer");
  if (out.length != spec_.n) return invalid("out.length is {}, n is {}", out.length, spec_.n);
  const uint64_t element = elementBytes(spec_.type);
  const std::pair<const void*, uint64_t> parts[] = {{out.values, out.capacity * element},
                                                    {out.indices, out.capacity * sizeof(uint32_t)},
                                                    {out.count, sizeof(uint64_t)}};
  for (const auto& [data, bytes] : parts) {
    SC_TRY(checkDisjoint("out", data, bytes, "the gradient", gradient, spec_.n * element));
    SC_TRY(residual_.checkApart("out", data, bytes));
  }
  return {};
}

// The most entries a sum can have: every rank's selection, and every rank's named non-finite entries.
uint64_t Reducer::sparseNeed() const {
  const uint64_t own = method_.selection->capacity() + spec_.sentDense;
  if (own == 0) return 0;
  return std::min(spec_.n, (own + kMaxNonFiniteIndices) * static_cast<uint64_t>(exchanging().ranks()));
}

// What a replay could not do right. All ranks find the same, and after they have met, so nobody waits for another one.
Status Reducer::checkCapture(bool captured) const {
  if (!captured || spec_.dense()) return {};
  if (level_ != nullptr && !spec_.densitySchedule.empty())  // a rank without a shard does not follow it
    return unsupported("capture of a step over nodes with a density schedule");
  if (!scheduleEnded() || schedule_.current() != schedule_.last())
    return unsupported("capture before a step was run with the density that the schedule ends with");
  return {};
}

Status Reducer::notCaptured(Stream stream) const {
  if (!comm_->kernels().captures(stream)) return {};
  return fail(sparsecollInvalidUsage, "the stream is captured, and this call cannot be");
}

}  // namespace sparsecoll
