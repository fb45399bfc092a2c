// Exact selection in two phases. Decide: a radix descent over the candidates finds the limit-th largest key of each
// window. Where the candidates cannot decide it (the guard was too high, or too low for their list), a sample of acc
// gives a better guard and acc is read once more; should that fail too, the descent reads acc itself. Emit: one ordered
// walk writes what lies above the key, and of those equal to it the ones with the lowest indices.
#include "host/cut.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace sparsecoll::host {

namespace {

constexpr uint32_t kDigitBits = 12;
constexpr uint64_t kGuardSample = 65536;  // elements
constexpr uint64_t kGatherMost = 4096;    // boundary bins up to this size are finished by nth_element on the stack

template <class Key>
struct Boundary {
  Key key = 0;          // keep everything above it ...
  uint64_t equals = 0;  // ... and this many entries equal to it
};

// The radix descent. Keys outside [low, high] are above the boundary or do not exist; 0 < need <= keys not below low.
template <class Key>
class Descent {
 public:
  // keyAt(i) for i < count are the keys, none below low. Counts them into bins of one octave from low on, the last bin
  // open-ended: candidates end just below the boundary, so the boundary lies in the first of them. Returns the highest
  // key.
  template <class KeyAt>
  Key start(const KeyAt& keyAt, uint64_t count, Key low) {
    constexpr uint32_t kOctaveBits = sizeof(Key) == 8 ? 52 : 23;
    constexpr uint32_t kShift = kOctaveBits - kDigitBits;
    std::memset(bins_, 0, sizeof bins_);
    Key highest = low;
    for (uint64_t i = 0; i < count; ++i) {
      const Key key = keyAt(i);
      highest = std::max(highest, key);
      ++bins_[std::min<Key>((key - low) >> kShift, kLastBin)];
    }
    low_ = low;
    high_ = highest;
    shift_ = kShift;
    return highest;
  }

  // To be called after start. The need-th largest key.
  template <class KeyAt>
  Boundary<Key> find(const KeyAt& keyAt, uint64_t count, uint64_t need) {
    uint64_t bin = kLastBin;
    for (;;) {
      while (bins_[bin] < need) need -= bins_[bin--];
      const Key binLow = low_ + static_cast<Key>(bin << shift_);
      if (bin != kLastBin || !open_) high_ = std::min<Key>(high_, binLow + ((Key{1} << shift_) - 1));
      low_ = binLow;
      if (low_ == high_) return {low_, need};
      if (bins_[bin] <= kGatherMost) return finish(keyAt, count, need);
      bin = split(keyAt, count);
    }
  }

 private:
  static constexpr uint64_t kLastBin = (1u << kDigitBits) - 1;

  // Counts the keys in [low, high] anew, in bins as narrow as possible; returns the last one.
  template <class KeyAt>
  uint64_t split(const KeyAt& keyAt, uint64_t count) {
    const Key width = high_ - low_;
    const auto bits = static_cast<uint32_t>(std::bit_width(width));
    shift_ = bits > kDigitBits ? bits - kDigitBits : 0;
    open_ = false;
    std::memset(bins_, 0, sizeof bins_);
    for (uint64_t i = 0; i < count; ++i) {
      const Key offset = keyAt(i) - low_;  // wraps for keys below low, so one compare checks both ends
      if (offset <= width) ++bins_[offset >> shift_];
    }
    return static_cast<uint64_t>(width >> shift_);
  }

  // The keys in [low, high] are few.
  template <class KeyAt>
  Boundary<Key> finish(const KeyAt& keyAt, uint64_t count, uint64_t need) const {
    Key keys[kGatherMost + 1] = {};
    uint64_t gathered = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const Key key = keyAt(i);
      keys[gathered] = key;
      gathered += key - low_ <= high_ - low_ ? 1u : 0u;
    }
    Key* const nth = keys + (need - 1);
    std::nth_element(keys, nth, keys + gathered, std::greater<>());
    const auto above = static_cast<uint64_t>(std::count_if(keys, nth, [&](Key key) { return key > *nth; }));
    return {*nth, need - above};
  }

