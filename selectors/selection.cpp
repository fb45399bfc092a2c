#include "selectors/selection.h"

#include <algorithm>
#include <cmath>

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

Status Selection::allocate(const std::shared_ptr<MemoryBudget>& budget) {
  const auto ranks = static_cast<uint64_t>(request_.ranks);
  const uint64_t windowsAt = alignUp(sizeof(Control), 64);
  const uint64_t factsAt = windowsAt + alignUp(plan_.windows.size() * sizeof(Window), 64);
  const uint64_t poisonAt = factsAt + alignUp(ranks * sizeof(RankFacts), 64);
  const uint64_t histogramAt = poisonAt + alignUp(ranks * kMaxNonFiniteIndices * sizeof(uint32_t), 64);
  const uint64_t bytes = histogramAt + (plan_.samples ? kHistogramBins * sizeof(uint32_t) : 0);
  SC_TRY(control_, kernels_.allocate(bytes, budget));
  uint64_t slots = 0;
  for (const WindowPlan& window : plan_.windows) slots += window.slots;
  SC_TRY(candidateIndices_, kernels_.allocate(slots * sizeof(uint32_t), budget));
  SC_TRY(candidateValues_, kernels_.allocate(slots * elementBytes(request_.accumulateType), budget));

  Control initial{};
  auto* const base = control_.as<>();
  initial.windows = reinterpret_cast<Window*>(base + windowsAt);
  initial.facts = reinterpret_cast<RankFacts*>(base + factsAt);
  initial.poison = reinterpret_cast<uint32_t*>(base + poisonAt);
  if (plan_.samples) initial.histogram = reinterpret_cast<uint32_t*>(base + histogramAt);
  kernels_.copy(base, &initial, sizeof initial, {});
  return {};
}

void Selection::reset() {
  Control initial{};
  kernels_.copy(&initial, control(), sizeof initial, {});
  Control fresh{};
  fresh.windows = initial.windows;
  fresh.facts = initial.facts;
  fresh.poison = initial.poison;
  fresh.histogram = initial.histogram;
  fresh.threshold = plan_.threshold;
  fresh.k = plan_.k;
  fresh.rank = static_cast<uint32_t>(request_.rank);
  fresh.ranks = static_cast<uint32_t>(request_.ranks);
  fresh.n = request_.n;
  fresh.windowCount = static_cast<uint32_t>(plan_.windows.size());
  fresh.isDouble = request_.accumulateType == sparsecollFloat64 ? 1 : 0;
  kernels_.copy(control(), &fresh, sizeof fresh, {});
  uint64_t slot = 0;
  for (size_t w = 0; w < plan_.windows.size(); ++w) {
    const WindowPlan& plan = plan_.windows[w];
    Window window{};
    window.begin = plan.begin;
    window.end = plan.end;
    window.key = plan.key;
    window.limit = plan.limit;
    window.room = plan.room;
    window.firstSlot = slot;
    window.slots = plan.slots;
    window.spread = plan.spread;
    window.forced = kNoForcedIndex;
    window.exact = plan.exact ? 1 : 0;
    kernels_.copy(initial.windows + w, &window, sizeof window, {});
    slot += plan.slots;
  }
}

void Selection::select(const SelectionInput& input, const List& target, Stream stream) {
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

  CutArgs cut;
  cut.acc = input.out != nullptr ? input.out : input.gradient;
  cut.accumulateType = request_.accumulateType;
  cut.control = control();
  cut.candidateIndices = pass.candidateIndices;
  cut.candidateValues = pass.candidateValues;
  cut.target = target;
  kernels_.cut(cut, stream);
  if (plan_.afterCut != nullptr) kernels_.apply(*plan_.afterCut, control(), stream);
}

void Selection::observe(Stream stream) {
  if (plan_.afterExchange != nullptr) kernels_.apply(*plan_.afterExchange, control(), stream);
  static constexpr Rule kAdvance = {"advance", [](Control& control) { ++control.iteration; }};
  kernels_.apply(kAdvance, control(), stream);
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
  for (size_t w = 0; w < plan.windows.size(); ++w) {
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
  SC_TRY(const auto windows, from.read<uint32_t>());
  if (windows != plan_.windows.size())
    return invalid("the blob has {} windows, this reducer {}", windows, plan_.windows.size());
  if (!isMagnitude(saved.threshold) || !isShare(saved.gain) || !isShare(std::abs(saved.side)) || !keptAreMagnitudes)
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
  for (uint32_t w = 0; w < windows; ++w) {
    kernels_.copy(&control()->windows[w].key, &states[w].key, sizeof(uint64_t), {});
    kernels_.copy(&control()->windows[w].spread, &states[w].spread, sizeof(double), {});
    kernels_.copy(&control()->windows[w].keptBefore, &states[w].keptBefore, sizeof(double), {});
  }
  return {};
}

}  // namespace sparsecoll
