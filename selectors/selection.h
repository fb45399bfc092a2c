// Selection: dense vector -> which entries travel. A method is data: windows, their limits, and rules that move
// thresholds between steps. One class runs them all, so a new method is a new file with a plan function and its rules.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/control.h"
#include "core/kernels.h"
#include "core/list_rule.h"
#include "core/state_plan.h"
#include "core/status.h"

namespace sparsecoll {

// What a method is asked for.
struct SelectionRequest {
  uint64_t n = 0;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  int rank = 0;
  int ranks = 1;
  double density = 0;  // one of density and k, unless selectNothing
  uint64_t k = 0;
  double maxDensity = 0;  // capacity is planned for it; at least density
  bool selectNothing = false;
  sparsecollParams_t params = {};  // as the caller gave them. density, k and SELECT_NOTHING may have changed: see above
  uint32_t blocks = 0;             // not 0: the collective's, each a unit of its own
  uint32_t arrivals = 0;           // lists that may be added to a block before it is selected from
  StatePlan collective;            // what the collective keeps in the control block
  std::span<const sparsecollSegment_t> segments;  // lengths add up to n; empty: one unit
  bool anyDensity = false;  // some segment has a density of its own; it may lie in another node's shard

  bool faithful() const { return params.faithful != 0; }
  // Elements to select from: those of tensors that are sent dense are 0 in every step.
  uint64_t selectable() const;
};

struct WindowPlan {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t limit = 0;  // entries to keep now
  uint64_t room = 0;   // most it may ever keep
  uint64_t slots = 0;  // candidates to make room for
  uint64_t key = 0;    // first key
  double spread = 0;
  bool exact = true;
  bool lazy = false;
};

// What the ranks tell each other between the pass and the cut.
enum class SurveyKind {
  kNone,
  kLadder,  // counts of candidates at the plan's trials
  kNorms,   // of acc over every window
};

struct SurveyPlan {
  SurveyKind kind = SurveyKind::kNone;
  uint64_t length = 0;      // of a row
  StateTable<double> rows;  // a rank each
};

// The sum's entries are counted in blocks of this length.
struct BlockPlan {
  uint64_t length = 0;
  uint32_t count = 0;  // 0: they are not
  StateTable<uint32_t> counts;
};

// How a method selects.
struct SelectionPlan {
  std::vector<WindowPlan> windows;
  uint64_t k = 0;            // entries requested
  uint64_t mostEntries = 0;  // k at the largest density
  uint64_t capacity = 0;     // most entries this rank may send
  double threshold = 0;      // first threshold of the methods that move one
  uint64_t lazySlots = 0;    // shared by the lazy windows
  BlockPlan blocks;
  bool chunks = false;              // all windows but the last have one length and one limit
  const ListRule* picks = nullptr;  // writes what travels: entries of acc, or of those that the cut kept,
  uint64_t kept = 0;                // which are at most so many; 0: nothing is cut
  bool boundsMove = false;          // rules set where windows begin and end
  StatePlan state;                  // what the rules keep in the control block
  SurveyPlan survey;
  StateTable<uint64_t> trials;          // kLadder: what candidates are counted at
  bool samples = false;                 // the step starts with a histogram of a sample of acc
  const Rule* before = nullptr;         // may set windows from the iteration
  const Rule* afterSample = nullptr;    // the histogram is there
  const Rule* afterPass = nullptr;      // the windows' candidates are counted
  const Rule* afterSurvey = nullptr;    // the ranks' rows are there
  const ListRule* fromAcc = nullptr;    // a crew's: reads acc and sets how much the windows keep
  const Rule* afterCut = nullptr;       // this rank's own counts are known
  const Rule* afterExchange = nullptr;  // the ranks' counts and thresholds are known
};

using PlanFunction = Result<SelectionPlan> (*)(const SelectionRequest& request);

// k = floor(d n + 1e-9 n), at least 1 where d > 0 and at most n.
uint64_t entriesOf(double density, uint64_t n);

// The threshold a request gives, or where it gives none the guess 1 / (2 sqrt(k)) of Dutta et al. 2021.
double firstThreshold(double given, uint64_t k);

// The entries a request asks for, now and at its largest density.
struct Wanted {
  uint64_t now = 0;
  uint64_t most = 0;
};
Wanted wantedOf(const SelectionRequest& request);
// The same, where a density is of so many elements.
Wanted wantedOf(const SelectionRequest& request, uint64_t elements);

struct SelectionInput {
  const void* gradient = nullptr;
  sparsecollDataType_t gradientType = sparsecollFloat32;
  const void* in = nullptr;  // residual before; nullptr: none
  void* out = nullptr;       // acc; nullptr: the gradient is acc
  Scale scale;
  Momentum momentum = {};
  uint64_t* deferredZeros = nullptr;  // of in, see PassArgs
};

// Another density for a selection, worked out ahead of the step that changes to it.
struct DensityPlan {
  SelectionPlan plan;
  double density = 0;
  uint64_t k = 0;
};

class Selection {
 public:
  static Result<std::unique_ptr<Selection>> make(PlanFunction plan, const SelectionRequest& request, Kernels& kernels,
                                                 const std::shared_ptr<MemoryBudget>& budget);

