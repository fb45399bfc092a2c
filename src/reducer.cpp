#include "src/reducer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/spardl.h"
#include "src/agreement.h"
#include "src/entries.h"

namespace sparsecoll {

namespace {

uint64_t nowNs() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// One bit for 16 elements, in whole words a tile of the combining kernels.
uint64_t touchedBytes(uint64_t n) { return alignUp((n + 1023) / 1024 * sizeof(uint64_t), 64); }

std::vector<Agreed> agreedFieldsOf(const ReducerSpec& spec) {
  std::vector<Agreed> fields = {{"n", spec.n}, {"type", static_cast<uint64_t>(spec.type)}};
  const std::vector<Agreed> params = agreedFields(spec.params);
  fields.insert(fields.end(), params.begin(), params.end());
  uint64_t segments = spec.segments.size();
  for (const sparsecollSegment_t& segment : spec.segments) {
    const Agreed parts[] = {{"length", segment.length},
                            {"density", std::bit_cast<uint64_t>(segment.density)},
                            {"dense", static_cast<uint64_t>(segment.dense)}};
    segments = segments * 31 + hashOf("segment", parts);
  }
  fields.push_back({"segments", segments});
  std::vector<Agreed> scheduled;
  for (const double density : spec.densitySchedule) scheduled.push_back({"density", std::bit_cast<uint64_t>(density)});
  fields.push_back({"densitySchedule", hashOf("schedule", scheduled)});
  fields.push_back({"scheduleSteps", spec.scheduleSteps});
  fields.push_back({"maxDensity", std::bit_cast<uint64_t>(spec.maxDensity)});
  fields.push_back({"transactional", spec.transactional ? 1u : 0u});
  return fields;
}

// Only now is it known how many ranks there are.
Status chooseTeams(ReducerSpec& spec, int ranks) {
  sparsecollParams_t& params = spec.params;
  if (!spec.collective->blocks) {
    params.teams = 1;
    return {};
  }
  auto gather = static_cast<sparsecollTeamGather_t>(params.teamGather);
  if (gather == sparsecollTeamGatherDefault)
    gather = (params.teams & (params.teams - 1)) == 0 ? sparsecollTeamGatherRecursive : sparsecollTeamGatherBruck;
  const uint64_t k = params.k != 0 ? params.k : static_cast<uint64_t>(params.density * static_cast<double>(spec.n));
  SC_TRY(params.teams, resolveTeams(ranks, params.teams, gather, k));
  params.teamGather = gather;
  return {};
}

}  // namespace

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

Reducer::Reducer(std::shared_ptr<Communicator> comm, ReducerSpec spec)
    : comm_(std::move(comm)),
      spec_(std::move(spec)),
      budget_(std::make_shared<MemoryBudget>(0, comm_->budget())),
      total_(SPARSECOLL_INIT(sparsecollStats_t)) {}

Result<std::shared_ptr<Reducer>> Reducer::make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               ReducerSpec spec) {
  SC_TRY(chooseTeams(spec, comm->ranks()));
  std::vector<Agreed> fields = agreedFieldsOf(spec);
  fields.reserve(fields.size() + 1);
  SC_TRY(const Agreement agreement, agree(*comm, call, fields));
  fields.push_back({"created", agreement.sequence});  // two alike reducers are still two
  std::shared_ptr<Reducer> reducer;
  SC_TRY(makeTogether(*comm, [&]() -> Status {
    reducer.reset(new Reducer(comm, std::move(spec)));
    reducer->plan_ = hashOf("reducer", fields);
    return reducer->allocate();
  }));
  return reducer;
}

SelectionRequest Reducer::selectionRequest() const {
  SelectionRequest request;
  request.n = spec_.n;
  request.accumulateType = spec_.accumulateType;
  request.rank = comm_->rank();
  request.ranks = comm_->ranks();
  request.density = spec_.params.density;
  request.k = spec_.params.k;
  request.maxDensity = std::max(spec_.maxDensity, spec_.params.density);
  request.threshold = spec_.params.threshold;
  request.distribution = static_cast<sparsecollDistribution_t>(spec_.params.distribution);
  request.faithful = spec_.params.faithful != 0;
  request.selectNothing = spec_.has(SPARSECOLL_SELECT_NOTHING);
  if (spec_.params.chunk != 0) request.chunk = static_cast<uint64_t>(spec_.params.chunk);
  request.seed = spec_.params.seed;
  request.regions = spec_.collective->regions;
  if (spec_.collective->blocks) {
    request.teams = static_cast<uint32_t>(spec_.params.teams);
    request.blocks = static_cast<uint32_t>(request.ranks) / request.teams;
    request.arrivals = ceilLog2(request.blocks);
  }
  request.segments = spec_.segments;
  return request;
}

