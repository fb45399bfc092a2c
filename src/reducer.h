// A reducer: one gradient's layout, method, residual and workspace. A step goes one way:
//   selection (one fused pass) -> collective -> sum into out -> residual commit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/collective.h"
#include "collectives/survey.h"
#include "core/status.h"
#include "selectors/selection.h"
#include "src/any_reducer.h"
#include "src/communicator.h"
#include "src/dense_tensors.h"
#include "src/density_schedule.h"
#include "src/nodes.h"
#include "src/preserved_out.h"
#include "src/reducer_spec.h"
#include "src/residual.h"
#include "src/scales.h"
#include "src/step_stats.h"
#include "src/stream_use.h"
#include "src/sum_check.h"

namespace sparsecoll {

class Reducer final : public AnyReducer {
 public:
  // All that a rank needs memory for before the ranks agree on the spec. Errors: Unsupported, OutOfMemory.
  struct Making {
    ReducerSpec spec;
    AgreedFields fields;
    uint64_t node = 0;  // this rank's
  };
  static Result<Making> prepare(Communicator& comm, ReducerSpec spec);
  // Collective: agrees on the spec with the other ranks first. call: of the C ABI; other calls' ranks do not match.
  static Result<std::shared_ptr<Reducer>> make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               Making making);
  static Result<std::shared_ptr<Reducer>> make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               ReducerSpec spec);

  // Over nodes: of this rank's shard.
  const ReducerSpec& spec() const override { return spec_; }
  int device() const override { return comm_->device(); }
  bool forked() const override { return comm_->forked(); }
  Result<StreamUse> streamOf(sparsecollStream_t stream) override;

  Status run(const void* gradient, void* out, Stream stream) override;
  Status runSparse(const void* gradient, sparsecollVector_t& out, Stream stream) override;
  Status setDensity(double density) override;
  Status setScales(ScalePair scales) override;
  Status giveBack(const void* out, double factor, Stream stream) override;
  Status reset(Stream stream) override;
  Status flush(void* dense, Stream stream) override;
  void* residual() override { return residual_.data(); }

  Result<uint64_t> exportState(void* blob, uint64_t room, Stream stream) override;
  Status importState(std::span<const std::byte> blob, Stream stream) override;
  Status importStateFrom(std::span<const std::byte> blob, Merge merge, Stream stream) override;
  Result<Moved> moveTo(const std::shared_ptr<Communicator>& comm) override;

  sparsecollReducerInfo_t info() const override;
  Result<sparsecollStats_t> stats() const override {
    SC_TRY(stats_->reachLatest());
    const std::lock_guard lock(methodMutex_);
    return stats_->now(spec_.dense() ? nullptr : method_.selection.get(), sumCheck_.get());
  }
  std::vector<sparsecollChoice_t> choices() const override { return {{0, info().selector, info().collective}}; }

  // What methods that take turns need besides.

  // The two halves of run. Errors of the first, before anything that all ranks take part in: InvalidArgument.
  Status checkRun(const void* gradient, const void* out) const;
  Status runChecked(const void* gradient, void* out, Stream stream);
  // The latest step has left nothing to give back: another one begins.
  void beginStep() { residual_.beginStep(); }
  // The other one's residual is this one's from now on.
  void takeResidual(Reducer& other);
  // Thresholds as after create; iteration: of the next step.
  void startAnew(uint64_t iteration);
  // The same on all ranks of a communicator that they move to: a step that failed may have been the first behind the
  // schedule on some of them only.
  Result<bool> scheduleEndedOnAll(Communicator& comm, bool own) const;
  // Whether the next step has the density that stays, and the entries that it is asked for.
  bool scheduleEnded() const { return !selects() || !warmsUpAt(method_.selection->iteration()); }
  bool warmsUpAt(uint64_t iteration) const { return schedule_.stepsLeft(iteration) != 0; }
  // Before anything of a step: the selection gets the density of the step's stage. Where that makes room anew, it is
  // collective, and the stream gets another workspace. Errors: those of an agreement.
  Status followSchedule(Stream& stream);
  uint64_t entries() const { return method_.selection->k(); }
  double density() const { return method_.selection->density(); }  // 0 where k was given instead
  // Of a reducer without a schedule: what it was made for is asked for again.
  Status askAsMade();
  ScalePair scales() const { return scales_.now(); }
  // Of the C ABI, that its steps belong to.
  void callSteps(const char* call) { call_ = call; }
  void copyResidual(Reducer& to) { residual_.copyTo(to.residual_, false, comm_->kernels()); }

 private:
  // Behind what a call outside of steps has enqueued on the latest one's stream: memory waits for it, and so do replays,
  // which may come on any stream.
  Status settleAside();
  // How a step writes its sum.
  using FinishStep = Status (Reducer::*)(const Delivered& delivered, const Finish& finish, void* out, Stream stream);
  struct StepArgs {
    const void* gradient;
    void* out;
    FinishStep finish;
    Stream stream;
    bool nonFinite = false;  // out: the ranks met NaN or Inf; only of steps that select nothing on this rank
  };
  // What a step does between the ranks.
  using StepBody = Status (Reducer::*)(Operation& operation, StepArgs& args);
  // The most entries of a stage: that a step asks for, and that a rank may select.
  struct StageRoom {
    uint64_t entries = 0, capacity = 0;
  };
  // What is made for them.
  struct Method {
    std::unique_ptr<Workspace> workspace;
    std::unique_ptr<Selection> selection;  // nullptr for the dense collective, as what follows; but with momentum or
                                           // clipping this selects nothing there. Also where no shard is this rank's
    std::optional<Survey> survey;
    std::unique_ptr<Collective> collective;
  };

  Reducer(std::shared_ptr<Communicator> comm, ReducerSpec spec);
  Status allocate();
  Status takeShard(std::span<const uint64_t> nodeOf);
  Status allocateDense();
  Status allocateDenseShape();
  Status allocateSumCheck();
  bool sizesStages() const;
  SelectionRequest selectionRequest(size_t stage) const;
  Status makeMethod();
  Result<Method> methodFor(size_t stage) const;
  Status enterStage(size_t stage, Stream& stream);
  DensitySchedule::Stage askedIn(size_t stage) const;
  uint64_t capacity() const;

  Status step(StepBody body, StepArgs args);
  Status sparseStep(Operation& operation, StepArgs& args);
  Status denseStep(Operation& operation, StepArgs& args);
  Status stepOverNodes(Operation& operation, StepArgs& args);
  Status stepLevels(Operation& operation, StepArgs& args);
  // All of a step but its commit.
  Result<Delivered> exchange(Operation& operation, SelectionInput& input, FinishStep finish, void* out, Stream stream);
  Status finishDense(const Delivered& delivered, const Finish& finish, void* out, Stream stream);
  Status finishSparse(const Delivered& delivered, const Finish& finish, void* out, Stream stream);
  // The ranks of a dense step have met NaN or Inf, or not.
  Status denseEnd(bool nonFinite) const;
  void shapeDense(DenseArgs& args, sparsecollDataType_t inType, Stream stream);
  Finish finishBefore(const Finish& finish) const;
  void tellDense();
  Finish finishOf(const Operation& operation) const;
  // The ranks that reduce with each other what is selected: all, or over nodes the owners of one shard.
  Transport& exchanging() const { return level_ != nullptr ? level_->between() : comm_->transport(); }
  uint64_t length() const { return level_ != nullptr ? level_->n() : spec_.n; }
  bool owns() const { return level_ == nullptr || level_->owns(); }
  bool selects() const { return owns() && !spec_.dense(); }
  uint64_t stepPlan() const;
  OperationLabel labelOf(const char* call) const;
  uint64_t sparseNeed() const;

  Status checkSparseOut(const void* gradient, const sparsecollVector_t& out) const;
  Status checkCapture(bool captured) const;
  Status notCaptured(Stream stream) const;
  Status keepsSchedule() const;
  Result<std::shared_ptr<Reducer>> makeMoved(const std::shared_ptr<Communicator>& comm, bool scheduleEnded) const;
  ReducerSpec movedSpec(bool scheduleEnded) const;
  Result<Moved> moveOverNodes(const std::shared_ptr<Communicator>& comm);
  Status takeShardsOf(Reducer& from, bool stepBack);
  uint64_t lostOf(std::span<const Range> held, const Range& range) const;
  Status restore(std::span<const std::byte> blob, bool anyRank, Merge merge, Stream stream);
  void addSaved(void* vector, std::span<const std::byte> saved, double factor, const Buffer& piece, Stream stream);

  const std::shared_ptr<Communicator> comm_;
  ReducerSpec spec_;
  const std::shared_ptr<MemoryBudget> budget_;  // of this reducer, part of the communicator's
  uint64_t plan_ = 0;                           // hash of what the ranks agreed on
  uint64_t turn_ = 0;
  const char* call_ = "ReducerRun";
  const char* preset_ = "";             // whose method it has, whatever else is set
  std::unique_ptr<NodeLevel> level_;    // nullptr: the method runs between all ranks
  std::unique_ptr<ReducerSpec> whole_;  // over nodes: what spec_ is a shard's of
  double askedDensity_ = 0;             // over nodes, where k is not the same in all shards
  uint64_t committed_ = 0;              // over nodes: the latest operation that a rank without a shard has ended
  std::unique_ptr<StepStats> stats_;
  Scales scales_;
  DensitySchedule schedule_;
  std::vector<StageRoom> stages_;      // of the schedule, where room is made for each
  std::optional<double> nextDensity_;  // SetDensity's, for a last stage that the next step enters
  Method method_;
  mutable std::mutex methodMutex_;  // held by whoever changes method_, and by stats
  DenseTensors denseTensors_;
  Residual residual_;
  PreservedOut preservedOut_;
  Buffer denseInput_;                   // of a dense sum that is added to out, where momentum or clipping forms it
  bool owesResidual_ = false;           // the next dense sum takes the residual along
  std::unique_ptr<SumCheck> sumCheck_;  // on devices, of a rank that selects nothing and has to hear of NaN and Inf
};

}  // namespace sparsecoll
