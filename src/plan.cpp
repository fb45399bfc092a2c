#include "src/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace sparsecoll {

namespace {

constexpr double kTooSlow = 2;  // times the fastest: not run again
constexpr double kNear = 1.15;  // times the fastest: nobody knows yet which of them is

// Steps of a candidate in one turn. The first one finds thresholds, or takes the residual along, and is not timed.
struct TrialRound {
  uint32_t settling;
  uint32_t timed;
  double most;  // times the fastest, before it: slower ones are left out
};
constexpr TrialRound kRounds[] = {{1, 1, kTooSlow}, {1, 3, kTooSlow}, {1, 3, kNear}};
constexpr double kEven = 1.05;  // times the fastest's median, to which others' quicker steps are compared

constexpr uint32_t kShareBits = 20;  // of a number that ranks exchange; above them the time in units
constexpr uint64_t kShareMost = (uint64_t{1} << kShareBits) - 1;
constexpr uint64_t kUnitNs = 64;
constexpr uint64_t kMostSteps = UINT64_MAX / 2;  // of a state; nobody gets that far
constexpr uint64_t kNoTime = UINT64_MAX;  // the step failed on some rank: it is run again

// The slowest rank's number is the largest one, and brings its share along.
uint64_t packed(const StepCost& cost) {
  const uint64_t units = std::clamp<uint64_t>(cost.total / kUnitNs, 1, (kNoTime >> kShareBits) - 1);
  const double share = static_cast<double>(cost.exchange) / static_cast<double>(std::max<uint64_t>(cost.total, 1));
  return units << kShareBits | static_cast<uint64_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kShareMost));
}

uint64_t nsIn(uint64_t number) { return (number >> kShareBits) * kUnitNs; }
double shareIn(uint64_t number) { return static_cast<double>(number & kShareMost) / static_cast<double>(kShareMost); }

std::atomic<CostFunction> costs{nullptr};

Text<32> duration(double ns) {
  if (ns < 1e5) return Text<32>::format("{:.2g} us", ns / 1e3);
  if (ns < 1e7) return Text<32>::format("{:.2g} ms", ns / 1e6);
  return Text<32>::format("{:.0f} ms", ns / 1e6);
}

}  // namespace

void replaceCosts(CostFunction function) { costs.store(function, std::memory_order_release); }

StepCost costOf(const char* candidate, int rank, StepCost measured) {
  const CostFunction replaced = costs.load(std::memory_order_acquire);
  return replaced != nullptr ? replaced(candidate, rank, measured) : measured;
}

Plan::Plan(std::vector<Candidate> candidates, const Shape& shape)
    : candidates_(std::move(candidates)),
      shape_(shape),
      known_(candidates_.size()),
      able_(candidates_.size()),
      times_(candidates_.size()) {
  makeRoom();
}

// What is replayed; or a turn in every round for each, what runs before them, what is decided, and what comes after a
// reset.
void Plan::makeRoom() {
  record_.reserve(record_.size() + replayed_.size() + candidates_.size() * std::size(kRounds) + 3);
}

void Plan::knowDense(uint64_t ns) {
  callersNs_ = ns;
  for (size_t c = 0; c < candidates_.size(); ++c)
    if (candidates_[c].dense() && ns != 0) known_[c] = {ns, 0, 0, Source::kByCaller};
}

Status Plan::replay(std::span<const sparsecollChoice_t> recorded) {
  uint64_t before = 0;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const sparsecollChoice_t& choice = recorded[i];
    const bool known = std::ranges::any_of(candidates_, [&](const Candidate& candidate) {
      return candidate.selector == choice.selector && candidate.collective == choice.collective;
    });
    if (!known) return invalid("config.plan[{}] is a method that is no candidate here", i);
    if (i == 0 ? choice.step != 0 : choice.step <= before)
      return invalid("config.plan[{}].step is {}: steps rise from 0 on", i, choice.step);
    before = choice.step;
  }
  replayed_.assign(recorded.begin(), recorded.end());
  makeRoom();
  return {};
}

// Local work does not change with the density as long as it is small; what travels grows with it.
double Plan::predicted(size_t candidate) const {
  const Known& known = known_[candidate];
  const auto ns = static_cast<double>(known.ns);
  if (known.k == 0 || candidates_[candidate].dense()) return ns;
  const double factor = static_cast<double>(k_) / static_cast<double>(known.k);
  return ns * (1 - known.exchange + known.exchange * factor);
}

