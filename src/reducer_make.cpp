// How a reducer comes to be, and what it tells of itself.
#include <algorithm>
#include <cstring>

#include "collectives/spardl.h"
#include "src/agreement.h"
#include "src/names.h"
#include "src/reducer.h"

namespace sparsecoll {

namespace {

// Only now is it known how many ranks there are.
Status chooseTeams(ReducerSpec& spec, int ranks) {
  sparsecollParams_t& params = spec.params;
  if (!spec.collective->blocks) {
    params.teams = 1;
    return {};
  }
  if (spec.anyTeams && ranks % params.teams != 0) params.teams = 0;
  auto gather = static_cast<sparsecollTeamGather_t>(params.teamGather);
  if (gather == sparsecollTeamGatherDefault)
    gather = (params.teams & (params.teams - 1)) == 0 ? sparsecollTeamGatherRecursive : sparsecollTeamGatherBruck;
  const uint64_t k = params.k != 0 ? params.k : static_cast<uint64_t>(params.density * static_cast<double>(spec.n));
  SC_TRY(params.teams, resolveTeams(ranks, params.teams, gather, k));
  params.teamGather = gather;
  return {};
}

const char* presetNameOf(const ReducerSpec& spec) {
  if (spec.dense()) return spec.collective->name;
  const PresetRow* const preset = presetLike(spec.selector->id, spec.collective->id, spec.params.distribution);
  return preset != nullptr ? preset->name : "";
}

}  // namespace

Reducer::Reducer(std::shared_ptr<Communicator> comm, ReducerSpec spec)
    : comm_(std::move(comm)), spec_(std::move(spec)), budget_(std::make_shared<MemoryBudget>(0, comm_->budget())) {}

Result<Reducer::Making> Reducer::prepare(Communicator& comm, ReducerSpec spec) {
  if (spec.overNodes && !comm.transport().sumsAmong())
    return unsupported("collective hierarchical on devices over another engine than NCCL");
  if (!spec.overNodes) SC_TRY(chooseTeams(spec, comm.ranks()));
  Making making;
  if (spec.overNodes) making.node = comm.node();
  making.fields = agreedOfReducer(spec);
  making.fields.reserve(making.fields.size() + 1);
  making.spec = std::move(spec);
  return making;
}

Result<std::shared_ptr<Reducer>> Reducer::make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               ReducerSpec spec) {
  SC_TRY(Making making, prepare(*comm, std::move(spec)));
  return make(comm, call, std::move(making));
}

Result<std::shared_ptr<Reducer>> Reducer::make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               Making making) {
  SC_TRY(const Agreement agreement, agree(*comm, call, making.fields));
  making.fields.push_back({"created", agreement.sequence});  // two alike reducers are still two
  std::span<const uint64_t> nodes;
  if (making.spec.overNodes) {
    SC_TRY(const Agreement met, agree(*comm, "nodes", {}, making.node));
    nodes = met.numbers;
  }
  std::shared_ptr<Reducer> reducer;
  SC_TRY(makeTogether(*comm, [&]() -> Status {
    reducer.reset(new Reducer(comm, std::move(making.spec)));
    reducer->plan_ = hashOf("reducer", making.fields);
    reducer->preset_ = presetNameOf(reducer->spec_);
    if (reducer->spec_.overNodes) SC_TRY(reducer->takeShard(nodes));
    return reducer->allocate();
  }));
  if (!reducer->spec_.takesTurns) comm->tellPlan(reducer->info());
  return reducer;
}

SelectionRequest Reducer::selectionRequest(size_t stage) const {
  SelectionRequest request;
  request.n = spec_.n;
  request.accumulateType = spec_.accumulateType;
  request.rank = exchanging().rank();
  request.ranks = exchanging().ranks();
  request.density = schedule_.at(stage).density;
  request.k = schedule_.at(stage).k;
  request.maxDensity = std::max(spec_.maxDensity, sizesStages() ? request.density : schedule_.largestDensity());
  request.selectNothing = request.density == 0 && request.k == 0;
  request.params = spec_.params;
  if (spec_.collective->state != nullptr)
    request.collective = spec_.collective->state(spec_.n, static_cast<uint32_t>(request.ranks),
                                                 static_cast<uint32_t>(spec_.params.teams));
  if (spec_.collective->blocks) {
    request.blocks = static_cast<uint32_t>(request.ranks / spec_.params.teams);
    request.arrivals = ceilLog2(request.blocks);
  }
  request.segments = spec_.segments;
  request.anyDensity = spec_.anyDensity;
  return request;
}

