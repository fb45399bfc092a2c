#include "selectors/selection.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
namespace sparsecoll {

namespace {

bool isMagnitude(double x) { return isFinite(x) && x >= 0; }
bool isShare(double x) { return x >= 0 && x <= 1; }

}  // namespace

uint64_t entriesOf(double density, uint64_t n) {
  if (density <= 0 || n == 0) return 0;
  const double wanted = std::floor(density * static_cast<double>(n) + 1e-9 * static_cast<double>(n));
  if (wanted >= static_cast<double>(n)) return n;
  return std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
}

double firstThreshold(double given, uint64_t k) {
  return given > 0 ? given : 1 / (2 * std::sqrt(static_cast<double>(std::max<uint64_t>(k, 1))));
}

Wanted wantedOf(const SelectionRequest& request) {
  if (request.selectNothing) return {0, entriesOf(request.maxDensity, request.n)};
  const uint64_t now = request.k != 0 ? std::min(request.k, request.n) : entriesOf(request.density, request.n);
  return {now, std::max(now, entriesOf(request.maxDensity, request.n))};
}

Result<std::unique_ptr<Selection>> Selection::make(PlanFunction plan, const SelectionRequest& request, Kernels& kernels,
                                                   const std::shared_ptr<MemoryBudget>& budget) {
  SC_TRY(SelectionPlan planned, plan(request));
  std::unique_ptr<Selection> selection(new Selection(plan, request, std::move(planned), kernels));
  selection->segments_.assign(request.segments.begin(), request.segments.end());
  selection->request_.segments = selection->segments_;
  selection->mostWanted_ = wantedOf(request).most;
  SC_TRY(selection->allocate(budget));
  selection->reset();
  return selection;
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
    if (plan.survey != SurveyKind::kNone) take(control.survey, ranks * plan.surveyLength);
    if (plan.survey == SurveyKind::kNorms) {
      take(control.fragments.lengths, windows);
      take(control.fragments.entries, windows);
      take(control.fragments.order, windows);
      take(control.fragments.bins, windows);
      take(control.fragments.norms, windows);
      take(control.fragments.costs, windows);
      take(control.fragments.loads, ranks);
    }
    if (request.regions) take(control.regions, ranks + 1);
    if (plan.blocks != 0) {
      take(control.blocks.counts, plan.blocks);
      take(control.blocks.starts, ranks + 1);
      take(control.blocks.loads, ranks);
    }
  }
  uint64_t bytes() const { return bytes_; }