double Plan::fastest() const {
  double least = 0;
  for (size_t c = 0; c < candidates_.size(); ++c)
    if (const double ns = predicted(c); able_[c] != 0 && ns != 0 && (least == 0 || ns < least)) least = ns;
  return least;
}

// A larger density takes no less time, but how much more is not known: of what travels, latency does not grow.
double Plan::atLeast(size_t candidate) const {
  return k_ > known_[candidate].k ? static_cast<double>(known_[candidate].ns) : predicted(candidate);
}

void Plan::leaveOutSlow(double slower) {
  const double most = slower * fastest();
  for (size_t c = 0; c < candidates_.size(); ++c)
    if (most != 0 && atLeast(c) > most) able_[c] = 0;
}

// Of another density they are no longer asked for.
void Plan::takeTuned(std::span<const double> tuned) {
  for (Known& known : known_)
    if (known.source == Source::kByTunerFile) known = {};
  if (tuned.empty() || std::ranges::find(tuned, 0.0) != tuned.end()) return;
  for (size_t c = 0; c < candidates_.size(); ++c)
    if (!isFrom(Source::kByCaller, c))
      known_[c] = {std::max<uint64_t>(1, static_cast<uint64_t>(tuned[c])), 0, k_, Source::kByTunerFile};
  leaveOutSlow(kNear);
}

void Plan::start(uint64_t k, std::span<const uint8_t> able, std::span<const double> tuned) {
  if (replays()) return;
  makeRoom();
  k_ = k;
  able_.assign(able.begin(), able.end());
  std::ranges::fill(times_, Times{});
  for (Known& known : known_)  // a state's, of a caller who told what this one does not
    if (known.source == Source::kByCaller && callersNs_ == 0) known = {};
  takeTuned(tuned);
  leaveOutSlow(kRounds[0].most);
  unheard_ = false;
  round_ = 0;
  phase_ = Phase::kComparing;
  beginRound();
  if (std::ranges::count(able_, uint8_t{1}) == 1) decide();  // nobody is left to be compared with
}

// Every second round goes backwards: dense leaves an empty residual, and who comes behind it takes longer to select.
bool Plan::backwards() const { return round_ % 2 != 0; }

void Plan::beginRound() {
  at_ = backwards() ? candidates_.size() - 1 : 0;
  turn_ = 0;
}

// Everything there is to know is known before a step is run: which rank comes late plays no part in its time.
bool Plan::timed() const { return turn_ >= kRounds[round_].settling; }

bool Plan::meets() const {
  if (phase_ != Phase::kComparing) return false;
  return unheard_ || timed();
}

bool Plan::measures() const { return phase_ == Phase::kComparing && !replays() && timed(); }

void Plan::hear(std::span<const uint64_t> numbers) {
  if (!unheard_) return;
  unheard_ = false;
  const uint64_t slowest = *std::ranges::max_element(numbers);
  if (slowest == kNoTime) {
    --turn_;
    return;
  }
  times_[at_].take(slowest);
  const uint64_t median = times_[at_].median();
  known_[at_] = {nsIn(median), shareIn(median), k_, Source::kMeasured};
}

// Steps of a millisecond take half or twice that, and the shortest of several is luck.
void Plan::Times::take(uint64_t number) {
  static_assert(kRounds[0].timed + kRounds[1].timed + kRounds[2].timed == kMostTimes && std::size(kRounds) == 3);
  const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(count);
  const auto place = std::upper_bound(numbers.begin(), end, number);
  std::move_backward(place, end, end + 1);
  *place = number;
  ++count;
}

