// Several methods that take turns over one residual, until trials have shown which of them is the fastest: what the
// preset "auto" makes in host memory (docs/decisions/0052).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/any_reducer.h"
#include "src/plan.h"
#include "src/reducer.h"
#include "src/tuner_file.h"

namespace sparsecoll {

// What an auto reducer is made from; the same on all ranks but for buffers and denseNs.
struct AutoSpec {
  struct Part {
    size_t candidate = 0;  // in kCandidates
    ReducerSpec spec;      // its density is that of a rank, still
    const CandidateRow& row() const { return kCandidates[candidate]; }
  };
  ReducerSpec asked;  // as the caller gave it
  std::vector<Part> parts;
  uint64_t denseNs = 0;  // what the caller's own dense sum takes; 0: not known
  std::vector<sparsecollChoice_t> plan;
  std::shared_ptr<const TunerFile> tuner;  // nullptr: the environment names none, or there is a plan
};

// Nothing: what is asked for names its method, or has it chosen once. Errors: as readReducerSpec's.
Result<std::optional<AutoSpec>> readAutoSpec(uint64_t n, int32_t type, const sparsecollParams_t* params,
                                             const sparsecollReducerConfig_t* config, bool onHost);

class AutoReducer final : public AnyReducer {
 public:
  // Collective, as Reducer::make.
  static Result<std::shared_ptr<AutoReducer>> make(const std::shared_ptr<Communicator>& comm, const char* call,
                                                   AutoSpec spec);

  const ReducerSpec& spec() const override { return spec_.asked; }
  int device() const override { return comm_->device(); }
  bool forked() const override { return comm_->forked(); }
  Result<StreamUse> streamOf(sparsecollStream_t stream) override { return now().streamOf(stream); }

  Status run(const void* gradient, void* out, Stream stream) override;
  Status runSparse(const void* gradient, sparsecollVector_t& out, Stream stream) override;
  Status setDensity(double density) override;
  Status setScales(ScalePair scales) override;
  Status giveBack(const void* out, double factor, Stream stream) override {
    return now().giveBack(out, factor, stream);
  }
  Status reset(Stream stream) override;
  Status flush(void* dense, Stream stream) override { return now().flush(dense, stream); }
  void* residual() override { return now().residual(); }

  Result<uint64_t> exportState(void* blob, uint64_t room, Stream stream) override;
  Status importState(std::span<const std::byte> blob, Stream stream) override;
  Status importStateFrom(std::span<const std::byte> blob, Merge merge, Stream stream) override;
  Result<Moved> moveTo(const std::shared_ptr<Communicator>& comm) override;

  sparsecollReducerInfo_t info() const override;
  Result<sparsecollStats_t> stats() const override;
  std::vector<sparsecollChoice_t> choices() const override;

 private:
  AutoReducer(std::shared_ptr<Communicator> comm, AutoSpec spec) : comm_(std::move(comm)), spec_(std::move(spec)) {}
  // The two halves of make: all that a rank needs memory for before the ranks agree, and what they make then.
  Result<AgreedFields> prepare();
  Status makeCandidates(const char* call, std::span<const AgreedField> fields);
  Reducer& now() const { return *candidates_[current_]; }
  bool dense(size_t candidate) const { return candidates_[candidate]->spec().dense(); }
  void turnTo(size_t candidate);
  void startTrials();
  void askOthers();
  Status takeTuner();
  void differ();
  Status meet();
  Status restore(std::span<const std::byte> blob, bool otherRanks, Merge merge, Stream stream);

  const std::shared_ptr<Communicator> comm_;
  const AutoSpec spec_;
  std::vector<std::shared_ptr<Reducer>> candidates_;
  double asked_ = 0;           // of the candidates behind the first one, by its density
  std::vector<uint8_t> able_;  // to run with that
  Plan plan_;
  uint64_t node_ = 0;            // of this rank; where there is a tuner file
  bool tuned_ = false;           // it was made for these ranks
  std::vector<double> tunedNs_;  // by candidate, what it says of the density that was set
  size_t current_ = 0;
  uint64_t created_ = 0;  // the operation in which ranks agreed on it; the same on all of them
  uint64_t told_ = 0;     // decisions that were logged
};

}  // namespace sparsecoll