  uint32_t bins_[kLastBin + 1];
  Key low_ = 0;
  Key high_ = 0;
  uint32_t shift_ = 0;
  bool open_ = true;  // the last bin also holds what lies above it
};

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
            std::min(window.found, window.slots)};
  }
  Source denseOf(const Window& window) const {
    return {nullptr, static_cast<const A*>(args.acc) + window.begin, window.begin, window.end - window.begin};
  }
  static uint64_t needOf(const Window& window) {
    const uint64_t length = window.end - window.begin;
    return window.exact != 0 ? std::min(window.limit, length) : std::min(window.limit, window.found);
  }
  // window.kept entries are to be found: the candidates do not decide which.
  static bool needsDense(const Window& window) { return window.found > window.slots || window.found < window.kept; }
  Source sourceOf(const Window& window) const { return needsDense(window) ? denseOf(window) : candidatesOf(window); }

  void noteNonFinite(const Source& source) {
    NonFinite& seen = control.nonFinite;
    for (uint64_t i = 0; i < source.count; ++i) {
      if (isFinite(source.values[i])) continue;
      if (seen.count < kMaxNonFiniteIndices) seen.indices[seen.count] = source.index(i);
      ++seen.count;
    }
  }

  // A guard that most likely leaves between kept and slots candidates: the sample's rank of kept, and four standard
  // deviations more. Returns false where the sample is too small for that.
  bool guardFromSample(const Window& window, Key& guard) const {
    const A* const acc = static_cast<const A*>(args.acc) + window.begin;
    A* const sample = static_cast<A*>(args.candidateValues) + window.firstSlot;
    const uint64_t length = window.end - window.begin;
    const uint64_t runs = std::min({length, window.slots, kGuardSample}) / kSampleRun;
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
    guard = std::clamp<Key>(Magnitude<A>::of(sample[target]), 1, Magnitude<A>::kInfinity);
    return true;
  }

  // Fills the candidate list anew from acc.
  void recollect(Window& window) {
    Key guard = 0;
    if (!guardFromSample(window, guard)) return;
    PassSpan<A> span;
    span.gradient = args.acc;
    span.begin = window.begin;
    span.end = window.end;
    span.key = guard;
    span.indices = args.candidateIndices + window.firstSlot;
    span.values = static_cast<A*>(args.candidateValues) + window.firstSlot;
    span.room = window.slots;
    window.found = passFor<A>(isa)(span);
    window.floor = guard;
  }

  // Fills window.kept and returns the boundary between what stays and what goes.
  Boundary<Key> decide(Window& window) {
    window.kept = needOf(window);
    window.keptForced = 0;
    window.floor = window.key;
    window.missed = window.found > window.slots  ? kGuardTooLow
                    : window.found < window.kept ? kGuardTooHigh
                                                 : kGuardHeld;
    if (window.exact == 0 && window.limit != 0 && window.found > window.limit) ++control.overflows;
    control.candidates += window.found;
    if (window.missed != kGuardHeld) {
      ++control.fallbacks;
      if (window.kept != 0) recollect(window);
    }
    const Source source = sourceOf(window);
    const auto keyAt = [values = source.values](uint64_t i) { return Magnitude<A>::of(values[i]); };
    const Key low = source.indices != nullptr ? static_cast<Key>(window.floor) : Key{0};
    if (window.kept == source.count) {
      Key highest = 0;
      for (uint64_t i = 0; i < source.count; ++i) highest = std::max(highest, keyAt(i));
      if (highest >= Magnitude<A>::kInfinity) noteNonFinite(source);
      if (window.kept != 0) return {low, source.count};
    }
    Descent<Key> descent;
    if (descent.start(keyAt, source.count, low) >= Magnitude<A>::kInfinity) noteNonFinite(source);
    if (window.kept == 0 && window.forced != kNoForcedIndex) window.kept = window.keptForced = 1;
    if (window.kept == 0 || window.keptForced != 0) return {~Key{0}, 0};
    if (window.kept == source.count) return {low, source.count};
    return descent.find(keyAt, source.count, window.kept);
  }

  uint64_t emit(const Window& window, Boundary<Key> boundary, uint32_t* indices, A* values) const {
    if (window.kept == 0) return 0;
    if (window.keptForced != 0) {
      indices[0] = static_cast<uint32_t>(window.forced);
      if (values != nullptr) values[0] = static_cast<const A*>(args.acc)[window.forced];
      return 1;
    }
    const Source source = sourceOf(window);
    if (window.kept == source.count && source.indices != nullptr) {
      std::copy_n(source.indices, source.count, indices);
      if (values != nullptr) std::copy_n(source.values, source.count, values);
      return source.count;
    }
    uint64_t written = 0;
    // Without branches: about a quarter of the candidates is cut, which none can predict.
    for (uint64_t i = 0; i < source.count && written < window.kept; ++i) {
      const Key key = Magnitude<A>::of(source.values[i]);
      const uint64_t equal = (key == boundary.key ? 1u : 0u) & (boundary.equals != 0 ? 1u : 0u);
      indices[written] = source.index(i);
      if (values != nullptr) values[written] = source.values[i];
      boundary.equals -= equal;
      written += (key > boundary.key ? 1u : 0u) | equal;
    }
    return written;
  }

  void run() {
    control.candidates = 0;
    uint64_t total = 0;
    for (uint32_t w = 0; w < control.windowCount; ++w) {
      Window& window = control.windows[w];
      const Boundary<Key> boundary = decide(window);
      window.keptKey = boundary.key;
      window.keptEquals = boundary.equals;
      total += window.kept;
    }
    emitAll(total);
  }

  void emitAll(uint64_t total) {
    uint32_t* indices = args.target.indices;
    A* values = nullptr;
    if (args.target.where == List::Values::kApart) values = static_cast<A*>(args.target.values);
    if (args.target.where == List::Values::kPacked)
      values = reinterpret_cast<A*>(reinterpret_cast<std::byte*>(indices) + alignUp(total * sizeof(uint32_t), 16));
    for (uint32_t w = 0; w < control.windowCount; ++w) {
      const Window& window = control.windows[w];
      const uint64_t written = emit(window, {static_cast<Key>(window.keptKey), window.keptEquals}, indices, values);
      indices += written;
      if (values != nullptr) values += written;
    }
    control.selected = static_cast<uint32_t>(total);
    *args.target.count = control.selected;
  }
};

}  // namespace

void cut(const CutArgs& args, const Isa& isa) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { Cutter<A>{args, *args.control, isa}.run(); });
}

}  // namespace sparsecoll::host