// The pass that forms acc also forms a dense step. It has no windows to select from, and there is no residual in acc.
Status Reducer::allocateDenseShape() {
  Kernels& kernels = comm_->kernels();
  SC_TRY(method_.selection, makeForming(spec_, *comm_, exchanging(), budget_));
  WorkspaceNeed need;
  need.n = spec_.n;
  need.windows = method_.selection->windows();
  SC_TRY(method_.workspace, kernels.makeWorkspace(need, budget_));
  if (spec_.makesResidual) {
    SC_TRY(residual_, Residual::make(spec_, *comm_, exchanging().ranks(), denseTensors_, budget_));
  }
  if (spec_.has(SPARSECOLL_ACCUMULATE)) {
    SC_TRY(denseInput_, kernels.allocate(spec_.n * elementBytes(spec_.type), budget_));
  }
  return {};
}

Status Reducer::allocateDense() {
  if (spec_.shapesDense()) {
    SC_TRY(allocateDenseShape());
  } else if (level_ != nullptr && level_->clips()) {
    WorkspaceNeed need;
    need.n = spec_.n;
    SC_TRY(method_.workspace, comm_->kernels().makeWorkspace(need, budget_));
  }
  return allocateSumCheck();
}

// Kernels that finish before they return tell the engine itself what they met. A rank without a shard counts the steps
// as its peers do.
Status Reducer::allocateSumCheck() {
  Kernels& kernels = comm_->kernels();
  if (comm_->onHost()) return {};
  if (!spec_.dense() || comm_->config().nonFinite == sparsecollNonFiniteError) {
    SC_TRY(sumCheck_, SumCheck::make(kernels, comm_->transport(), length(), budget_));
  }
  return kernels.findings(kernels.stream(), Deadline::in(comm_->config().opTimeoutMs));
}

Status Reducer::allocate() {
  Kernels& kernels = comm_->kernels();
  SC_TRY(stats_, StepStats::make(*comm_, spec_, budget_));
  SC_TRY(scales_, Scales::make({spec_.params.inputScale, spec_.params.outputScale}, *comm_, budget_));
  if (level_ != nullptr) stats_->countShard(level_->n(), level_->nodes());
  if (!owns()) return allocateSumCheck();
  if (spec_.dense()) return allocateDense();
  SC_TRY(makeMethod());
  SC_TRY(denseTensors_, DenseTensors::make(spec_, *comm_, exchanging(), budget_));
  if (spec_.makesResidual) {
    SC_TRY(residual_, Residual::make(spec_, *comm_, exchanging().ranks(), denseTensors_, budget_));
  }
  if (spec_.has(SPARSECOLL_OUT_PRESERVED)) {
    SC_TRY(preservedOut_, PreservedOut::make(spec_.n, elementBytes(spec_.type), kernels, budget_));
  }
  // What was zeroed and copied here must be there before a step on any stream.
  return kernels.findings(kernels.stream(), Deadline::in(comm_->config().opTimeoutMs));
}

Status Reducer::makeMethod() {
  schedule_ = DensitySchedule(spec_.densitySchedule, spec_.scheduleSteps, {spec_.params.density, spec_.params.k});
  const size_t stage = sizesStages() ? 0 : schedule_.last();
  SC_TRY(method_, methodFor(stage));
  schedule_.entered(stage);
  if (schedule_.last() == 0) return {};
  if (sizesStages()) {
    for (size_t each = 0; each <= schedule_.last(); ++each) {
      SC_TRY(const SelectionPlan plan, spec_.selector->plan(selectionRequest(each)));
      stages_.push_back({plan.mostEntries, plan.capacity});
    }
    return {};
  }
  SC_TRY(schedule_.planStages(*method_.selection));
  schedule_.follow(*method_.selection);
  return {};
}

