#include "src/reducer.h"

#include <algorithm>
#include <cstring>

#include "src/agreement.h"
#include "src/entries.h"
#include "src/tables.h"

namespace sparsecoll {

Status checkPointer(const char* name, const void* pointer, uint64_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0)
    return invalid("{} is not aligned to its element of {} bytes", name, alignment);
  return {};
}

Status checkPair(const char* aName, const void* a, uint64_t aBytes, const char* bName, const void* b, uint64_t bBytes) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  if (first == second && aBytes == bBytes) return {};
  if (first < second + bBytes && second < first + aBytes) return invalid("{} and {} overlap", aName, bName);
  return {};
}

void* Reducer::accBuffer(int which) const {
  auto* const base = spec_.buffer != nullptr ? static_cast<std::byte*>(spec_.buffer) : acc_.as<>();
  return base + static_cast<uint64_t>(which) * accBytes();
}

Status checkVectors(const ReducerSpec& spec, const void* gradient, const void* out) {
  const uint64_t element = elementBytes(spec.type);
  const uint64_t bytes = spec.n * element;
  if (gradient == nullptr) return invalid("gradient is NULL");
  if (out == nullptr) return invalid("out is NULL");
  SC_TRY(checkPointer("gradient", gradient, element));
  SC_TRY(checkPointer("out", out, element));
  SC_TRY(checkPair("gradient", gradient, bytes, "out", out, bytes));
  if (spec.has(SPARSECOLL_OUT_PRESERVED) && gradient == out)
    return invalid("out is the gradient, so SPARSECOLL_OUT_PRESERVED cannot hold");
  return {};
}

void* Reducer::residual() {
  if (!spec_.keepsResidual()) return nullptr;
  void* const acc = accBuffer(current_);
  if (anyGone_) comm_->kernels().writeGone(acc, spec_.accumulateType, spec_.n, gone_.as<uint64_t>(), {});
  anyGone_ = false;
  return acc;
}

Status Reducer::checkAgainstResidual(const void* vector, uint64_t bytes) const {
  if (spec_.dense()) return {};
  const void* const acc = accBuffer(0);
  if (vector == acc || !checkPair("", vector, bytes, "", acc, accBytes() * (spec_.transactional ? 2 : 1)).ok())
    return invalid("the gradient or out overlaps the residual");
  return {};
}

Finish Reducer::finishScale() const {
  const bool overRanks = spec_.params.op == sparsecollAvg && !spec_.countsContributors();
  return {overRanks ? static_cast<double>(comm_->ranks()) : 1.0, spec_.params.outputScale};
}

Result<StreamUse> Reducer::streamOf(sparsecollStream_t stream) {
  if (comm_->onHost()) SC_TRY(checkStream(stream));
  return StreamUse(comm_->kernels(), {stream, workspace_.get()});
}

Status Reducer::run(const void* gradient, void* out, Stream stream) {
  SC_TRY(checkVectors(spec_, gradient, out));
  const uint64_t bytes = spec_.n * elementBytes(spec_.type);
  SC_TRY(checkAgainstResidual(gradient, bytes));
  SC_TRY(checkAgainstResidual(out, bytes));
  if (spec_.dense()) return runDense(gradient, out, stream);
  SC_TRY(prepareOut(out, stream));
  return step(gradient, &Reducer::finishDense, out, stream);
}

