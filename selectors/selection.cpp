#include "selectors/selection.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "selectors/rules.h"

namespace sparsecoll {

uint64_t entriesOf(double density, uint64_t n) {
  if (density <= 0 || n == 0) return 0;
  const double wanted = std::floor(density * static_cast<double>(n) + 1e-9 * static_cast<double>(n));
  if (wanted >= static_cast<double>(n)) return n;
  return std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
}

double firstThreshold(double given, uint64_t k) {
  return given > 0 ? given : 1 / (2 * std::sqrt(static_cast<double>(std::max<uint64_t>(k, 1))));
}

uint64_t SelectionRequest::selectable() const {
  uint64_t left = n;
  for (const sparsecollSegment_t& segment : segments) left -= segment.dense != 0 ? segment.length : 0;
  return left;
}

namespace {

void askFor(SelectionRequest& request, double density, uint64_t k) {
  request.density = density;
  request.k = k;
  request.selectNothing = density == 0 && k == 0;
}

}  // namespace

Wanted wantedOf(const SelectionRequest& request) { return wantedOf(request, request.selectable()); }

Wanted wantedOf(const SelectionRequest& request, uint64_t elements) {
  const uint64_t most = entriesOf(request.maxDensity, elements);
  if (request.selectNothing) return {0, most};
  const uint64_t now = request.k != 0 ? std::min(request.k, elements) : entriesOf(request.density, elements);
  return {now, std::max(now, most)};
}

Result<std::unique_ptr<Selection>> Selection::make(PlanFunction plan, const SelectionRequest& request, Kernels& kernels,
                                                   const std::shared_ptr<MemoryBudget>& budget) {
  SC_TRY(SelectionPlan planned, plan(request));
  std::unique_ptr<Selection> selection(new Selection(plan, request, std::move(planned), kernels));
  selection->segments_.assign(request.segments.begin(), request.segments.end());
  selection->request_.segments = selection->segments_;
  selection->mostWanted_ = wantedOf(request).most;
  selection->facts_ = factsOf(selection->plan_, request.n);
  SC_TRY(selection->allocate(budget));
  selection->reset();
  return selection;
}

WindowFacts Selection::factsOf(const SelectionPlan& plan, uint64_t n) {
  WindowFacts facts;
  facts.trials = plan.survey.kind == SurveyKind::kLadder;
  if (plan.boundsMove) return facts;
  facts.shortest = n;
  facts.longest = 0;
  facts.everywhere = true;
  uint64_t done = 0;
  for (const WindowPlan& window : plan.windows) {
    const uint64_t length = window.end - window.begin;
    facts.shortest = std::min(facts.shortest, length);
    facts.longest = std::max(facts.longest, length);
    facts.everywhere = facts.everywhere && window.begin == done;
    done = window.end;
  }
  facts.everywhere = facts.everywhere && done == n;
  return facts;
}

// Places the tables of a control block behind it: once to learn how much room they need, once to set the pointers.
class Selection::Tables {
 public:
  explicit Tables(std::byte* base) : base_(base) {}