Result<Reducer::Method> Reducer::methodFor(size_t stage) const {
  Kernels& kernels = comm_->kernels();
  Method method;
  SC_TRY(method.selection, Selection::make(spec_.selector->plan, selectionRequest(stage), kernels, budget_));
  const Selection& selection = *method.selection;
  const auto ranks = static_cast<uint64_t>(exchanging().ranks());
  WorkspaceNeed need;
  need.n = spec_.n;
  need.windows = selection.windows();
  need.lists = 2 * ranks + 1;  // a ring joins two lists of a rank at most; and the tensors sent dense
  need.entries = ranks * std::max(selection.capacity(), selection.mostEntries()) + spec_.sentDense;
  SC_TRY(method.workspace, kernels.makeWorkspace(need, budget_));
  CollectiveSetup setup;
  setup.n = spec_.n;
  setup.accumulateType = spec_.accumulateType;
  setup.capacity = selection.capacity();
  setup.mostEntries = selection.mostEntries();
  const std::vector<uint64_t> rooms = selection.unitRooms();
  setup.unitRooms = rooms;
  setup.teams = spec_.params.teams;
  setup.teamGather = static_cast<sparsecollTeamGather_t>(spec_.params.teamGather);
  setup.chunks = selection.chunks();
  setup.faithful = spec_.params.faithful != 0;
  setup.kernels = &kernels;
  setup.transport = &exchanging();
  setup.budget = budget_;
  SC_TRY(method.collective, spec_.collective->make(setup));
  if (selection.surveyLength() != 0) {
    SC_TRY(method.survey, Survey::make(setup, selection.surveyLength(), selection.surveyRows()));
  }
  return method;
}

// From here on what is selected, kept and exchanged is a shard.
Status Reducer::takeShard(std::span<const uint64_t> nodeOf) {
  SC_TRY(level_, NodeLevel::make(*comm_, nodeOf, spec_, budget_));
  whole_ = std::make_unique<ReducerSpec>(spec_);
  SC_TRY(chooseTeams(spec_, level_->nodes()));  // by what all ranks know
  askedDensity_ = spec_.params.density;
  spec_ = specOfShard(std::move(spec_), level_->shard());
  return {};
}

sparsecollReducerInfo_t Reducer::info() const {
  // Tables, headers and windows that do not grow with n or k.
  constexpr uint64_t kFixedBytes = 512 * 1024;
  constexpr uint64_t kFixedBytesPerRank = 2048;
  sparsecollReducerInfo_t info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
  info.selector = spec_.dense() ? sparsecollSelectDefault : spec_.selector->id;
  info.collective = spec_.params.collective;
  info.n = length();
  info.shardLength = spec_.n;
  if (level_ != nullptr) {
    info.betweenNodes = spec_.collective->id;
    info.nodes = level_->nodes();
    info.shardBegin = level_->shard().begin;
  }
  info.k = selects() ? spec_.requested(method_.selection->k()) : spec_.n;
  info.capacity = selects() ? capacity() + spec_.sentDense : spec_.n;
  info.workspaceBytes = budget_->inUse();
  info.teams = spec_.params.teams;
  info.densityIsGlobal = spec_.selector->densityIsGlobal && !spec_.dense() ? 1 : 0;
  const size_t length = std::min(std::strlen(spec_.reason), sizeof info.reason - 1);
  std::memcpy(info.reason, spec_.reason, length);
  const auto ranks = static_cast<uint64_t>(comm_->ranks());
  if (level_ != nullptr) info.memoryBoundBytes = level_->sumBytes() + kFixedBytes + ranks * kFixedBytesPerRank;
  if (level_ != nullptr && level_->clips()) info.memoryBoundBytes += spec_.n / 128;  // squares of tiles
  if (!owns()) return info;
  if (spec_.shapesDense())
    info.memoryBoundBytes +=
        ((spec_.makesResidual ? spec_.n : 0) + residual_.furtherElements()) * elementBytes(spec_.accumulateType) +
        denseInput_.bytes() + kFixedBytes + ranks * kFixedBytesPerRank;
  if (spec_.dense()) return info;
  const MemoryBound bound = spec_.params.faithful != 0 ? spec_.selector->faithfulBound : spec_.selector->bound;
  StageRoom most{method_.selection->mostEntries(), method_.selection->capacity()};
  for (const StageRoom& stage : stages_)
    most = {std::max(most.entries, stage.entries), std::max(most.capacity, stage.capacity)};
  const uint64_t elsewhere = spec_.makesResidual ? 0 : spec_.n;
  const uint64_t kept = spec_.n - elsewhere + residual_.furtherElements() + denseTensors_.held();
  const uint64_t method = (bound.perLength - 1) * spec_.n +
                          bound.perEntry * std::max<uint64_t>(most.entries, 1) * ranks +
                          spec_.collective->perSlot * most.capacity * ranks + spec_.n / 256;
  const uint64_t methods = sizesStages() ? 2 : 1;  // one stage's and the next one's
  const uint64_t elements = kept + methods * method;
  info.memoryBoundBytes += elements * elementBytes(spec_.accumulateType) + residual_.deferredZerosBytes() +
                           kFixedBytes + ranks * kFixedBytesPerRank + spec_.segments.size() * 2 * kFixedBytesPerRank;
  return info;
}

}  // namespace sparsecoll