Status Reducer::runDense(const void* gradient, void* out, Stream stream) {
  step_ = {};
  Operation operation;
  operation.plan = plan_;
  operation.turn = ++turn_;
  prepare(operation, stream);
  bool nonFinite = false;
  clock_->start(Phase::kExchange, stream);
  const Status status = comm_->operate(operation, [&](Operation& op) -> Status {
    DenseArgs args{
        gradient,  out, spec_.n, spec_.type, spec_.params.inputScale, finishScale(), spec_.has(SPARSECOLL_ACCUMULATE),
        &nonFinite};
    if (sumCheck_) args.nonFiniteAt = sumCheck_->begin(stream);
    SC_TRY(comm_->transport().allReduce(op, args, stream));
    if (sumCheck_) return sumCheck_->tell(op, stream);
    if (nonFinite && comm_->config().nonFinite == sparsecollNonFiniteError)
      return fail(sparsecollNonFinite, "the sum has NaN or Inf");
    return {};
  });
  clock_->end(Phase::kExchange, stream);
  clock_->stop();
  step_.opsNonFinite = nonFinite ? 1 : 0;
  step_.opsDense = 1;
  step_.lastRequested = step_.lastSelected = step_.lastUnion = spec_.n;
  step_.lastImbalance = 1;
  countStep(operation, status);
  return status.ok() ? Status() : Status(status.failure());
}

// The first sum written to an out that is to be preserved finds it in an unknown state.
Status Reducer::prepareOut(void* out, Stream stream) {
  if (!spec_.has(SPARSECOLL_OUT_PRESERVED) || out == lastOut_) return {};
  if (captured_) return fail(sparsecollInvalidUsage, "captured steps preserve another out");
  if (comm_->kernels().captures(stream))
    return fail(sparsecollInvalidUsage, "the out that steps preserve has not been used before the capture");
  comm_->kernels().fillZero(out, spec_.n * elementBytes(spec_.type), stream);
  comm_->kernels().fillZero(touchedLines_.as<>(), touchedLines_.bytes(), stream);
  lastOut_ = out;
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
    if (data == gradient || !checkPair("", data, bytes, "", gradient, spec_.n * element).ok())
      return invalid("out overlaps the gradient");
    SC_TRY(checkAgainstResidual(data, bytes));
  }
  return {};
}

// The most entries a sum can have: every rank's selection, and every rank's named non-finite entries.
uint64_t Reducer::sparseNeed() const {
  if (selection_->capacity() == 0) return 0;
  return std::min(spec_.n, (selection_->capacity() + kMaxNonFiniteIndices) * static_cast<uint64_t>(comm_->ranks()));
}

Status Reducer::runSparse(const void* gradient, sparsecollVector_t& out, Stream stream) {
  if (spec_.dense()) return unsupported("the dense collective has no sparse sum");
  if (spec_.has(SPARSECOLL_ACCUMULATE)) return invalid("SPARSECOLL_ACCUMULATE is for dense sums");
  if (gradient == nullptr) return invalid("gradient is NULL");
  SC_TRY(checkPointer("gradient", gradient, elementBytes(spec_.type)));
  SC_TRY(checkAgainstResidual(gradient, spec_.n * elementBytes(spec_.type)));
  SC_TRY(checkSparseOut(gradient, out));
  if (out.capacity < sparseNeed()) {
    if (comm_->onHost()) *out.count = sparseNeed();
    return fail(sparsecollCapacity, "out has {} slots, the sum may need {}", out.capacity, sparseNeed());
  }
  SC_TRY(step(gradient, &Reducer::finishSparse, &out, stream));
  out.flags |= SPARSECOLL_SORTED;
  return {};
}

Status Reducer::step(const void* gradient, FinishStep finish, void* out, Stream stream) {
  step_ = {};
  outLeftResidual_ = false;
  copied_ = false;
  const bool captured = comm_->kernels().captures(stream);
  // A step overwrites what the one before left behind, which survivors may have to go back to: not before all ranks
  // have committed that one.
  if (spec_.transactional && comm_->onHost()) SC_TRY(agree(*comm_, "commit", {}).takeStatusOrOk());
  selection_->use(stream);
  if (!captured) schedule_.follow(*selection_);
  const Agreed parts[] = {{"plan", plan_}, {"k", selection_->k()}};
  Operation operation;
  operation.plan = hashOf("step", parts);
  operation.turn = ++turn_;
  prepare(operation, stream);
  clock_->start(Phase::kSelect, stream);
  Status status = comm_->operate(operation, [&](Operation& op) { return stepBody(op, gradient, finish, out, stream); });
  clock_->stop();
  countStep(operation, status);
  if (copied_ && !captured) putBack(stream);
  // Not every rank got equally far, unless all of them met NaN or Inf at the end.
  if (!status.ok() && !captured && status.result() != sparsecollNonFinite) selection_->startAgreedAnew();
  return status;
}