Status Reducer::allocate() {
  if (spec_.dense()) return {};
  Kernels& kernels = comm_->kernels();
  SC_TRY(selection_, Selection::make(spec_.selector->plan, selectionRequest(), kernels, budget_));
  SC_TRY(schedule_, DensitySchedule::make(spec_.densitySchedule, spec_.scheduleSteps, *selection_, spec_.params.density,
                                          spec_.params.k));
  schedule_.follow(*selection_);
  CollectiveSetup setup;
  setup.n = spec_.n;
  setup.accumulateType = spec_.accumulateType;
  setup.capacity = selection_->capacity();
  setup.mostEntries = selection_->mostEntries();
  const std::vector<uint64_t> rooms = selection_->unitRooms();
  setup.unitRooms = rooms;
  setup.teams = spec_.params.teams;
  setup.teamGather = static_cast<sparsecollTeamGather_t>(spec_.params.teamGather);
  setup.chunk = selection_->chunk();
  setup.faithful = spec_.params.faithful != 0;
  setup.kernels = &kernels;
  setup.transport = &comm_->transport();
  setup.budget = budget_;
  SC_TRY(collective_, spec_.collective->make(setup));
  if (selection_->surveyLength() != 0) {
    SC_TRY(survey_, Survey::make(setup, selection_->surveyLength()));
  }
  if (spec_.buffer == nullptr) {
    SC_TRY(acc_, kernels.allocate(accBytes() * (spec_.transactional ? 2 : 1), budget_));
  }
  SC_TRY(shape_, InputShape::make({spec_.params, spec_.n, spec_.accumulateType, comm_->ranks(), spec_.transactional},
                                  kernels, budget_));
  if (spec_.has(SPARSECOLL_OUT_PRESERVED)) {
    SC_TRY(touchedLines_, kernels.allocate(touchedBytes(spec_.n), budget_));
  }
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

Status Reducer::run(const void* gradient, void* out, Stream stream) {
  SC_TRY(checkVectors(spec_, gradient, out));
  const uint64_t bytes = spec_.n * elementBytes(spec_.type);
  SC_TRY(checkAgainstResidual(gradient, bytes));
  SC_TRY(checkAgainstResidual(out, bytes));
  if (spec_.dense()) return runDense(gradient, out, stream);
  prepareOut(out, stream);
  return step(gradient, &Reducer::finishDense, out, stream);
}

Status Reducer::runDense(const void* gradient, void* out, Stream stream) {
  step_ = {};
  Operation operation;
  operation.plan = plan_;
  const uint64_t start = nowNs();
  bool nonFinite = false;
  const Status status = comm_->operate(operation, [&](Operation& op) -> Status {
    const DenseArgs args{
        gradient,  out, spec_.n, spec_.type, spec_.params.inputScale, finishScale(), spec_.has(SPARSECOLL_ACCUMULATE),
        &nonFinite};
    SC_TRY(comm_->transport().allReduce(op, args, stream));
    if (nonFinite && comm_->config().nonFinite == sparsecollNonFiniteError)
      return fail(sparsecollNonFinite, "the sum has NaN or Inf");
    return {};
  });
  step_.opsNonFinite = nonFinite ? 1 : 0;
  step_.lastExchangeNs = step_.lastTotalNs = nowNs() - start;
  step_.opsDense = 1;
  step_.lastRequested = step_.lastSelected = step_.lastUnion = spec_.n;
  step_.lastImbalance = 1;
  countStep(operation, status);
  return status.ok() ? Status() : Status(status.failure());
}

// The first sum written to an out that is to be preserved finds it in an unknown state.
void Reducer::prepareOut(void* out, Stream stream) {
  if (!spec_.has(SPARSECOLL_OUT_PRESERVED) || out == lastOut_) return;
  comm_->kernels().fillZero(out, spec_.n * elementBytes(spec_.type), stream);
  comm_->kernels().fillZero(touchedLines_.as<>(), touchedLines_.bytes(), stream);
  lastOut_ = out;
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
    *out.count = sparseNeed();
    return fail(sparsecollCapacity, "out has {} slots, the sum may need {}", out.capacity, sparseNeed());
  }
  SC_TRY(step(gradient, &Reducer::finishSparse, &out, stream));
  out.flags |= SPARSECOLL_SORTED;
  return {};
}