size_t Plan::next() {
  if (replays()) {
    for (const sparsecollChoice_t& choice : replayed_) {
      if (choice.step > steps_) break;
      for (size_t c = 0; c < candidates_.size(); ++c)
        if (candidates_[c].selector == choice.selector && candidates_[c].collective == choice.collective) chosen_ = c;
    }
    note(chosen_);
    return chosen_;
  }
  if (phase_ == Phase::kBefore) {
    note(0);
    return 0;
  }
  while (phase_ == Phase::kComparing) {
    const bool over = turn_ == kRounds[round_].settling + kRounds[round_].timed;
    if (able_[at_] != 0 && !isFrom(Source::kByCaller, at_) && !over) {
      note(at_);
      return at_;
    }
    turn_ = 0;
    if (at_ != (backwards() ? 0 : candidates_.size() - 1)) {
      backwards() ? --at_ : ++at_;
      continue;
    }
    const bool last = ++round_ == std::size(kRounds);
    if (!last) leaveOutSlow(kRounds[round_].most);
    if (last || std::ranges::count(able_, uint8_t{1}) == 1)
      decide();
    else
      beginRound();
  }
  note(chosen_);
  return chosen_;
}

void Plan::stepped(bool counts, const StepCost& cost) {
  ++steps_;
  if (phase_ != Phase::kComparing || replays()) return;
  if (measures()) {
    own_ = counts ? packed(cost) : kNoTime;
    unheard_ = true;
  }
  ++turn_;
}

void Plan::differed() {
  if (record_.size() > 1 && record_.back().step == steps_) record_.pop_back();
  ++steps_;
}

// In its quicker steps: where these are as fast as another one's median, trials have not told the two apart.
double Plan::quick(size_t candidate) const {
  const Times& times = times_[candidate];
  return times.count != 0 ? static_cast<double>(nsIn(times.quartile())) : predicted(candidate);
}

// Of those that are as fast as each other dense is taken, which leaves nothing for later, or else the first.
void Plan::decide() {
  phase_ = Phase::kDecided;
  ++decisions_;
  const double most = kEven * fastest();
  const auto even = [&](size_t c) { return able_[c] != 0 && quick(c) <= most; };
  for (size_t c = candidates_.size(); c-- > 0;)
    if (even(c)) chosen_ = c;
  for (size_t c = 0; c < candidates_.size(); ++c)
    if (candidates_[c].dense() && even(c)) chosen_ = c;
}

void Plan::note(size_t candidate) {
  const Candidate& now = candidates_[candidate];
  if (!record_.empty() && record_.back().selector == now.selector && record_.back().collective == now.collective)
    return;
  record_.push_back({steps_, now.selector, now.collective});
}

Text<64> Plan::size() const {
  const auto n = static_cast<double>(shape_.n);
  if (n >= 1e6) return Text<64>::format("n {:.3g}M P {}", n / 1e6, shape_.ranks);
  if (n >= 1e3) return Text<64>::format("n {:.3g}k P {}", n / 1e3, shape_.ranks);
  return Text<64>::format("n {} P {}", shape_.n, shape_.ranks);
}

const char* Plan::sourceText(size_t candidate) const {
  constexpr const char* kTexts[] = {"measured", "by the caller", "by the tuner file"};
  return kTexts[static_cast<size_t>(known_[candidate].source)];
}

// The Python package tells by the two texts of trials that nothing was decided yet.
Text<128> Plan::line() const {
  if (replays()) return "auto: replays a plan";
  if (phase_ == Phase::kBefore) return "auto: no trials yet";
  if (phase_ == Phase::kComparing) return "auto: trials of methods are under way";
  Text<128> text = Text<128>::format("{}: {}, {}", size(), candidates_[chosen_].name, duration(predicted(chosen_)));
  if (isFrom(Source::kByTunerFile, chosen_)) text.append(" {}", sourceText(chosen_));
  size_t sparse = candidates_.size();
  size_t dense = candidates_.size();
  for (size_t c = 0; c < candidates_.size(); ++c) {
    if (candidates_[c].dense())
      dense = c;
    else if (known_[c].ns != 0 && (sparse == candidates_.size() || predicted(c) < predicted(sparse)))
      sparse = c;
  }
  if (dense == candidates_.size() || known_[dense].ns == 0) return text;
  const double denseNs = predicted(dense);
  if (!candidates_[chosen_].dense())
    text.append("; dense {}", duration(denseNs));
  else if (sparse != candidates_.size())
    text.append("; {} {}", candidates_[sparse].name, duration(predicted(sparse)));
  if (sparse != candidates_.size() && !isFrom(Source::kByTunerFile, sparse)) {
    const double travels = predicted(sparse) - static_cast<double>(known_[sparse].ns) * (1 - known_[sparse].exchange);
    const double left = denseNs - (predicted(sparse) - travels);
    const double density = static_cast<double>(k_) / static_cast<double>(shape_.n);
    if (left <= 0)
      text.append("; dense at any density");
    else
      text.append("; break-even density {:.2g}", density * left >= travels ? 1.0 : density * left / travels);
  }
  if (shape_.ranks > 1) {
    const auto ranks = static_cast<double>(shape_.ranks);
    const double bits = 16 * (ranks - 1) / ranks * static_cast<double>(shape_.n * shape_.elementBytes);
    text.append("; link {:.2g} Gbit/s {}", bits / denseNs, sourceText(dense));
  }
  return text;
}