void Reducer::prepare(Operation& operation, Stream stream) {
  operation.stream = stream;
  operation.replays = replays_.as<uint64_t>();
  const std::lock_guard lock(mutex_);
  lastStream_ = stream;
}

// What a replay could not do right. All ranks find the same, and after they have met, so nobody waits for another one.
Status Reducer::checkCapture(bool captured) const {
  if (!captured || spec_.dense()) return {};
  if (!schedule_.ended())
    return unsupported("capture before a step was run with the density that the schedule ends with");
  return {};
}

// What replays do is not followed by a schedule on the host.
Status Reducer::keepsSchedule() const {
  if (!captured_ || spec_.densitySchedule.empty()) return {};
  return fail(sparsecollInvalidUsage, "steps were captured, so the density schedule cannot begin anew");
}

// A graph that is captured now keeps the residual's address.
Status Reducer::checkResidualStays(Stream stream) const {
  if (!spec_.transactional || captured_ || !comm_->kernels().captures(stream)) return {};
  return fail(sparsecollInvalidUsage, "the residual of a transactional reducer moves until a step of it was captured");
}

Status Reducer::notCaptured(Stream stream) const {
  if (!comm_->kernels().captures(stream)) return {};
  return fail(sparsecollInvalidUsage, "the stream is captured, and this call cannot be");
}

Status Reducer::stepBody(Operation& operation, const void* gradient, FinishStep finish, void* out, Stream stream) {
  SC_TRY(checkCapture(operation.sequenceAt != nullptr));
  const int next = bufferAfter(operation);
  void* const acc = accBuffer(next);
  if (spec_.transactional && next == current_) SC_TRY(keepBefore(stream));
  SelectionInput input;
  input.gradient = gradient;
  input.gradientType = spec_.type;
  input.in = spec_.keepsResidual() ? accBuffer(current_) : nullptr;
  input.out = acc;
  input.scale = spec_.params.inputScale;
  if (anyGone_) input.gone = gone_.as<uint64_t>();
  shape_.prepare(input, current_, next, stream);
  selection_->pass(input, stream);
  anyGone_ = false;
  CollectiveStep collective{&operation, acc, selection_->control(), &selection_->tables(), {}, stream};
  if (survey_) {
    SC_TRY(survey_->run(collective));
    selection_->afterSurvey(stream);
  }
  if (!collective_->selects()) selection_->cut(collective_->target(operation), stream);
  clock_->end(Phase::kSelect, stream);

  collective.cut = selection_->candidates();
  SC_TRY(const Delivered delivered, collective_->run(collective));
  if (collective_->selects()) selection_->afterCut(stream);
  SC_TRY(selection_->observe(delivered.lists, stream));
  clock_->end(Phase::kExchange, stream);

  SC_TRY((this->*finish)(delivered, out, stream));
  Status committed = commit(operation, delivered, stream);
  clock_->end(Phase::kScatter, stream);
  return committed;
}

Status Reducer::finishDense(const Delivered& delivered, void* out, Stream stream) {
  CombineArgs args;
  args.lists = delivered.lists;
  args.mode = delivered.mode;
  args.accumulateType = spec_.accumulateType;
  args.out = out;
  args.outType = spec_.type;
  args.n = spec_.n;
  args.finish = finishScale();
  args.overContributors = spec_.countsContributors();
  args.accumulate = spec_.has(SPARSECOLL_ACCUMULATE);
  args.touchedLines = spec_.has(SPARSECOLL_OUT_PRESERVED) ? touchedLines_.as<uint64_t>() : nullptr;
  args.control = selection_->control();
  return comm_->kernels().combine(args, stream);
}

