#include "src/step_stats.h"

#include <algorithm>

namespace sparsecoll {

StepStats::StepStats(Communicator& comm, const ReducerSpec& spec, const std::shared_ptr<MemoryBudget>& budget)
    : comm_(comm),
      spec_(spec),
      budget_(budget),
      length_(spec.n),
      ranks_(comm.ranks()),
      total_(SPARSECOLL_INIT(sparsecollStats_t)),
      lastStream_(comm.kernels().stream()) {}

Result<std::unique_ptr<StepStats>> StepStats::make(Communicator& comm, const ReducerSpec& spec,
                                                   const std::shared_ptr<MemoryBudget>& budget) {
  std::unique_ptr<StepStats> stats(new StepStats(comm, spec, budget));
  SC_TRY(stats->clock_, comm.kernels().makeClock());
  if (!comm.onHost()) {
    SC_TRY(stats->replays_, comm.kernels().allocate(sizeof(uint64_t), budget));
    SC_TRY(stats->ended_, comm.kernels().makeMarker());
  }
  return stats;
}

void StepStats::begin(Operation& operation, Phase first, Stream stream) {
  step_ = {};
  operation.stream = stream;
  operation.replays = replays_.as<uint64_t>();
  {
    const std::lock_guard lock(mutex_);
    lastStream_ = stream;
  }
  clock_->start(first, stream);
}

void StepStats::finish(const Operation& operation, const Status& status, const Selection* selection) {
  clock_->stop();
  tellTimes(step_);
  step_.opsStarted = 1;
  step_.opsCompleted = status.ok() ? 1 : 0;
  step_.bytesSent = step_.lastBytesSent = operation.sentBytes;
  step_.bytesReceived = operation.receivedBytes;
  step_.lastRounds = operation.round;
  step_.lastMessagesSent = operation.sentMessages;
  const auto ranks = static_cast<uint64_t>(comm_.ranks());
  step_.bytesDense = 2 * (ranks - 1) * length_ * elementBytes(spec_.type) / ranks;
  step_.lastSequence = operation.sequence;
  step_.lastLength = length_;
  step_.lastCollective = spec_.params.collective;
  const Control* const seen = selection != nullptr ? comm_.kernels().look(selection->control()) : nullptr;
  // Only of a step that got as far as its selection.
  if (seen != nullptr && step_.lastSelectNs != 0) tellControl(*seen, *selection, step_);
  // Of a step that got no further they are the one before's.
  if (!status.ok() && status.result() != sparsecollNonFinite) step_.opsNonFinite = step_.entriesLost = 0;
  step_.workspaceBytes = budget_->inUse();
  step_.workspacePeakBytes = budget_->peak();
  const std::lock_guard lock(mutex_);
  if (ended_ != nullptr && !comm_.kernels().captures(operation.stream)) comm_.kernels().mark(*ended_, operation.stream);
  if (operation.captured()) {  // what was captured counts once it is replayed
    if (status.ok()) replay_ = step_;
    step_.opsStarted = step_.opsCompleted = step_.opsDense = 0;
    step_.bytesSent = step_.bytesReceived = step_.bytesDense = 0;
    step_.bytesSentBetweenNodes = step_.bytesReceivedBetweenNodes = 0;
  }
  accumulateStats(total_, step_);
  comm_.addStats(step_);
}

// Nobody but the step's own stream says when replays are over.
Status StepStats::reachLatest() const {
  if (comm_.onHost()) return {};
  std::unique_lock lock(mutex_);
  const Stream stream = lastStream_;
  const bool replays = captured();
  lock.unlock();
  if (comm_.kernels().captures(stream)) return {};
  return replays ? comm_.reach(stream) : comm_.kernels().reach(*ended_, Deadline::in(comm_.config().opTimeoutMs));
}

// Copies go by the library's own stream: on the steps' they would wait for what was enqueued since.
sparsecollStats_t StepStats::now(const Selection* selection, const SumCheck* sumCheck) const {
  const std::lock_guard lock(mutex_);
  sparsecollStats_t now = total_;
  if (!comm_.kernels().captures(lastStream_)) {
    if (now.opsStarted != 0 || captured()) tellTimes(now);
    addReplays(now);
    addFromDevice(selection, sumCheck, now);
  }
  now.workspaceBytes = budget_->inUse();
  now.workspacePeakBytes = budget_->peak();
  return now;
}

void StepStats::tellControl(const Control& control, const Selection& selection, sparsecollStats_t& stats) const {
  stats.opsNonFinite = control.anyNonFinite != 0 ? 1 : 0;
  stats.opsOverflow = control.overflows != 0 ? 1 : 0;
  stats.opsFallback = control.fallbacks != 0 ? 1 : 0;
  stats.entriesLost = control.lost;
  stats.lastRequested = spec_.requested(selection.k());
  stats.lastSelected = control.selected + spec_.sentDense;
  stats.lastCandidates = control.candidates;
  stats.lastThreshold = control.selectedWith != 0 ? control.selectedWith : control.threshold;
  if (stats.lastUnion == 0) stats.lastUnion = std::min(control.delivered + spec_.sentDense, spec_.n);
  const auto dense = static_cast<double>(spec_.sentDense);  // by every rank
  const double mean = static_cast<double>(control.delivered) / ranks_ + dense;
  stats.lastImbalance = mean > 0 ? (control.largest + dense) / mean : 1;
}

void StepStats::tellTimes(sparsecollStats_t& stats) const {
  const PhaseTimes times = clock_->latest();
  stats.lastSelectNs = times.ns[static_cast<size_t>(Phase::kSelect)];
  stats.lastExchangeNs = times.ns[static_cast<size_t>(Phase::kExchange)];
  stats.lastScatterNs = times.ns[static_cast<size_t>(Phase::kScatter)];
  stats.lastTotalNs = times.totalNs;
}

void StepStats::addReplays(sparsecollStats_t& stats) const {
  if (!captured()) return;
  uint64_t replays = 0;
  comm_.kernels().transfer(&replays, replays_.as<>(), sizeof replays, comm_.kernels().stream());
  stats.opsStarted += replays;
  stats.opsCompleted += replays;
  stats.opsDense += replays * replay_.opsDense;
  stats.bytesSent += replays * replay_.bytesSent;
  stats.bytesReceived += replays * replay_.bytesReceived;
  stats.bytesDense += replays * replay_.bytesDense;
  stats.bytesSentBetweenNodes += replays * replay_.bytesSentBetweenNodes;
  stats.bytesReceivedBetweenNodes += replays * replay_.bytesReceivedBetweenNodes;
}

void StepStats::addFromDevice(const Selection* selection, const SumCheck* sumCheck, sparsecollStats_t& stats) const {
  if (comm_.onHost() || stats.opsStarted == 0) return;
  const bool nonFiniteFails = comm_.config().nonFinite == sparsecollNonFiniteError;
  if (sumCheck != nullptr) {
    stats.opsNonFinite = sumCheck->stepsMet(comm_.kernels().stream());
    if (nonFiniteFails) stats.opsCompleted -= stats.opsNonFinite;
  }
  if (selection == nullptr) return;
  Control control{};
  comm_.kernels().transfer(&control, selection->control(), sizeof control, comm_.kernels().stream());
  tellControl(control, *selection, stats);
  stats.opsNonFinite = control.totals.nonFinite;
  stats.opsOverflow = control.totals.overflows;
  stats.opsFallback = control.totals.fallbacks;
  stats.entriesLost = control.totals.lost + control.lost;
  if (nonFiniteFails) stats.opsCompleted -= control.totals.nonFinite;
}

}  // namespace sparsecoll