Status Reducer::step(const void* gradient, FinishStep finish, void* out, Stream stream) {
  step_ = {};
  outLeftResidual_ = false;
  schedule_.follow(*selection_);
  const Agreed parts[] = {{"plan", plan_}, {"k", selection_->k()}};
  Operation operation;
  operation.plan = hashOf("step", parts);
  operation.turn = ++turn_;
  const uint64_t start = nowNs();
  Status status = comm_->operate(operation, [&](Operation& op) { return stepBody(op, gradient, finish, out, stream); });
  step_.lastTotalNs = nowNs() - start;
  countStep(operation, status);
  return status;
}

Status Reducer::stepBody(Operation& operation, const void* gradient, FinishStep finish, void* out, Stream stream) {
  const uint64_t start = nowNs();
  void* const acc = accBuffer(spec_.transactional ? 1 - current_ : 0);
  SelectionInput input;
  input.gradient = gradient;
  input.gradientType = spec_.type;
  input.in = spec_.keepsResidual() ? accBuffer(current_) : nullptr;
  input.out = acc;
  input.scale = spec_.params.inputScale;
  shape_.prepare(input, current_, spec_.transactional ? 1 - current_ : 0, stream);
  selection_->pass(input, stream);
  if (survey_) {
    SC_TRY(survey_->run({&operation, acc, selection_->control(), {}, stream}));
    selection_->afterSurvey(stream);
  }
  if (!collective_->selects()) selection_->cut(collective_->target(operation), stream);
  const uint64_t selected = nowNs();
  step_.lastSelectNs = selected - start;

  SC_TRY(const Delivered delivered,
         collective_->run({&operation, acc, selection_->control(), selection_->candidates(), stream}));
  if (collective_->selects()) selection_->afterCut(stream);
  SC_TRY(selection_->observe(delivered.lists, stream));
  const uint64_t exchanged = nowNs();
  step_.lastExchangeNs = exchanged - selected;

  SC_TRY((this->*finish)(delivered, out, stream));
  commit(delivered, stream);
  step_.lastScatterNs = nowNs() - exchanged;
  const bool nonFinite = selection_->control()->anyNonFinite != 0;
  if (nonFinite && comm_->config().nonFinite == sparsecollNonFiniteError)
    return fail(sparsecollNonFinite, "some rank's gradient or residual has NaN or Inf");
  return {};
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
  step_.lastUnion = *vector.count;
  return {};
}

// Only now does anything leave the residual: a step that failed before has at most added its gradient.
void Reducer::commit(const Delivered& delivered, Stream stream) {
  if (!spec_.keepsResidual()) return;
  Kernels& kernels = comm_->kernels();
  const Control* const control = selection_->control();
  const bool nonFinite = control->anyNonFinite != 0;
  if (spec_.transactional && nonFinite) return;  // the old buffer stays the residual
  const int next = spec_.transactional ? 1 - current_ : 0;
  void* const acc = accBuffer(next);
  // A step that ends with NonFinite delivers nothing, so nothing leaves either.
  const bool keepAll = nonFinite && comm_->config().nonFinite == sparsecollNonFiniteError;
  if (!keepAll) leaveResidual(next, delivered, stream);
  kernels.clearNonFinite(acc, spec_.accumulateType, spec_.n, control, stream);
  shape_.clearNonFinite(next, control, stream);
  current_ = next;
  outLeftResidual_ = !keepAll;
}

void Reducer::leaveResidual(int which, const Delivered& delivered, Stream stream) {
  Kernels& kernels = comm_->kernels();
  void* const acc = accBuffer(which);
  if (delivered.settles) {
    SettleArgs args{acc, spec_.accumulateType, spec_.n, delivered.lists[0], delivered.sent, delivered.dropped};
    if (delivered.lossy) args.lost = &step_.entriesLost;
    kernels.settle(args, stream);
    shape_.mask(which, delivered.sent, delivered.lists[0], stream);
    return;
  }
  for (const ListView& list : delivered.sent) {
    kernels.zeroAt(acc, spec_.accumulateType, spec_.n, list, stream);
    shape_.mask(which, list, stream);
  }
}

void Reducer::countStep(const Operation& operation, const Status& status) {
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
  if (selection_ != nullptr && step_.lastSelectNs != 0) {  // the step got as far as its selection
    const Control& control = *selection_->control();
    step_.opsNonFinite = control.anyNonFinite != 0 ? 1 : 0;
    step_.opsOverflow = control.overflows != 0 ? 1 : 0;
    step_.opsFallback = control.fallbacks != 0 ? 1 : 0;
    step_.lastRequested = selection_->k();
    step_.lastSelected = control.selected;
    step_.lastCandidates = control.candidates;
    step_.lastThreshold = control.threshold;
    if (step_.lastUnion == 0) step_.lastUnion = std::min(control.delivered, spec_.n);
    const double mean = static_cast<double>(control.delivered) / static_cast<double>(ranks);
    step_.lastImbalance = mean > 0 ? control.largest / mean : 1;
  }
  step_.workspaceBytes = budget_->inUse();
  step_.workspacePeakBytes = budget_->peak();
  const std::lock_guard lock(mutex_);
  accumulateStats(total_, step_);
  comm_->addStats(step_);
}

