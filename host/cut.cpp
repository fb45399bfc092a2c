// Exact selection in two phases. Decide: a radix descent over the candidates finds the limit-th largest key of each
// window. Where the candidates cannot decide it (the key was too high, or too low for their list), a sample of acc
// gives a better key and acc is read once more; should that fail too, the descent reads acc itself. Emit: one ordered
// walk writes what lies above the key, and of those equal to it the ones with the lowest indices.
#include "host/cut.h"

#include <algorithm>
#include <cmath>

#include "core/list_span.h"
#include "host/arrivals.h"
#include "host/descent.h"

namespace sparsecoll::host {

namespace {

constexpr uint64_t kKeySample = 65536;  // elements
constexpr uint32_t kKeyTries = 8;
constexpr uint64_t kTrialBlock = 2048;  // keys that stay in the first-level cache

template <class A>
struct Cutter {
  using Key = typename Magnitude<A>::Key;

  // Where a window's entries are read from: its candidates, or acc itself.
  struct Source {
    const uint32_t* indices;  // nullptr: entry i has index first + i
    const A* values;
    uint64_t first;
    uint64_t count;
    uint32_t index(uint64_t i) const { return indices != nullptr ? indices[i] : static_cast<uint32_t>(first + i); }
  };

  const CutArgs& args;
  Control& control;
  const Isa& isa;

  Source candidatesOf(const Window& window) const {
    return {args.candidateIndices + window.firstSlot, static_cast<const A*>(args.candidateValues) + window.firstSlot, 0,
            std::min(window.listed, window.slots)};
  }
  Source denseOf(const Window& window) const {
    return {nullptr, static_cast<const A*>(args.acc) + window.begin, window.begin, window.end - window.begin};
  }
  uint64_t needOf(const Window& window) const {
    const uint64_t length = window.end - window.begin;
    return std::min(window.limit, window.exact != 0 ? length : passing(window));
  }
  // Entries that a window without an exact number may keep. Where it has a least key its candidates are complete.
  uint64_t passing(const Window& window) const {
    if (window.least <= window.key) return window.listed;
    const Source source = candidatesOf(window);
    const auto least = static_cast<Key>(window.least);
    uint64_t count = 0;
    for (uint64_t i = 0; i < source.count; ++i) count += Magnitude<A>::of(source.values[i]) >= least ? 1 : 0;
    return count;
  }
  // window.kept entries are to be found: the candidates do not decide which.
  static bool needsDense(const Window& window) { return window.listed > window.slots || window.listed < window.kept; }
  Source sourceOf(const Window& window) const { return needsDense(window) ? denseOf(window) : candidatesOf(window); }

  void noteNonFinite(const Source& source) {
    NonFinite& seen = control.nonFinite;
    for (uint64_t i = 0; i < source.count; ++i) {
      if (isFinite(source.values[i])) continue;
      if (seen.count < kMaxNonFiniteIndices) seen.indices[seen.count] = source.index(i);
      ++seen.count;
    }
  }

  // A key that most likely leaves between kept and slots candidates: the sample's rank of kept, and four standard
  // deviations more. Returns false where the sample is too small for that.
  bool keyFromSample(const Window& window, Key& found) const {
    const A* const acc = static_cast<const A*>(args.acc) + window.begin;
    A* const sample = static_cast<A*>(args.candidateValues) + window.firstSlot;
    const uint64_t length = window.end - window.begin;
    const uint64_t runs = std::min({length, window.slots, kKeySample}) / kSampleRun;
    if (runs == 0) return false;
    for (uint64_t r = 0; r < runs; ++r)
      std::copy_n(acc + length / kSampleRun * r / runs * kSampleRun, kSampleRun, sample + r * kSampleRun);
    const auto size = static_cast<double>(runs * kSampleRun);
    const double rank = static_cast<double>(window.kept) * size / static_cast<double>(length);
    const auto target = static_cast<uint64_t>(rank + 4 * std::sqrt(rank + 1) + 4);
    if (target >= runs * kSampleRun) return false;
    std::nth_element(sample, sample + target, sample + runs * kSampleRun,
                     [](A a, A b) { return Magnitude<A>::of(a) > Magnitude<A>::of(b); });
    // At most infinity: what is not finite must always be met.
    found = std::clamp<Key>(Magnitude<A>::of(sample[target]), 1, Magnitude<A>::kInfinity);
    return true;
  }