void Plan::reset() {
  forgetCosts();
  steps_ = 0;
  chosen_ = 0;
  record_.clear();
}

void Plan::forgetCosts() {
  std::ranges::fill(known_, Known{});
  knowDense(callersNs_);
  phase_ = Phase::kBefore;
  k_ = UINT64_MAX;
  unheard_ = false;
}

void Plan::save(Writer& to, size_t current) const {
  to.write(static_cast<uint32_t>(candidates_.size()));
  to.write(static_cast<uint32_t>(current));
  to.write(static_cast<uint32_t>(phase_));
  to.write(static_cast<uint32_t>(chosen_));
  to.write(phase_ == Phase::kDecided ? k_ : UINT64_MAX);  // trials of another run took another time
  to.write(steps_);
  for (const Known& known : known_) {
    to.write(known.ns);
    to.write(known.exchange);
    to.write(known.k);
    to.write(static_cast<uint32_t>(known.source));
  }
  to.write(static_cast<uint64_t>(record_.size()));
  for (const sparsecollChoice_t& choice : record_) {
    to.write(choice.step);
    to.write(choice.selector);
    to.write(choice.collective);
  }
}

Result<size_t> Plan::load(Reader& from) {
  const auto damaged = [] { return fail(sparsecollCorrupted, "the state's plan is one that no reducer makes"); };
  SC_TRY(const auto count, from.read<uint32_t>());
  if (count != candidates_.size())
    return invalid("the state has {} candidates, this reducer {}", count, candidates_.size());
  SC_TRY(const auto current, from.read<uint32_t>());
  SC_TRY(const auto phase, from.read<uint32_t>());
  SC_TRY(const auto chosen, from.read<uint32_t>());
  SC_TRY(const auto k, from.read<uint64_t>());
  SC_TRY(const auto steps, from.read<uint64_t>());
  if (current >= count || chosen >= count || phase > static_cast<uint32_t>(Phase::kDecided)) return damaged();
  if (phase != static_cast<uint32_t>(Phase::kDecided) && k != UINT64_MAX) return damaged();
  if (steps > kMostSteps) return damaged();
  std::vector<Known> known(count);
  for (Known& one : known) {
    SC_TRY(one.ns, from.read<uint64_t>());
    SC_TRY(one.exchange, from.read<double>());
    SC_TRY(one.k, from.read<uint64_t>());
    SC_TRY(const auto source, from.read<uint32_t>());
    if (!(one.exchange >= 0 && one.exchange <= 1) || source > static_cast<uint32_t>(Source::kByTunerFile))
      return damaged();
    one.source = static_cast<Source>(source);
  }
  SC_TRY(const auto choices, from.read<uint64_t>());
  if (choices > from.left() / sizeof(sparsecollChoice_t)) return damaged();
  std::vector<sparsecollChoice_t> record(choices);
  for (size_t i = 0; i < record.size(); ++i) {
    SC_TRY(record[i].step, from.read<uint64_t>());
    SC_TRY(record[i].selector, from.read<int32_t>());
    SC_TRY(record[i].collective, from.read<int32_t>());
    if (record[i].step > steps || (i > 0 && record[i].step <= record[i - 1].step)) return damaged();
  }
  known_ = std::move(known);
  knowDense(callersNs_);  // what this reducer was given counts
  record_ = std::move(record);
  makeRoom();
  phase_ = static_cast<Phase>(phase);
  chosen_ = chosen;
  steps_ = steps;
  unheard_ = false;
  std::ranges::fill(times_, Times{});
  round_ = 0;
  beginRound();
  k_ = k;
  return size_t{current};
}

}  // namespace sparsecoll