 private:
  template <class T>
  void take(T*& table, uint64_t count) {
    table = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += alignUp(count * sizeof(T), 64);
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
  return {};
}

void Selection::reset() {
  Control fresh{};
  Tables(control_.as<>()).place(plan_, request_, fresh);
  fresh.threshold = plan_.threshold;
  fresh.k = plan_.k;
  fresh.rank = static_cast<uint32_t>(request_.rank);
  fresh.ranks = static_cast<uint32_t>(request_.ranks);
  fresh.n = request_.n;
  fresh.windowCount = static_cast<uint32_t>(plan_.windows.size());
  fresh.teams = request_.teams;
  fresh.seed = mixBits(mixBits(request_.seed) + fresh.rank);
  fresh.isDouble = request_.accumulateType == sparsecollFloat64 ? 1 : 0;
  fresh.surveyLength = plan_.surveyLength;
  fresh.measuresNorms = plan_.survey == SurveyKind::kNorms ? 1 : 0;
  fresh.blocks.length = plan_.blockLength;
  fresh.blocks.count = plan_.blocks;
  kernels_.copy(control(), &fresh, sizeof fresh, {});
  if (plan_.blocks != 0)
    kernels_.fillZero(fresh.blocks.starts, (static_cast<uint64_t>(request_.ranks) + 1) * sizeof(uint32_t), {});
  if (request_.regions)
    kernels_.fillZero(fresh.regions, (static_cast<uint64_t>(request_.ranks) + 1) * sizeof(uint64_t), {});
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
    kernels_.copy(fresh.windows + w, &window, sizeof window, {});
    if (plan_.survey == SurveyKind::kNorms) {
      const uint64_t length = plan.end - plan.begin;
      kernels_.copy(fresh.fragments.lengths + w, &length, sizeof length, {});
    }
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
  pass.out = input.out;
  pass.scale = input.scale;
  pass.n = request_.n;
  pass.control = control();
  pass.candidateIndices = candidateIndices_.as<uint32_t>();
  pass.candidateValues = candidateValues_.as<>();
  pass.momentum = input.momentum;
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
  if (plan_.survey == SurveyKind::kLadder) kernels_.countRungs(cut_, stream);
}

void Selection::afterSurvey(Stream stream) {
  if (plan_.afterSurvey != nullptr) kernels_.apply(*plan_.afterSurvey, control(), stream);
}

void Selection::cut(const List& target, Stream stream) {
  CutArgs args = cut_;
  args.target = target;
  plan_.draws ? kernels_.draw(args, stream) : kernels_.cut(args, stream);
  afterCut(stream);
}

void Selection::afterCut(Stream stream) {
  if (plan_.afterCut != nullptr) kernels_.apply(*plan_.afterCut, control(), stream);
}

Status Selection::observe(std::span<const ListView> delivered, Stream stream) {
  if (plan_.blocks != 0) SC_TRY(kernels_.countBlocks(delivered, control(), stream));
  if (plan_.afterExchange != nullptr) kernels_.apply(*plan_.afterExchange, control(), stream);
  static constexpr Rule kAdvance = {"advance", [](Control& control) { ++control.iteration; }};
  kernels_.apply(kAdvance, control(), stream);
  return {};
}

Status Selection::setDensity(double density) {
  SC_TRY(const DensityPlan plan, planDensity(density, 0));
  adopt(plan);
  return {};
}

Result<DensityPlan> Selection::planDensity(double density, uint64_t k) const {
  SelectionRequest request = request_;
  request.density = density;
  request.k = k;
  request.selectNothing = density == 0 && k == 0;
  SC_TRY(SelectionPlan plan, planFunction_(request));
  if (wantedOf(request).now > mostWanted_ || plan.capacity > plan_.capacity)
    return invalid("density {} was not planned for, the most are {} entries", density, mostWanted_);
  plan.capacity = plan_.capacity;
  plan.mostEntries = plan_.mostEntries;
  plan.lazySlots = plan_.lazySlots;
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
    kernels_.copy(&control()->windows[w].limit, &plan.windows[w].limit, sizeof(uint64_t), {});
  kernels_.copy(&control()->k, &plan.k, sizeof plan.k, {});
  if (plan.before == nullptr && plan.afterSample == nullptr &&
      plan.afterCut == nullptr) {  // no rule moves the threshold, so it follows the plan
    for (size_t w = 0; w < plan.windows.size(); ++w)
      kernels_.copy(&control()->windows[w].key, &plan.windows[w].key, sizeof(uint64_t), {});
    kernels_.copy(&control()->threshold, &plan.threshold, sizeof plan.threshold, {});
  }
  request_.density = density.density;
  request_.k = density.k;
  request_.selectNothing = density.density == 0 && density.k == 0;
  plan_ = plan;
}

void Selection::save(Writer& to) const {
  Control now{};
  kernels_.copy(&now, control(), sizeof now, {});
  to.write(now.iteration);
  to.write(now.threshold);
  to.write(now.gain);
  to.write(now.side);
  for (const double kept : now.kept) to.write(kept);
  for (const double share : now.teamShare) to.write(share);
  for (uint32_t p = 0; now.blocks.count != 0 && p <= now.ranks; ++p) {
    uint32_t start = 0;
    kernels_.copy(&start, now.blocks.starts + p, sizeof start, {});
    to.write(start);
  }
  if (request_.regions) {
    to.write(now.sumThreshold);
    to.write(now.sumDue);
    for (uint32_t r = 0; r <= now.ranks; ++r) {
      uint64_t begin = 0;
      kernels_.copy(&begin, now.regions + r, sizeof begin, {});
      to.write(begin);
    }
  }
  to.write(now.windowCount);
  for (uint32_t w = 0; w < now.windowCount; ++w) {
    Window window{};
    kernels_.copy(&window, now.windows + w, sizeof window, {});
    to.write(window.key);
    to.write(window.spread);
    to.write(window.keptBefore);
  }
}

Status Selection::load(Reader& from) {
  Control saved{};
  SC_TRY(saved.iteration, from.read<uint64_t>());
  SC_TRY(saved.threshold, from.read<double>());
  SC_TRY(saved.gain, from.read<double>());
  SC_TRY(saved.side, from.read<double>());
  bool keptAreMagnitudes = true;
  for (double& kept : saved.kept) {
    SC_TRY(kept, from.read<double>());
    keptAreMagnitudes = keptAreMagnitudes && isMagnitude(kept);
  }
  bool sharesAreFinite = true;
  for (double& share : saved.teamShare) {
    SC_TRY(share, from.read<double>());
    sharesAreFinite = sharesAreFinite && isFinite(share);
  }
  std::vector<uint32_t> starts(plan_.blocks != 0 ? static_cast<size_t>(request_.ranks) + 1 : 0);
  for (uint32_t& start : starts) {
    SC_TRY(start, from.read<uint32_t>());
  }
  if (!std::is_sorted(starts.begin(), starts.end()) || (!starts.empty() && starts.back() > plan_.blocks))
    return fail(sparsecollCorrupted, "the blob's partitions are out of order");
  std::vector<uint64_t> regions(request_.regions ? static_cast<size_t>(request_.ranks) + 1 : 0);
  if (request_.regions) {
    SC_TRY(saved.sumThreshold, from.read<double>());
    SC_TRY(saved.sumDue, from.read<uint32_t>());
    for (uint64_t& begin : regions) {
      SC_TRY(begin, from.read<uint64_t>());
    }
    const bool whole = regions.front() == 0 && (regions.back() == request_.n || regions.back() == 0);
    if (!isMagnitude(saved.sumThreshold) || saved.sumDue > 1 || !whole ||
        !std::is_sorted(regions.begin(), regions.end()))
      return fail(sparsecollCorrupted, "the blob's regions have a state that no step leaves");
  }
  SC_TRY(const auto windows, from.read<uint32_t>());
  if (windows != plan_.windows.size())
    return invalid("the blob has {} windows, this reducer {}", windows, plan_.windows.size());
  if (!isMagnitude(saved.threshold) || !isShare(saved.gain) || !isShare(std::abs(saved.side)) || !keptAreMagnitudes ||
      !sharesAreFinite)
    return fail(sparsecollCorrupted, "the blob's threshold has a state that no step leaves");
  std::vector<Window> states(windows);
  for (Window& state : states) {
    SC_TRY(state.key, from.read<uint64_t>());
    SC_TRY(state.spread, from.read<double>());
    SC_TRY(state.keptBefore, from.read<double>());
    if (state.key > infinityKey(control()->isDouble != 0) || !isShare(state.spread) || !isMagnitude(state.keptBefore))
      return fail(sparsecollCorrupted, "a window of the blob has a state that no step leaves");
  }
  kernels_.copy(&control()->iteration, &saved.iteration, sizeof saved.iteration, {});
  kernels_.copy(&control()->threshold, &saved.threshold, sizeof saved.threshold, {});
  kernels_.copy(&control()->gain, &saved.gain, sizeof saved.gain, {});
  kernels_.copy(&control()->side, &saved.side, sizeof saved.side, {});
  kernels_.copy(control()->kept, saved.kept, sizeof saved.kept, {});
  kernels_.copy(control()->teamShare, saved.teamShare, sizeof saved.teamShare, {});
  if (request_.regions) {
    kernels_.copy(&control()->sumThreshold, &saved.sumThreshold, sizeof saved.sumThreshold, {});
    kernels_.copy(&control()->sumDue, &saved.sumDue, sizeof saved.sumDue, {});
    kernels_.copy(control()->regions, regions.data(), regions.size() * sizeof(uint64_t), {});
  }
  if (!starts.empty()) kernels_.copy(control()->blocks.starts, starts.data(), starts.size() * sizeof(uint32_t), {});
  for (uint32_t w = 0; w < windows; ++w) {
    kernels_.copy(&control()->windows[w].key, &states[w].key, sizeof(uint64_t), {});
    kernels_.copy(&control()->windows[w].spread, &states[w].spread, sizeof(double), {});
    kernels_.copy(&control()->windows[w].keptBefore, &states[w].keptBefore, sizeof(double), {});
  }
  return {};
}

}  // namespace sparsecoll