Status Reducer::finishSparse(const Delivered& delivered, void* out, Stream stream) {
  auto& vector = *static_cast<sparsecollVector_t*>(out);
  MergeArgs args;
  args.lists = delivered.lists;
  args.mode = delivered.mode;
  args.accumulateType = spec_.accumulateType;
  args.n = spec_.n;
  args.finish = finishScale();
  args.overContributors = spec_.countsContributors();
  args.outIndices = vector.indices;
  args.outValues = vector.values;
  args.outType = spec_.type;
  args.outCount = vector.count;
  args.outCapacity = vector.capacity;
  args.control = sparseNeed() != 0 ? selection_->control() : nullptr;  // a sum without entries shows no NaN either
  SC_TRY(comm_->kernels().merge(args, stream));
  if (comm_->onHost()) step_.lastUnion = *vector.count;
  return {};
}

void Reducer::tellControl(const Control& control, sparsecollStats_t& stats) const {
  stats.opsNonFinite = control.anyNonFinite != 0 ? 1 : 0;
  stats.opsOverflow = control.overflows != 0 ? 1 : 0;
  stats.opsFallback = control.fallbacks != 0 ? 1 : 0;
  stats.entriesLost = control.lost;
  stats.lastRequested = selection_->k();
  stats.lastSelected = control.selected;
  stats.lastCandidates = control.candidates;
  stats.lastThreshold = control.threshold;
  if (stats.lastUnion == 0) stats.lastUnion = std::min(control.delivered, spec_.n);
  const double mean = static_cast<double>(control.delivered) / comm_->ranks();
  stats.lastImbalance = mean > 0 ? control.largest / mean : 1;
}

void Reducer::tellTimes(sparsecollStats_t& stats) const {
  const PhaseTimes times = clock_->latest();
  stats.lastSelectNs = times.ns[static_cast<size_t>(Phase::kSelect)];
  stats.lastExchangeNs = times.ns[static_cast<size_t>(Phase::kExchange)];
  stats.lastScatterNs = times.ns[static_cast<size_t>(Phase::kScatter)];
  stats.lastTotalNs = times.totalNs;
}

void Reducer::countStep(const Operation& operation, const Status& status) {
  tellTimes(step_);
  step_.opsStarted = 1;
  step_.opsCompleted = status.ok() ? 1 : 0;
  step_.bytesSent = step_.lastBytesSent = operation.sentBytes;
  step_.bytesReceived = operation.receivedBytes;
  step_.lastRounds = operation.round;
  step_.lastMessagesSent = operation.sentMessages;
  const auto ranks = static_cast<uint64_t>(comm_->ranks());
  step_.bytesDense = 2 * (ranks - 1) * spec_.n * elementBytes(spec_.type) / ranks;
  step_.lastSequence = operation.sequence;
  step_.lastLength = spec_.n;
  step_.lastCollective = spec_.collective->id;
  const Control* const seen = selection_ != nullptr ? comm_->kernels().look(selection_->control()) : nullptr;
  if (seen != nullptr && step_.lastSelectNs != 0) tellControl(*seen, step_);  // the step got as far as its selection
  step_.workspaceBytes = budget_->inUse();
  step_.workspacePeakBytes = budget_->peak();
  const std::lock_guard lock(mutex_);
  if (operation.sequenceAt != nullptr) {  // what was captured counts once it is replayed
    if (status.ok()) {
      replay_ = step_;
      captured_ = true;
    }
    step_.opsStarted = step_.opsCompleted = step_.opsDense = 0;
    step_.bytesSent = step_.bytesReceived = step_.bytesDense = 0;
  }
  accumulateStats(total_, step_);
  comm_->addStats(step_);
}

// Replayed steps are counted on the device.
void Reducer::addReplays(sparsecollStats_t& stats) const {
  if (!captured_) return;
  uint64_t replays = 0;
  comm_->kernels().copy(&replays, replays_.as<>(), sizeof replays, lastStream_);
  stats.opsStarted += replays;
  stats.opsCompleted += replays;
  stats.opsDense += replays * replay_.opsDense;
  stats.bytesSent += replays * replay_.bytesSent;
  stats.bytesReceived += replays * replay_.bytesReceived;
  stats.bytesDense += replays * replay_.bytesDense;
}

