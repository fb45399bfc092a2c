// A reducer: one gradient's layout, method, residual and workspace. A step goes one way:
//   selection (one fused pass) -> collective -> sum into out -> residual commit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "collectives/collective.h"
#include "collectives/survey.h"
#include "core/status.h"
#include "selectors/selection.h"
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

class Reducer {
 public:
  // Collective: agrees on the spec with the other ranks first. call: of the C ABI; other calls' ranks do not match.
  static Result<std::shared_ptr<Reducer>> make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               ReducerSpec spec);

  // Over nodes: of this rank's shard.
  const ReducerSpec& spec() const { return spec_; }
  Communicator& comm() { return *comm_; }
  int device() const { return comm_->device(); }
  bool forked() const { return comm_->forked(); }

  // A caller's stream with this reducer's workspace. Errors: InvalidArgument (a stream on the host).
  Result<StreamUse> streamOf(sparsecollStream_t stream);

  Status run(const void* gradient, void* out, Stream stream);
  Status runSparse(const void* gradient, sparsecollVector_t& out, Stream stream);
  Status setDensity(double density);
  Status setScales(ScalePair scales);
  Status giveBack(const void* out, double factor, Stream stream);
  Status reset(Stream stream);
  Status flush(void* dense, Stream stream);
  // The residual that the next step reads; nullptr for methods without one. Until the next step it holds what it says.
  void* residual() { return residual_.data(); }

  Result<uint64_t> exportState(void* blob, uint64_t room, Stream stream);
  Status importState(std::span<const std::byte> blob, Stream stream);
  Status importStateFrom(std::span<const std::byte> blob, bool sumMerge, Stream stream);

  // A reducer like this one on a communicator that was made of this one's, collective there, with this rank's residual
  // and velocity: those after the last step that all ranks there have committed, if this one is transactional.
  struct Moved {
    std::shared_ptr<Reducer> reducer;
    bool steppedBack = false;
  };
  Result<Moved> moveTo(const std::shared_ptr<Communicator>& comm);

  sparsecollReducerInfo_t info() const;
  sparsecollStats_t stats() const { return stats_->now(spec_.dense() ? nullptr : selection_.get(), sumCheck_.get()); }

 private:
  // How a step writes its sum.
  using FinishStep = Status (Reducer::*)(const Delivered& delivered, const Finish& finish, void* out, Stream stream);

  Reducer(std::shared_ptr<Communicator> comm, ReducerSpec spec);
  Status allocate();
  Status takeShard(std::span<const uint64_t> hosts);
  Status allocateDense();
  Status allocateDenseShape();
  SelectionRequest selectionRequest() const;

  Status step(const void* gradient, FinishStep finish, void* out, Stream stream);
  Status stepBody(Operation& operation, const void* gradient, FinishStep finish, void* out, Stream stream);
  // All of a step but its commit.
  Result<Delivered> exchange(Operation& operation, SelectionInput& input, FinishStep finish, void* out, Stream stream);
  Status finishDense(const Delivered& delivered, const Finish& finish, void* out, Stream stream);
  Status finishSparse(const Delivered& delivered, const Finish& finish, void* out, Stream stream);
  Status runDense(const void* gradient, void* out, Stream stream);
  // The ranks of a dense step have met NaN or Inf, or not.
  Status denseEnd(bool nonFinite) const;
  Status runOverNodes(const void* gradient, void* out, Stream stream);
  Status stepOverNodes(Operation& operation, const void* gradient, void* out, bool& nonFinite, Stream stream);
  Status denseBetween(Operation& operation, void* out, bool& nonFinite, Stream stream);
  void shapeDense(DenseArgs& args, Stream stream);
  void tellDense(bool nonFinite);
  Finish finishOf(const Operation& operation) const;
  // The ranks that reduce with each other what is selected: all, or over nodes the owners of one shard.
  Transport& exchanging() const { return level_ != nullptr ? level_->between() : comm_->transport(); }
  uint64_t length() const { return level_ != nullptr ? level_->n() : spec_.n; }
  bool owns() const { return level_ == nullptr || level_->owns(); }
  uint64_t stepPlan() const;
  uint64_t sparseNeed() const;

  Status checkSparseOut(const void* gradient, const sparsecollVector_t& out) const;
  Status checkCapture(bool captured) const;
  Status notCaptured(Stream stream) const;
  Status keepsSchedule() const;
  Status restore(std::span<const std::byte> blob, bool anyRank, bool sumMerge, Stream stream);
  Status takeOver(void* vector, std::span<const std::byte> saved, bool sumMerge, Stream stream);

  const std::shared_ptr<Communicator> comm_;
  ReducerSpec spec_;
  const std::shared_ptr<MemoryBudget> budget_;  // of this reducer, part of the communicator's
  uint64_t plan_ = 0;                           // hash of what the ranks agreed on
  uint64_t turn_ = 0;
  std::unique_ptr<NodeLevel> level_;  // nullptr: the method runs between all ranks
  double askedDensity_ = 0;           // over nodes, where k is not the same in all shards
  std::unique_ptr<StepStats> stats_;
  Scales scales_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Selection> selection_;  // nullptr for the dense collective, as what follows up to residual_; but with
                                          // momentum or clipping this selects nothing there. Also where no shard is
                                          // this rank's
  std::optional<Survey> survey_;
  DensitySchedule schedule_;
  std::unique_ptr<Collective> collective_;
  DenseTensors denseTensors_;
  Residual residual_;
  PreservedOut preservedOut_;
  Buffer denseInput_;                   // of a dense sum that is added to out, where momentum or clipping forms it
  std::unique_ptr<SumCheck> sumCheck_;  // of a dense sum, where somebody wants to hear of NaN and Inf
};

}  // namespace sparsecoll
