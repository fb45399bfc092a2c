// Which of an auto reducer's candidates runs the next step. Trials are steps of the candidates; what they cost on the
// slowest rank decides. Every rank makes a plan of the same numbers, so all ranks decide alike.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "core/text.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

// What a step took on this rank, in nanoseconds. exchange: the part of it that moves entries.
struct StepCost {
  uint64_t total = 0;
  uint64_t exchange = 0;
};

// Tests put their own costs in the place of what was measured.
using CostFunction = StepCost (*)(const char* candidate, int rank, StepCost measured);
void replaceCosts(CostFunction costs);  // nullptr: as measured
StepCost costOf(const char* candidate, int rank, StepCost measured);

class Plan {
 public:
  struct Candidate {
    const char* name = "";
    int32_t selector = 0;
    int32_t collective = 0;
    bool dense() const { return collective == sparsecollCollDense; }
  };
  struct Shape {
    uint64_t n = 0;
    uint64_t elementBytes = 4;
    uint64_t ranks = 1;
  };

  Plan() = default;
  Plan(std::vector<Candidate> candidates, const Shape& shape);

  // The caller's own dense sum takes so long, in nanoseconds: dense has no trials. 0: it is not known.
  void knowDense(uint64_t ns);
  // Runs what was recorded, without trials. Errors: InvalidArgument (no plan of these candidates).
  Status replay(std::span<const sparsecollChoice_t> recorded);
  bool replays() const { return !replayed_.empty(); }

  // For the records of a search that begins after it: steps need no memory.
  void makeRoom();
  // Trials begin, for k entries a rank. able: which candidates can run with that, one byte each. Those that are
  // predicted to be much slower than another one are left out. tuned: nanoseconds of each by the tuner file, after
  // which only the fastest and those near it are left; empty, or a 0: it says nothing.
  void start(uint64_t k, std::span<const uint8_t> able, std::span<const double> tuned = {});
  uint64_t k() const { return k_; }                  // that was decided for; UINT64_MAX: nothing was yet
  uint64_t decisions() const { return decisions_; }  // so far, in this process
  const char* name(size_t candidate) const { return candidates_[candidate].name; }

  // Before a step: whether the ranks tell each other own(), and what they said.
  bool meets() const;
  uint64_t own() const { return own_; }
  void hear(std::span<const uint64_t> numbers);
  // Then: which candidate runs it.
  size_t next();
  bool measures() const;  // the time of the step that next() has named is of interest
  // Afterwards. counts: its time may be compared.
  void stepped(bool counts, const StepCost& cost);

  // A step that ranks disagreed in, maybe on its method: it is in no rank's record.
  void differed();

  uint64_t steps() const { return steps_; }
  std::span<const sparsecollChoice_t> record() const { return record_; }
  Text<128> line() const;  // what was decided, and why

  // As after create; what a replay runs, and what the caller's dense sum takes, stays.
  void reset();
  // Trials begin anew, as if there had been none.
  void forgetCosts();
  // Of a checkpoint. Trials that were under way begin anew. load changes nothing when it fails.
  void save(Writer& to, size_t current) const;
  Result<size_t> load(Reader& from);  // the candidate that ran

 private:
  static constexpr size_t kMostTimes = 7;  // of a candidate in all rounds
  enum class Source : uint32_t { kMeasured, kByCaller, kByTunerFile };
  enum class Phase : uint32_t { kBefore, kComparing, kDecided };
  struct Known {
    uint64_t ns = 0;      // of the slowest rank; 0: nothing is known
    double exchange = 0;  // the part of it that grows with the density
    uint64_t k = 0;       // at so many entries
    Source source = Source::kMeasured;
  };

  // What the ranks' slowest took in a candidate's steps, as they tell it; in order.
  struct Times {
    std::array<uint64_t, kMostTimes> numbers{};
    size_t count = 0;
    void take(uint64_t number);
    uint64_t median() const { return numbers[(count - 1) / 2]; }  // of an even count the shorter one
    uint64_t quartile() const { return numbers[(count - 1) / 4]; }
  };

  double predicted(size_t candidate) const;  // 0: nothing is known
  double atLeast(size_t candidate) const;
  double quick(size_t candidate) const;
  double fastest() const;
  bool isFrom(Source source, size_t candidate) const { return known_[candidate].source == source; }
  void takeTuned(std::span<const double> tuned);
  void leaveOutSlow(double slower);
  bool backwards() const;
  void beginRound();
  void decide();
  void note(size_t candidate);
  const char* sourceText(size_t candidate) const;
  bool timed() const;
  Text<64> size() const;

  std::vector<Candidate> candidates_;
  Shape shape_;
  std::vector<Known> known_;
  std::vector<uint8_t> able_;  // and not too slow
  std::vector<Times> times_;   // since the trials began
  std::vector<sparsecollChoice_t> record_, replayed_;
  Phase phase_ = Phase::kBefore;
  uint64_t k_ = UINT64_MAX;
  uint64_t steps_ = 0;
  size_t round_ = 0;
  size_t at_ = 0;         // the candidate under trial
  uint32_t turn_ = 0;     // its steps so far, of this round
  bool unheard_ = false;  // own_ was not told yet
  uint64_t own_ = 0;
  size_t chosen_ = 0;
  uint64_t decisions_ = 0;
  uint64_t callersNs_ = 0;  // what the caller's dense sum takes; 0: not known
};

}  // namespace sparsecoll