// Steps on a device are counted there, and known to the host once they are over.
void Reducer::addDeviceStats(sparsecollStats_t& stats) const {
  if (comm_->onHost() || stats.opsStarted == 0) return;
  if (sumCheck_) {
    stats.opsNonFinite = sumCheck_->stepsMet(lastStream_);
    stats.opsCompleted -= stats.opsNonFinite;
  }
  if (selection_ == nullptr) return;
  Control control{};
  comm_->kernels().copy(&control, selection_->control(), sizeof control, lastStream_);
  tellControl(control, stats);
  stats.opsNonFinite = control.totals.nonFinite;
  stats.opsOverflow = control.totals.overflows;
  stats.opsFallback = control.totals.fallbacks;
  stats.entriesLost = control.totals.lost + control.lost;
  if (comm_->config().nonFinite == sparsecollNonFiniteError) stats.opsCompleted -= control.totals.nonFinite;
}

sparsecollStats_t Reducer::stats() const {
  const std::lock_guard lock(mutex_);
  sparsecollStats_t now = total_;
  if (!comm_->kernels().captures(lastStream_)) {
    if (now.opsStarted != 0 || captured_) tellTimes(now);
    addReplays(now);
    addDeviceStats(now);
  }
  now.workspaceBytes = budget_->inUse();
  now.workspacePeakBytes = budget_->peak();
  return now;
}

Status Reducer::setDensity(double density) {
  if (spec_.dense()) return unsupported("the dense collective has no density");
  if (!(density >= 0 && density <= 1)) return invalid("density is {}", density);
  if (density == 0 && !spec_.has(SPARSECOLL_SELECT_NOTHING))
    return invalid("density is 0 (SPARSECOLL_SELECT_NOTHING allows it)");
  if (const uint64_t steps = schedule_.stepsLeft(*selection_); steps != 0)
    return fail(sparsecollInvalidUsage, "the schedule sets the density of {} more steps", steps);
  SC_TRY(notCaptured(lastStream_));
  schedule_.follow(*selection_);  // else the next step would still take what comes after the schedule
  return selection_->setDensity(density);
}

Status Reducer::giveBack(const void* out, Stream stream) {
  if (out == nullptr) return invalid("out is NULL");
  if (!spec_.keepsResidual()) return unsupported("this method keeps no residual to give back to");
  if (spec_.countsContributors()) return unsupported("giving back what was averaged over contributors");
  SC_TRY(checkPointer("out", out, elementBytes(spec_.type)));
  SC_TRY(checkResidualStays(stream));
  if (!outLeftResidual_ && !captured_) return {};  // of replayed steps only the caller knows
  outLeftResidual_ = false;
  const double share = spec_.params.op == sparsecollAvg ? 1.0 : 1.0 / comm_->ranks();
  comm_->kernels().addFinite(residual(), spec_.accumulateType, out, spec_.type, spec_.n,
                             share / spec_.params.outputScale, selection_->control(), stream);
  return {};
}

Status Reducer::reset(Stream stream) {
  SC_TRY(notCaptured(stream));
  SC_TRY(keepsSchedule());
  if (selection_ != nullptr) {
    selection_->use(stream);
    selection_->reset();
    schedule_.follow(*selection_);
  }
  if (spec_.keepsResidual()) comm_->kernels().fillZero(residual(), accBytes(), stream);
  shape_.reset(stream);
  if (!captured_) lastOut_ = nullptr;
  outLeftResidual_ = false;
  return {};
}

Status Reducer::flush(void* dense, Stream stream) {
  if (dense == nullptr) return invalid("dense is NULL");
  SC_TRY(checkPointer("dense", dense, elementBytes(spec_.type)));
  if (!spec_.keepsResidual()) return {};
  SC_TRY(checkResidualStays(stream));
  comm_->kernels().flush(residual(), spec_.accumulateType, dense, spec_.type, spec_.n, stream);
  return {};
}

}  // namespace sparsecoll