sparsecollStats_t Reducer::stats() const {
  const std::lock_guard lock(mutex_);
  sparsecollStats_t now = total_;
  now.workspaceBytes = budget_->inUse();
  now.workspacePeakBytes = budget_->peak();
  return now;
}

sparsecollReducerInfo_t Reducer::info() const {
  // Tables, headers and windows that do not grow with n or k.
  constexpr uint64_t kFixedBytes = 512 * 1024;
  constexpr uint64_t kFixedBytesPerRank = 2048;
  sparsecollReducerInfo_t info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
  info.selector = spec_.dense() ? sparsecollSelectDefault : spec_.selector->id;
  info.collective = spec_.collective->id;
  info.n = spec_.n;
  info.k = spec_.dense() ? spec_.n : selection_->k();
  info.capacity = spec_.dense() ? spec_.n : selection_->capacity();
  info.workspaceBytes = budget_->inUse();
  info.teams = spec_.params.teams;
  info.densityIsGlobal = spec_.selector->densityIsGlobal && !spec_.dense() ? 1 : 0;
  const size_t length = std::min(std::strlen(spec_.reason), sizeof info.reason - 1);
  std::memcpy(info.reason, spec_.reason, length);
  if (spec_.dense()) return info;
  const auto ranks = static_cast<uint64_t>(comm_->ranks());
  const MemoryBound bound = spec_.params.faithful != 0 ? spec_.selector->faithfulBound : spec_.selector->bound;
  const uint64_t most = selection_->mostEntries();
  const uint64_t elements = bound.perLength * spec_.n + (spec_.transactional ? spec_.n : 0) + shape_.elements() +
                            bound.perEntry * std::max<uint64_t>(most, 1) * ranks + spec_.n / 256;
  info.memoryBoundBytes = elements * elementBytes(spec_.accumulateType) + kFixedBytes + ranks * kFixedBytesPerRank +
                          spec_.segments.size() * 2 * kFixedBytesPerRank;
  return info;
}

Status Reducer::setDensity(double density) {
  if (spec_.dense()) return unsupported("the dense collective has no density");
  if (!(density >= 0 && density <= 1)) return invalid("density is {}", density);
  if (density == 0 && !spec_.has(SPARSECOLL_SELECT_NOTHING))
    return invalid("density is 0 (SPARSECOLL_SELECT_NOTHING allows it)");
  if (const uint64_t steps = schedule_.stepsLeft(*selection_); steps != 0)
    return fail(sparsecollInvalidUsage, "the schedule sets the density of {} more steps", steps);
  schedule_.follow(*selection_);  // else the next step would still take what comes after the schedule
  return selection_->setDensity(density);
}

Status Reducer::giveBack(const void* out, Stream stream) {
  if (out == nullptr) return invalid("out is NULL");
  if (!spec_.keepsResidual()) return unsupported("this method keeps no residual to give back to");
  if (spec_.countsContributors()) return unsupported("giving back what was averaged over contributors");
  SC_TRY(checkPointer("out", out, elementBytes(spec_.type)));
  if (!outLeftResidual_) return {};
  outLeftResidual_ = false;
  const double share = spec_.params.op == sparsecollAvg ? 1.0 : 1.0 / comm_->ranks();
  comm_->kernels().addFinite(residual(), spec_.accumulateType, out, spec_.type, spec_.n,
                             share / spec_.params.outputScale, stream);
  return {};
}

Status Reducer::reset(Stream stream) {
  if (selection_ != nullptr) {
    selection_->reset();
    schedule_.follow(*selection_);
  }
  if (spec_.keepsResidual()) comm_->kernels().fillZero(residual(), accBytes(), stream);
  shape_.reset(stream);
  lastOut_ = nullptr;
  outLeftResidual_ = false;
  return {};
}

Status Reducer::flush(void* dense, Stream stream) {
  if (dense == nullptr) return invalid("dense is NULL");
  SC_TRY(checkPointer("dense", dense, elementBytes(spec_.type)));
  if (!spec_.keepsResidual()) return {};
  comm_->kernels().flush(residual(), spec_.accumulateType, dense, spec_.type, spec_.n, stream);
  return {};
}

}  // namespace sparsecoll