  uint64_t capacity() const { return plan_.capacity; }
  uint64_t k() const { return plan_.k; }
  double density() const { return request_.density; }  // 0 where k was given instead
  uint64_t mostEntries() const { return plan_.mostEntries; }
  Control* control() const { return control_.as<Control>(); }
  const Control& tables() const { return tables_; }  // a copy for where control's tables lie
  uint64_t iteration() const { return iteration_; }  // steps so far
  uint64_t windows() const { return plan_.windows.size(); }

  std::vector<uint64_t> unitRooms() const;
  uint64_t surveyLength() const { return plan_.survey.length; }
  double* surveyRows() const { return plan_.survey.rows.in(tables_.selector); }  // a rank each; nullptr: no survey
  bool chunks() const { return plan_.chunks; }

  // The stream that changes from outside of a step are made on.
  void use(Stream stream) { stream_ = stream; }

  // A step: the fused pass; once the ranks have exchanged their rows of the survey, if there is one, a cut of the
  // candidates, here or by a collective that selects; then what rules make of the counts, own and of all ranks.
  void pass(const SelectionInput& input, Stream stream);
  void afterSurvey(Stream stream);
  const CutArgs& candidates() const { return cut_; }
  Status cut(const List& target, Stream stream);
  void afterCut(Stream stream);
  // delivered: the step's sum.
  Status observe(std::span<const ListView> delivered, Stream stream);
  // The exchange is over: everybody has heard who met NaN or Inf.
  void advance(Stream stream);

  Status setDensity(double density);
  // The same in two halves. One of density and k, or neither to select nothing. Errors: InvalidArgument (no memory was
  // planned for it).
  Result<DensityPlan> planDensity(double density, uint64_t k) const;
  void adopt(const DensityPlan& density);  // needs no memory
  // What another one, made for the same but its density, has kept between steps and counted.
  Status takeOver(const Selection& before);
  // As at create, but for the density; iteration: of the next step.
  void reset(uint64_t iteration = 0);
  // Where what the ranks compute together may have come to differ.
  void startAgreedAnew();

  void save(Writer& to) const;
  Status load(Reader& from, bool otherRanks);

 private:
  Selection(PlanFunction planFunction, SelectionRequest request, SelectionPlan plan, Kernels& kernels)
      : planFunction_(planFunction),
        request_(std::move(request)),
        plan_(std::move(plan)),
        kernels_(kernels),
        stream_(kernels.stream()) {}
  Status allocate(const std::shared_ptr<MemoryBudget>& budget);
  double* surveyRow() const { return surveyRows() + static_cast<uint64_t>(request_.rank) * plan_.survey.length; }
  Status pick(const List& target, Stream stream);
  void clearTables();
  void followPlan();
  template <class Visit>
  static Status eachPart(const SelectionPlan& plan, const SelectionRequest& request, const Visit& visit);
  void* partAt(MethodState Control::*state, const StatePart& part) const;
  class Tables;
  static WindowFacts factsOf(const SelectionPlan& plan, uint64_t n);

  PlanFunction planFunction_;
  SelectionRequest request_;
  uint64_t mostWanted_ = 0;                    // entries at the largest density it was made for
  std::vector<sparsecollSegment_t> segments_;  // what request_.segments points at
  SelectionPlan plan_;
  Kernels& kernels_;
  Buffer control_;  // Control, then windows, facts, poison
  Control tables_{};
  Stream stream_;
  uint64_t iteration_ = 0;  // control's, as the host counts
  Buffer candidateIndices_;
  Buffer candidateValues_;
  Buffer keptIndices_;  // of plans that pick from what the cut keeps
  Buffer keptValues_;
  Buffer keptCount_;
  CutArgs cut_;  // of the latest pass
  WindowFacts facts_;
};

}  // namespace sparsecoll