  // Fills the candidate list anew from acc.
  void recollect(Window& window) {
    Key candidateKey = 0;
    if (!keyFromSample(window, candidateKey)) return;
    PassSpan<A> span;
    span.gradient = args.acc;
    span.begin = window.begin;
    span.end = window.end;
    span.indices = args.candidateIndices + window.firstSlot;
    span.values = static_cast<A*>(args.candidateValues) + window.firstSlot;
    span.room = window.slots;
    // A small window's sample tells little, but reading it once more is cheaper than descending through all of it.
    constexpr Key kStep = Key{1} << (sizeof(Key) == 8 ? 49 : 20);  // an eighth of an octave
    for (uint32_t tries = span.end - span.begin <= kKeySample ? kKeyTries : 1; tries != 0; --tries) {
      span.key = candidateKey;
      window.listed = passFor<A>(isa)(span);
      window.floor = candidateKey;
      if (!needsDense(window)) return;
      const bool tooLow = window.listed > window.slots;
      if (tooLow ? candidateKey + kStep > Magnitude<A>::kInfinity : candidateKey <= kStep) return;
      candidateKey = tooLow ? candidateKey + kStep : candidateKey - kStep;
    }
  }

  // Fills window.kept and returns the boundary between what stays and what goes.
  Boundary<Key> decide(Window& window) {
    window.kept = needOf(window);
    window.keptForced = 0;
    window.floor = window.key;
    window.missed = window.listed > window.slots ? kKeyTooLow : window.listed < window.kept ? kKeyTooHigh : kKeyFits;
    const uint64_t passed = window.exact != 0 ? window.kept : passing(window);
    if (window.limit != 0 && passed > window.limit) ++control.overflows;
    control.candidates += window.listed;
    if (window.missed != kKeyFits) {
      control.fallbacks += window.lazy != 0 ? 0 : 1;
      if (window.kept != 0) recollect(window);
    }
    const Source source = sourceOf(window);
    const auto keyAt = [values = source.values](uint64_t i) { return Magnitude<A>::of(values[i]); };
    const Key low = source.indices != nullptr ? static_cast<Key>(window.floor) : Key{0};
    // No boundary has to be found. A list that was filled anew was filled by chance: what is told of the boundary is
    // not.
    const bool complete = window.missed == kKeyFits || source.indices == nullptr;
    const bool everything =
        window.kept != 0 && complete && (window.kept == source.count || (window.exact == 0 && window.kept == passed));
    Descent<Key> descent(isa);
    Key highest = 0;
    const bool few = source.count <= kGatherMost;
    if (everything || few)
      for (uint64_t i = 0; i < source.count; ++i) highest = std::max(highest, keyAt(i));
    else
      highest = descent.start(keyAt, source.count, low);
    if (highest >= Magnitude<A>::kInfinity && window.lazy == 0) noteNonFinite(source);
    if (window.kept == 0 && window.forced != kNoForcedIndex) window.kept = window.keptForced = 1;
    if (window.kept == 0 || window.keptForced != 0) return {~Key{0}, 0};
    if (everything && window.exact == 0) return {static_cast<Key>(std::max(window.key, window.least)), source.count};
    if (everything) return {low, source.count};
    if (few) return descent.findAmongFew(keyAt, source.count, window.kept, low, highest);
    return descent.find(keyAt, source.count, window.kept);
  }

  uint64_t emit(const Window& window, Boundary<Key> boundary, uint32_t* indices, A* values) const {
    if (window.kept == 0) return 0;
    if (window.keptForced != 0) {
      indices[0] = static_cast<uint32_t>(window.forced);
      values[0] = static_cast<const A*>(args.acc)[window.forced];
      return 1;
    }
    const Source source = sourceOf(window);
    if (window.kept == source.count && source.indices != nullptr) {
      std::copy_n(source.indices, source.count, indices);
      std::copy_n(source.values, source.count, values);
      return source.count;
    }
    SplitSpan<A> span;
    span.indices = source.indices;
    span.values = source.values;
    span.first = source.first;
    span.count = source.count;
    span.key = boundary.key;
    span.equals = boundary.equals;
    span.kept = window.kept;
    span.keptIndices = indices;
    span.keptValues = values;
    splitFor<A>(isa)(span);
    return window.kept;
  }

