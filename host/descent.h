// The need-th largest of many magnitudes by a radix descent.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>

#include "host/isa.h"

namespace sparsecoll::host {

inline constexpr uint32_t kDigitBits = 12;
inline constexpr uint64_t kGatherMost = 4096;  // boundary bins up to this size are finished on the stack

template <class Key>
struct Boundary {
  Key key = 0;          // keep everything above it ...
  uint64_t equals = 0;  // ... and this many entries equal to it
};

// The radix descent. Keys outside [low, high] are above the boundary or do not exist; 0 < need <= keys not below low.
template <class Key>
class Descent {
 public:
  explicit Descent(const Isa& isa) : countFrom_(countFor<Key>(isa)) {}

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

  // Of few keys, without start: none below low or above highest.
  template <class KeyAt>
  Boundary<Key> findAmongFew(const KeyAt& keyAt, uint64_t count, uint64_t need, Key low, Key highest) {
    low_ = low;
    high_ = highest;
    Key offsets[kGatherMost + kCountBlock];
    for (uint64_t i = 0; i < count; ++i) offsets[i] = keyAt(i) - low;
    return nthOf(offsets, count, need);
  }

  // Without start, of many keys, any at all: the need-th largest. A sample says between which keys it most likely lies,
  // so that one walk over all of them tells how many lie above and counts those between.
  template <class KeyAt>
  Boundary<Key> findAmongMany(const KeyAt& keyAt, uint64_t count, uint64_t need) {
    high_ = ~Key{0} >> 1;  // magnitudes have no sign
    low_ = 0;
    if (count > kGatherMost) bracket(keyAt, count, need);
    uint64_t above = 0;
    for (uint64_t i = 0; i < count; ++i) above += keyAt(i) > high_ ? 1u : 0u;
    uint64_t bin = split(keyAt, count);
    const uint64_t between = std::accumulate(bins_, bins_ + bin + 1, uint64_t{0});
    if (above < need && need <= above + between) return descend(keyAt, count, need - above, bin);
    high_ = ~Key{0} >> 1;
    low_ = 0;
    bin = split(keyAt, count);
    return descend(keyAt, count, need, bin);
  }

  // To be called after start. The need-th largest key.
  template <class KeyAt>
  Boundary<Key> find(const KeyAt& keyAt, uint64_t count, uint64_t need) {
    return descend(keyAt, count, need, kLastBin);
  }

 private:
  static constexpr uint64_t kLastBin = (1u << kDigitBits) - 1;
  static constexpr uint64_t kSample = 2048;

  template <class KeyAt>
  Boundary<Key> descend(const KeyAt& keyAt, uint64_t count, uint64_t need, uint64_t bin) {
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

  // Narrows [low, high] to the sample's ranks four standard deviations to either side of need's.
  template <class KeyAt>
  void bracket(const KeyAt& keyAt, uint64_t count, uint64_t need) {
    Key sample[kSample];
    for (uint64_t s = 0; s < kSample; ++s) sample[s] = keyAt(count * s / kSample);
    const double share = static_cast<double>(need) / static_cast<double>(count);
    const double rank = share * kSample;
    const double margin = 4 * std::sqrt(rank * (1 - share)) + 4;
    const auto at = [&](double wanted) {
      const auto nth = sample + static_cast<ptrdiff_t>(wanted);
      std::nth_element(sample, nth, sample + kSample, std::greater<>());
      return *nth;
    };
    if (rank - margin > 0) high_ = at(rank - margin);
    if (rank + margin < kSample - 1) low_ = at(rank + margin);
  }

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
    Key offsets[kGatherMost + kCountBlock];
    uint64_t gathered = 0;
    for (uint64_t i = 0; i < count; ++i) {
      offsets[gathered] = keyAt(i) - low_;
      gathered += offsets[gathered] <= high_ - low_ ? 1u : 0u;
    }
    return nthOf(offsets, gathered, need);
  }

  // offsets: the gathered keys less low_, and room for a block more.
  Boundary<Key> nthOf(Key* offsets, uint64_t gathered, uint64_t need) const {
    for (const uint64_t end = (gathered + kCountBlock - 1) / kCountBlock * kCountBlock; gathered < end; ++gathered)
      offsets[gathered] = 0;  // is never counted
    // Bit by bit: a count of the keys that reach a value needs no branches, and vectors do it. The need-th largest is
    // in [nth, nth + width) with all that reach nth and are not above.
    Key nth = 0;
    uint64_t reaching = gathered;
    uint64_t above = 0;
    for (auto bit = static_cast<uint32_t>(std::bit_width(high_ - low_)); bit-- > 0;) {
      if (reaching - above == 1) return {low_ + theOneIn(offsets, gathered, nth, Key{2} << bit), 1};
      const Key trial = nth | Key{1} << bit;
      const uint64_t reached = countFrom_(offsets, gathered, trial);
      (reached >= need ? reaching : above) = reached;
      if (reached >= need) nth = trial;
    }
    return {low_ + nth, need - above};
  }

  static Key theOneIn(const Key* keys, uint64_t count, Key from, Key width) {
    Key found = 0;
    for (uint64_t i = 0; i < count; ++i) found = std::max(found, keys[i] - from < width ? keys[i] : Key{0});
    return found;
  }

  CountFunction<Key> countFrom_;
  uint32_t bins_[kLastBin + 1];
  Key low_ = 0;
  Key high_ = 0;
  uint32_t shift_ = 0;
  bool open_ = true;  // the last bin also holds what lies above it
};

}  // namespace sparsecoll::host
