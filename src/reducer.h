// A reducer: one gradient's layout, method, residual and workspace. A step goes one way:
//   selection (one fused pass) -> collective -> sum into out -> residual commit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/collective.h"
#include "collectives/survey.h"
#include "core/status.h"
#include "core/step_clock.h"
#include "selectors/selection.h"
#include "src/communicator.h"
#include "src/density_schedule.h"
#include "src/input_shape.h"
#include "src/methods.h"
#include "src/stream_use.h"
#include "src/sum_check.h"

namespace sparsecoll {

// What a reducer is made from, checked and with Auto resolved; the same on all ranks but for buffer.
struct ReducerSpec {
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  sparsecollParams_t params{};
  const SelectorRow* selector = nullptr;
  const CollectiveRow* collective = nullptr;
  std::vector<sparsecollSegment_t> segments;
  double maxDensity = 0;
  std::vector<double> densitySchedule;
  uint64_t scheduleSteps = 0;
  bool transactional = false;
  void* buffer = nullptr;  // residual in the caller's memory
  const char* reason = "";

  bool dense() const { return collective->make == nullptr; }
  bool has(uint32_t flag) const { return (params.flags & flag) != 0; }
  bool countsContributors() const {
    return has(SPARSECOLL_AVERAGE_CONTRIBUTORS) && collective->contributors == Contributors::kLists;
  }
  bool keepsResidual() const { return !dense() && !has(SPARSECOLL_NO_RESIDUAL); }
};

// Errors: InvalidArgument, Unsupported.
Result<ReducerSpec> readReducerSpec(uint64_t n, int32_t type, const sparsecollParams_t* params,
                                    const sparsecollReducerConfig_t* config);

// Whether what the spec asks for between gradient and residual can be had. Errors: InvalidArgument, Unsupported.
Status checkInputShape(const ReducerSpec& spec);

// Whether a reducer of this spec could run on the two.
Status checkVectors(const ReducerSpec& spec, const void* gradient, const void* out);

class Reducer {
 public:
  // Collective: agrees on the spec with the other ranks first. call: of the C ABI; other calls' ranks do not match.
  static Result<std::shared_ptr<Reducer>> make(const std::shared_ptr<Communicator>& comm, const char* call,
                                               ReducerSpec spec);

  const ReducerSpec& spec() const { return spec_; }
  Communicator& comm() { return *comm_; }
  int device() const { return comm_->device(); }
  bool forked() const { return comm_->forked(); }

  // A caller's stream with this reducer's workspace. Errors: InvalidArgument (a stream on the host).
  Result<StreamUse> streamOf(sparsecollStream_t stream);

  Status run(const void* gradient, void* out, Stream stream);
  Status runSparse(const void* gradient, sparsecollVector_t& out, Stream stream);
  Status setDensity(double density);
  Status giveBack(const void* out, Stream stream);
  Status reset(Stream stream);
  Status flush(void* dense, Stream stream);
  // The residual that the next step reads; nullptr for methods without one. Until the next step it holds what it says.
  void* residual();

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
  sparsecollStats_t stats() const;

 private:
  using FinishStep = Status (Reducer::*)(const Delivered& delivered, void* out, Stream stream);

  Reducer(std::shared_ptr<Communicator> comm, ReducerSpec spec);
  Status allocate();
  Status allocateDense();
  bool mayNoteGone() const;
  SelectionRequest selectionRequest() const;

  Status runDense(const void* gradient, void* out, Stream stream);
  Status step(const void* gradient, FinishStep finish, void* out, Stream stream);
  Status stepBody(Operation& operation, const void* gradient, FinishStep finish, void* out, Stream stream);
  Status finishDense(const Delivered& delivered, void* out, Stream stream);
  Status finishSparse(const Delivered& delivered, void* out, Stream stream);
  Status commit(const Operation& operation, const Delivered& delivered, Stream stream);
  void leaveResidual(int which, const Delivered& delivered, Stream stream);
  Status prepareOut(void* out, Stream stream);
  Status checkCapture(bool captured) const;
  Status notCaptured(Stream stream) const;
  Status checkResidualStays(Stream stream) const;
  Status keepsSchedule() const;
  void prepare(Operation& operation, Stream stream);
  void addReplays(sparsecollStats_t& stats) const;
  Finish finishScale() const;
  void addDeviceStats(sparsecollStats_t& stats) const;
  void tellControl(const Control& control, sparsecollStats_t& stats) const;
  void tellTimes(sparsecollStats_t& stats) const;
  void countStep(const Operation& operation, const Status& status);
  Status checkAgainstResidual(const void* vector, uint64_t bytes) const;
  Status checkSparseOut(const void* gradient, const sparsecollVector_t& out) const;
  uint64_t sparseNeed() const;
  void* accBuffer(int which) const;
  int bufferAfter(const Operation& operation) const;
  void copyResidual(int to, int from, Stream stream);
  Status keepBefore(Stream stream);
  void putBack(Stream stream);
  uint64_t accBytes() const { return spec_.n * elementBytes(spec_.accumulateType); }
  std::array<void*, 2> stateVectors();  // what Export saves whole; nullptr where there is none
  Status restore(std::span<const std::byte> blob, bool anyRank, bool sumMerge, Stream stream);
  Status takeOver(void* vector, std::span<const std::byte> saved, bool sumMerge, Stream stream);

  const std::shared_ptr<Communicator> comm_;
  ReducerSpec spec_;
  const std::shared_ptr<MemoryBudget> budget_;  // of this reducer, part of the communicator's
  uint64_t plan_ = 0;                           // hash of what the ranks agreed on
  uint64_t turn_ = 0;
  std::unique_ptr<StepClock> clock_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Selection> selection_;
  std::optional<Survey> survey_;
  DensitySchedule schedule_;
  std::unique_ptr<SumCheck> sumCheck_;  // of a dense sum, where somebody wants to hear of NaN and Inf
  std::unique_ptr<Collective> collective_;
  Buffer acc_;              // residual, one or two of them, unless the caller owns it
  Buffer gone_;             // bits of what has left the residual and still lies in it, where that can be
  InputShape shape_;        // clipping, momentum, a fading residual
  Buffer touchedLines_;     // OUT_PRESERVED: where the last sum lies in out
  bool anyGone_ = false;    // some bit is set
  int current_ = 0;         // transactional: the buffer that holds the committed residual
  bool copied_ = false;     // transactional: the step under way works on the committed residual, and has copied it
  uint64_t committed_ = 0;  // the operation of the latest commit
  void* lastOut_ = nullptr;
  bool outLeftResidual_ = false;  // what the last step delivered is not in the residual any more, if it took effect
  Buffer replays_;                // on devices: how many captured steps were replayed
  bool captured_ = false;         // some step was: the host does not know all steps any more
  sparsecollStats_t step_{};      // the step being run
  mutable std::mutex mutex_;      // guards what follows
  sparsecollStats_t total_;
  Stream lastStream_;           // of the latest step
  sparsecollStats_t replay_{};  // what a captured step counts for
};

// Element-aligned, and equal or disjoint.
Status checkPair(const char* aName, const void* a, uint64_t aBytes, const char* bName, const void* b, uint64_t bBytes);
Status checkPointer(const char* name, const void* pointer, uint64_t alignment);

}  // namespace sparsecoll
