// Exact selection in two phases. Decide: a radix descent over the candidates finds the limit-th largest key of each window;
// where the candidates cannot decide it (the guard was too high, or too low for their list), the descent reads acc itself.
// Emit: one ordered walk writes what lies above the key, and of those equal to it the ones with the lowest indices.
#include "host/cut.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace sparsecoll::host {

namespace {

constexpr uint32_t kDigitBits = 12;
constexpr uint64_t kGatherMost = 4096;  // boundary bins up to this size are finished by nth_element on the stack

template <class Key>
struct Boundary {
  Key key = 0;          // keep everything above it ...
  uint64_t equals = 0;  // ... and this many entries equal to it
};

// keyAt(i) for i < count; keys outside [low, high] do not exist. 0 < need <= count.
template <class Key, class KeyAt>
Boundary<Key> findBoundary(const KeyAt& keyAt, uint64_t count, uint64_t need, Key low, Key high) {
  uint32_t bins[1u << kDigitBits];
  for (;;) {
    const auto bits = static_cast<uint32_t>(std::bit_width(static_cast<Key>(high - low)));
    const uint32_t shift = bits > kDigitBits ? bits - kDigitBits : 0;
    std::memset(bins, 0, sizeof bins);
    const Key width = high - low;
    for (uint64_t i = 0; i < count; ++i) {
      const Key offset = keyAt(i) - low;  // wraps for keys below low, so one compare checks both ends
      if (offset <= width) ++bins[offset >> shift];
    }
    auto bin = static_cast<uint64_t>(width >> shift);
    while (bins[bin] < need) need -= bins[bin--];
    const Key binLow = low + static_cast<Key>(bin << shift);
    if (shift == 0) return {binLow, need};
    const Key binHigh = std::min<Key>(high, binLow + ((Key{1} << shift) - 1));
    if (bins[bin] <= kGatherMost) {
      Key keys[kGatherMost] = {};
      uint64_t gathered = 0;
      for (uint64_t i = 0; i < count; ++i)
        if (const Key key = keyAt(i); key - binLow <= binHigh - binLow) keys[gathered++] = key;
      Key* const nth = keys + (need - 1);
      std::nth_element(keys, nth, keys + gathered, std::greater<>());
      const auto above = static_cast<uint64_t>(std::count_if(keys, nth, [&](Key key) { return key > *nth; }));
      return {*nth, need - above};
    }
    low = binLow;
    high = binHigh;
  }
}

template <class A>
struct Cutter {
  using Key = typename Magnitude<A>::Key;

  // Where a window's entries are read from: its candidates, or acc itself.
  struct Source {
    const uint32_t* indices;  // nullptr: entry i has index first + i
    const A* values;
    uint64_t first;
    uint64_t count;
    uint32_t index(uint64_t i) const {
      return indices != nullptr ? indices[i] : static_cast<uint32_t>(first + i);
    }
  };

  const CutArgs& args;
  Control& control;

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
  static bool needsDense(const Window& window) { return window.found > window.slots || window.found < needOf(window); }
  Source sourceOf(const Window& window) const { return needsDense(window) ? denseOf(window) : candidatesOf(window); }

  void noteNonFinite(const Source& source) {
    NonFinite& seen = control.nonFinite;
    for (uint64_t i = 0; i < source.count; ++i) {
      if (isFinite(source.values[i])) continue;
      if (seen.count < kMaxNonFiniteIndices) seen.indices[seen.count] = source.index(i);
      ++seen.count;
    }
  }

  // Fills window.kept and returns the boundary between what stays and what goes.
  Boundary<Key> decide(Window& window) {
    const Source source = sourceOf(window);
    Key highest = 0;
    for (uint64_t i = 0; i < source.count; ++i) highest = std::max(highest, Magnitude<A>::of(source.values[i]));
    if (highest >= Magnitude<A>::kInfinity) noteNonFinite(source);
    window.kept = needOf(window);
    window.keptForced = 0;
    if (needsDense(window)) ++control.fallbacks;
    if (window.exact == 0 && window.found > window.limit) ++control.overflows;
    if (window.kept == 0 && window.forced != kNoForcedIndex) {
      window.kept = 1;
      window.keptForced = 1;
    }
    if (window.kept == 0 || window.keptForced != 0) return {~Key{0}, 0};
    const Key low = source.indices != nullptr ? static_cast<Key>(window.key) : Key{0};
    if (window.kept == source.count) return {low, source.count};
    const auto keyAt = [values = source.values](uint64_t i) { return Magnitude<A>::of(values[i]); };
    return findBoundary<Key>(keyAt, source.count, window.kept, low, highest);
  }

  uint64_t emit(const Window& window, Boundary<Key> boundary, uint32_t* indices, A* values) const {
    if (window.kept == 0) return 0;
    if (window.keptForced != 0) {
      indices[0] = static_cast<uint32_t>(window.forced);
      if (values != nullptr) values[0] = static_cast<const A*>(args.acc)[window.forced];
      return 1;
    }
    const Source source = sourceOf(window);
    uint64_t written = 0;
    for (uint64_t i = 0; i < source.count && written < window.kept; ++i) {
      const Key key = Magnitude<A>::of(source.values[i]);
      if (key < boundary.key || (key == boundary.key && boundary.equals == 0)) continue;
      if (key == boundary.key) --boundary.equals;
      indices[written] = source.index(i);
      if (values != nullptr) values[written] = source.values[i];
      ++written;
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
      control.candidates += window.found;
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

void cut(const CutArgs& args) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { Cutter<A>{args, *args.control}.run(); });
}

}  // namespace sparsecoll::host