  void run() {
    uint64_t total = 0;
    forEachWindow([&](Window& window) {
      window.listed = window.found;
      window.limit = std::min(window.limit, args.target.capacity - total);  // a message has no room for more
      total += expectedOf(window);
    });
    ListSlots<A> slots = slotsOf<A>(args.target, total);
    if (args.dropped.count != nullptr) *args.dropped.count = 0;
    forEachWindow([&](Window& window) {
      const uint64_t written = args.arrivals.empty() ? cutWindow(window, slots) : cutWithArrivals(window, slots);
      slots.indices += written;
      slots.values += written;
    });
    control.selected += static_cast<uint32_t>(total);
    *args.target.count = static_cast<uint32_t>(total);
  }

  template <class Do>
  void forEachWindow(Do each) const {
    if (args.windows.empty())
      for (uint32_t w = 0; w < control.windowCount; ++w) each(control.windows[w]);
    for (const uint32_t w : args.windows) each(control.windows[w]);
  }

  uint64_t expectedOf(const Window& window) const {
    const uint64_t need = needOf(window);
    return need == 0 && window.forced != kNoForcedIndex ? 1 : need;
  }

  uint64_t cutWindow(Window& window, const ListSlots<A>& to) {
    const Boundary<Key> boundary = decide(window);
    window.keptKey = boundary.key;
    window.keptEquals = boundary.equals;
    return emit(window, boundary, to.indices, to.values);
  }

  // Only exact windows have arrivals. Where acc has to be read again it must hold the sums, for as long as that takes.
  uint64_t cutWithArrivals(Window& window, const ListSlots<A>& to) {
    const ArrivalSums<A> arrivals{args};
    const uint64_t arrived = arrivals.take(window);
    if (arrived == 0) return cutWindow(window, to);
    arrivals.joinCandidates(window, arrived);
    window.kept = needOf(window);
    auto* const acc = static_cast<A*>(args.acc);
    auto* const sums = static_cast<A*>(args.scratch.values);
    A* const before = sums + arrived;
    const bool patch = needsDense(window);
    for (uint64_t i = 0; patch && i < arrived; ++i) {
      A& entry = acc[args.scratch.indices[i]];
      before[i] = entry;
      entry = canonical(entry + sums[i]);
    }
    const uint64_t written = cutWindow(window, to);
    for (uint64_t i = 0; patch && i < arrived; ++i) acc[args.scratch.indices[i]] = before[i];
    arrivals.dropRest(arrived, {to.indices, written});
    return written;
  }
};

template <class A>
void countCandidates(const TrialArgs& args, const Isa& isa) {
  using Key = typename Magnitude<A>::Key;
  const Window& window = args.control->windows[0];
  const auto* const values = static_cast<const A*>(args.candidateValues) + window.firstSlot;
  const bool complete = window.found <= window.slots;
  const uint64_t count = complete ? window.found : 0;
  uint64_t reached[kTrials] = {};
  Key keys[kTrialBlock];
  for (uint64_t begin = 0; begin < count; begin += kTrialBlock) {
    const uint64_t length = std::min(kTrialBlock, count - begin);
    for (uint64_t i = 0; i < length; ++i) keys[i] = Magnitude<A>::of(values[begin + i]);
    for (uint64_t j = 0, above = length; j < kTrials && above != 0; ++j) {  // trials rise
      above = countFor<Key>(isa)(keys, length, static_cast<Key>(args.trials[j]));
      reached[j] += above;
    }
  }
  std::copy_n(reached, kTrials, args.counts);
  args.counts[kTrials] = complete ? 0 : 1;
}

}  // namespace

void countTrials(const TrialArgs& args, const Isa& isa) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { countCandidates<A>(args, isa); });
}

void cut(const CutArgs& args, const Isa& isa) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { Cutter<A>{args, *args.control, isa}.run(); });
}

}  // namespace sparsecoll::host