  void place(const SelectionPlan& plan, const SelectionRequest& request, Control& control) {
    const auto ranks = static_cast<uint64_t>(request.ranks);
    const uint64_t windows = plan.windows.size();
    take(control.windows, windows);
    take(control.facts, ranks);
    take(control.poison, ranks * kMaxNonFiniteIndices);
    if (plan.samples) take(control.histogram, kHistogramBins);
    place(plan.state, control.selector);
    place(request.collective, control.collective);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  template <class T>
  void take(T*& table, uint64_t count) {
    if (base_ != nullptr) table = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += alignUp(count * sizeof(T), 64);
  }

  void place(const StatePlan& plan, MethodState& state) {
    state = plan.fresh();
    for (const StatePart& part : plan.parts()) {
      if (!part.table) continue;
      std::byte* table = nullptr;
      take(table, part.bytes());
      std::memcpy(state.bytes + part.at, &table, sizeof table);
    }
  }

  std::byte* base_;
  uint64_t bytes_ = alignUp(sizeof(Control), 64);
};

Status Selection::allocate(const std::shared_ptr<MemoryBudget>& budget) {
  Control initial{};
  Tables sizes(nullptr);
  sizes.place(plan_, request_, initial);
  SC_TRY(control_, kernels_.allocate(sizes.bytes(), budget));
  uint64_t slots = plan_.lazySlots;
  for (const WindowPlan& window : plan_.windows) slots += window.lazy ? 0 : window.slots;
  SC_TRY(candidateIndices_, kernels_.allocate(slots * sizeof(uint32_t), budget));
  SC_TRY(candidateValues_, kernels_.allocate(slots * elementBytes(request_.accumulateType), budget));
  if (plan_.kept != 0) {
    SC_TRY(keptIndices_, kernels_.allocate(plan_.kept * sizeof(uint32_t), budget));
    SC_TRY(keptValues_, kernels_.allocate(plan_.kept * elementBytes(request_.accumulateType), budget));
    SC_TRY(keptCount_, kernels_.allocate(sizeof(uint32_t), budget));
  }
  return {};
}

void Selection::reset(uint64_t iteration) {
  Control fresh{};
  Tables tables(control_.as<>());
  tables.place(plan_, request_, fresh);
  fresh.bytes = tables.bytes();
  fresh.threshold = plan_.threshold;
  fresh.k = plan_.k;
  fresh.rank = static_cast<uint32_t>(request_.rank);
  fresh.ranks = static_cast<uint32_t>(request_.ranks);
  fresh.n = request_.n;
  fresh.windowCount = static_cast<uint32_t>(plan_.windows.size());
  fresh.seed = mixBits(mixBits(request_.params.seed) + fresh.rank);
  fresh.isDouble = request_.accumulateType == sparsecollFloat64 ? 1 : 0;
  iteration_ = fresh.iteration = iteration;
  tables_ = fresh;
  kernels_.transfer(control(), &fresh, sizeof fresh, stream_);
  clearTables();
  uint64_t slot = plan_.lazySlots;
  for (size_t w = 0; w < plan_.windows.size(); ++w) {
    const WindowPlan& plan = plan_.windows[w];
    Window window{};
    window.begin = plan.begin;
    window.end = plan.end;
    window.key = plan.key;
    window.limit = plan.limit;
    window.room = plan.room;
    window.firstSlot = plan.lazy ? 0 : slot;
    window.slots = plan.lazy ? plan_.lazySlots : plan.slots;
    window.lazy = plan.lazy ? 1 : 0;
    window.spread = plan.spread;
    window.forced = kNoForcedIndex;
    window.exact = plan.exact ? 1 : 0;
    kernels_.transfer(fresh.windows + w, &window, sizeof window, stream_);
    slot += plan.lazy ? 0 : plan.slots;
  }
}

std::vector<uint64_t> Selection::unitRooms() const {
  std::vector<uint64_t> rooms;
  for (const WindowPlan& window : plan_.windows) rooms.push_back(window.room);
  return rooms;
}

void Selection::pass(const SelectionInput& input, Stream stream) {
  PassArgs pass;
  pass.gradient = input.gradient;
  pass.gradientType = input.gradientType;
  pass.in = input.in;
  pass.deferredZeros = input.deferredZeros;
  pass.out = input.out;
  pass.scale = input.scale;
  pass.n = request_.n;
  pass.control = control();
  pass.candidateIndices = candidateIndices_.as<uint32_t>();
  pass.candidateValues = candidateValues_.as<>();
  pass.momentum = input.momentum;
  if (plan_.survey.kind == SurveyKind::kNorms) pass.norms = surveyRow();
  pass.facts = facts_;
  if (plan_.before != nullptr) kernels_.apply(*plan_.before, control(), stream);
  if (plan_.samples) kernels_.sample(pass, stream);
  if (plan_.afterSample != nullptr) kernels_.apply(*plan_.afterSample, control(), stream);
  kernels_.pass(pass, stream);
  if (plan_.afterPass != nullptr) kernels_.apply(*plan_.afterPass, control(), stream);

  // Without a residual the gradient is acc. Only a cut with arrivals writes to it, and only where there is a residual.
  cut_.acc = input.out != nullptr ? input.out : const_cast<void*>(input.gradient);
  cut_.accumulateType = request_.accumulateType;
  cut_.control = control();
  cut_.candidateIndices = pass.candidateIndices;
  cut_.candidateValues = pass.candidateValues;
  cut_.facts = facts_;
  if (plan_.survey.kind == SurveyKind::kLadder)
    kernels_.countTrials(
        {control(), request_.accumulateType, pass.candidateValues, plan_.trials.in(tables_.selector), surveyRow()},
        stream);
}

void Selection::afterSurvey(Stream stream) {
  if (plan_.afterSurvey != nullptr) kernels_.apply(*plan_.afterSurvey, control(), stream);
}

Status Selection::cut(const List& target, Stream stream) {
  if (plan_.fromAcc != nullptr) {
    ListRuleArgs args;
    args.control = control();
    args.acc = cut_.acc;
    SC_TRY(kernels_.apply(*plan_.fromAcc, args, 1, stream));
  }
  if (plan_.picks != nullptr) {
    SC_TRY(pick(target, stream));
  } else {
    CutArgs args = cut_;
    args.target = target;
    kernels_.cut(args, stream);
  }
  afterCut(stream);
  return {};
}

Status Selection::pick(const List& target, Stream stream) {
  ListRuleArgs args;
  args.control = control();
  args.acc = cut_.acc;
  args.to = target;
  if (plan_.kept != 0) {
    CutArgs cut = cut_;
    cut.target = {keptIndices_.as<uint32_t>(), keptValues_.as<>(), keptCount_.as<uint32_t>(), plan_.kept,
                  List::Values::kApart};
    kernels_.cut(cut, stream);
    args.from = {cut.target.indices, cut.target.values, cut.target.count};
  }
  return kernels_.apply(*plan_.picks, args, plan_.capacity, stream);
}

void Selection::afterCut(Stream stream) {
  if (plan_.afterCut != nullptr) kernels_.apply(*plan_.afterCut, control(), stream);
}

Status Selection::observe(std::span<const ListView> delivered, Stream stream) {
  const BlockPlan& blocks = plan_.blocks;
  if (blocks.count != 0)
    SC_TRY(kernels_.countBlocks(
        {delivered, request_.n, blocks.length, blocks.count, blocks.counts.in(tables_.selector)}, stream));
  if (plan_.afterExchange != nullptr) kernels_.apply(*plan_.afterExchange, control(), stream);
  return {};
}

void Selection::advance(Stream stream) {
  kernels_.apply(kAdvance, control(), stream);
  ++iteration_;
}

Status Selection::setDensity(double density) {
  SC_TRY(const DensityPlan plan, planDensity(density, 0));
  adopt(plan);
  return {};
}

Result<DensityPlan> Selection::planDensity(double density, uint64_t k) const {
  SelectionRequest request = request_;
  askFor(request, density, k);
  SC_TRY(SelectionPlan plan, planFunction_(request));
  if (wantedOf(request).now > mostWanted_ || plan.capacity > plan_.capacity || plan.kept > plan_.kept)
    return invalid("density {} was not planned for, the most are {} entries", density, mostWanted_);
  plan.capacity = plan_.capacity;
  plan.mostEntries = plan_.mostEntries;
  plan.lazySlots = plan_.lazySlots;
  plan.kept = plan_.kept;
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    if (plan.windows[w].lazy) continue;  // its limit is set in every step
    plan.windows[w].slots = plan_.windows[w].slots;
    plan.windows[w].room = plan_.windows[w].room;
  }
  return DensityPlan{std::move(plan), density, k};
}

void Selection::adopt(const DensityPlan& density) {
  const SelectionPlan& plan = density.plan;
  for (size_t w = 0; w < plan.windows.size(); ++w)
    kernels_.transfer(&tables_.windows[w].limit, &plan.windows[w].limit, sizeof(uint64_t), stream_);
  kernels_.transfer(&control()->k, &plan.k, sizeof plan.k, stream_);
  askFor(request_, density.density, density.k);
  plan_ = plan;
  followPlan();
}

// Where no rule moves the threshold it is the plan's.
void Selection::followPlan() {
  if (plan_.before != nullptr || plan_.afterSample != nullptr || plan_.fromAcc != nullptr || plan_.afterCut != nullptr)
    return;
  for (size_t w = 0; w < plan_.windows.size(); ++w)
    kernels_.transfer(&tables_.windows[w].key, &plan_.windows[w].key, sizeof(uint64_t), stream_);
  kernels_.transfer(&control()->threshold, &plan_.threshold, sizeof plan_.threshold, stream_);
}

Status Selection::takeOver(const Selection& before) {
  Writer state;
  before.save(state);
  Reader reader(state.bytes());
  SC_TRY(load(reader, false));
  followPlan();
  Control then{};
  kernels_.transfer(&then, before.control(), sizeof then, stream_);
  then.totals.lost += then.lost;
  kernels_.transfer(&control()->totals, &then.totals, sizeof then.totals, stream_);
  kernels_.transfer(&control()->takesEffect, &then.takesEffect, sizeof then.takesEffect, stream_);  // for who gives back
  return {};
}

}  // namespace sparsecoll
