// What a histogram of sampled magnitudes tells: counts, quantiles and moments. Inside a bin, 1/32 of an octave or 3 %
// of its magnitude, entries count as evenly spread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/control.h"
#include "core/math.h"
#include "core/random.h"

namespace sparsecoll {

class Magnitudes {
 public:
  // The finite entries of the control block's sample.
  SC_BOTH explicit Magnitudes(const Control& control);

  SC_BOTH double total() const { return total_; }  // sampled entries, zeros included
  SC_BOTH double nonZeros() const { return total_ - static_cast<double>(counts_[0]); }
  // Upper end of the highest bin with entries; 0: there are none.
  SC_BOTH double largest() const { return end_ > first_ ? lowerEnd(end_) : 0; }

  // Sampled entries of at least this magnitude.
  SC_BOTH double above(double magnitude) const;
  // The magnitude that this many sampled entries reach; 0 where not so many differ from 0.
  SC_BOTH double quantile(double entries) const;

  struct Moments {
    double count = 0;
    double mean = 0;
    double variance = 0;  // unbiased
  };
  // Of what entries of at least this magnitude have more than it; of all entries for 0.
  SC_BOTH Moments excess(double magnitude) const;
  // Of entries other than 0.
  SC_BOTH double meanLn() const;
  // Mean of so many entries drawn at random, with replacement.
  SC_BOTH double meanOfDraws(uint64_t draws, uint64_t seed) const;
  // The magnitude that this many of so many drawn entries reach.
  SC_BOTH double quantileOfDraws(uint64_t draws, double entries, uint64_t seed) const;

 private:
  // Bins by the group, so that an entry is found in two short walks and no table is long: a device's thread has little
  // memory of its own.
  static constexpr uint32_t kGroup = 96;
  static constexpr uint32_t kGroups = kFiniteBins / kGroup;
  static_assert(kGroups * kGroup == kFiniteBins);
  struct Groups {
    uint64_t upTo[kGroups];  // entries in this group and those below it
  };

  SC_BOTH static double lowerEnd(uint32_t bin) { return static_cast<double>(std::bit_cast<float>(bin << 18)); }
  SC_BOTH static double shareAbove(uint32_t bin, double magnitude);
  SC_BOTH static double reachedIn(uint32_t bin, double share);
  SC_BOTH Groups groups() const;
  SC_BOTH static uint64_t drawn(const Groups& groups, uint64_t draw, uint64_t seed);
  SC_BOTH static uint32_t groupOf(const Groups& groups, uint64_t at);
  SC_BOTH uint32_t binOf(const Groups& groups, uint32_t group, uint64_t at) const;

  const uint32_t* counts_;
  double total_ = 0;
  uint32_t first_ = 1;  // bins from first_ to below end_ may have entries, and bin 0 has the zeros
  uint32_t end_ = 1;
};

inline SC_BOTH Magnitudes::Magnitudes(const Control& control) : counts_(control.histogram) {
  uint64_t total = counts_[0];
  bool any = false;
  for (uint32_t bin = 1; bin < kFiniteBins; ++bin) {
    if (counts_[bin] == 0) continue;
    if (!any) first_ = bin;
    any = true;
    end_ = bin + 1;
    total += counts_[bin];
  }
  total_ = static_cast<double>(total);
}

// The share of a bin from magnitude on.
inline SC_BOTH double Magnitudes::shareAbove(uint32_t bin, double magnitude) {
  const double low = lowerEnd(bin);
  const double high = lowerEnd(bin + 1);
  return std::clamp((high - magnitude) / (high - low), 0.0, 1.0);
}

inline SC_BOTH double Magnitudes::above(double magnitude) const {
  if (magnitude <= 0) return total_;
  double count = 0;
  for (uint32_t bin = end_; bin-- > first_;) {
    const double share = shareAbove(bin, magnitude);
    if (share == 0) break;
    count += share * counts_[bin];
  }
  return count;
}

// The magnitude that this share of a bin's entries reach.
inline SC_BOTH double Magnitudes::reachedIn(uint32_t bin, double share) {
  return lowerEnd(bin + 1) - share * (lowerEnd(bin + 1) - lowerEnd(bin));
}

inline SC_BOTH double Magnitudes::quantile(double entries) const {
  double count = 0;
  for (uint32_t bin = end_; bin-- > first_;) {
    if (counts_[bin] == 0) continue;
    if (count + counts_[bin] >= entries) return reachedIn(bin, (entries - count) / counts_[bin]);
    count += counts_[bin];
  }
  return 0;
}

inline SC_BOTH Magnitudes::Moments Magnitudes::excess(double magnitude) const {
  Moments moments;
  double sum = 0;
  double squares = 0;
  for (uint32_t bin = end_; bin-- > first_;) {
    if (counts_[bin] == 0) continue;
    const double share = shareAbove(bin, magnitude);
    if (share == 0) break;
    const double count = share * counts_[bin];
    const double low = std::max(lowerEnd(bin), magnitude) - magnitude;
    const double width = lowerEnd(bin + 1) - magnitude - low;
    const double middle = low + width / 2;
    moments.count += count;
    sum += count * middle;
    squares += count * (middle * middle + width * width / 12);
  }
  if (magnitude <= 0) moments.count += counts_[0];
  if (moments.count <= 1) return moments;
  moments.mean = sum / moments.count;
  moments.variance = std::max(0.0, squares - moments.mean * sum) / (moments.count - 1);
  return moments;
}

inline SC_BOTH double Magnitudes::meanLn() const {
  double sum = 0;
  for (uint32_t bin = first_; bin < end_; ++bin)
    if (counts_[bin] != 0) sum += counts_[bin] * lnOf(0.5 * (lowerEnd(bin) + lowerEnd(bin + 1)));
  return nonZeros() > 0 ? sum / nonZeros() : 0;
}

inline SC_BOTH Magnitudes::Groups Magnitudes::groups() const {
  Groups groups;
  uint64_t count = 0;
  for (uint32_t group = 0; group < kGroups; ++group) {
    for (uint32_t i = 0; i < kGroup; ++i) count += counts_[group * kGroup + i];
    groups.upTo[group] = count;
  }
  return groups;
}

// Which of all entries this draw takes, counted from the smallest.
inline SC_BOTH uint64_t Magnitudes::drawn(const Groups& groups, uint64_t draw, uint64_t seed) {
  return mixBits(seed + draw) % groups.upTo[kGroups - 1];
}

inline SC_BOTH uint32_t Magnitudes::groupOf(const Groups& groups, uint64_t at) {
  return static_cast<uint32_t>(std::upper_bound(groups.upTo, groups.upTo + kGroups, at) - groups.upTo);
}

inline SC_BOTH uint32_t Magnitudes::binOf(const Groups& groups, uint32_t group, uint64_t at) const {
  uint32_t bin = group * kGroup;
  uint64_t upTo = (group != 0 ? groups.upTo[group - 1] : 0) + counts_[bin];
  while (upTo <= at) upTo += counts_[++bin];
  return bin;
}

inline SC_BOTH double Magnitudes::meanOfDraws(uint64_t draws, uint64_t seed) const {
  if (total_ == 0) return 0;
  const Groups table = groups();
  double sum = 0;
  for (uint64_t i = 0; i < draws; ++i) {
    const uint64_t at = drawn(table, i, seed);
    const uint32_t bin = binOf(table, groupOf(table, at), at);
    if (bin != 0) sum += 0.5 * (lowerEnd(bin) + lowerEnd(bin + 1));
  }
  return sum / static_cast<double>(draws);
}

// Draws are counted by the group, and those of the group in which the entry lies once more by the bin.
inline SC_BOTH double Magnitudes::quantileOfDraws(uint64_t draws, double entries, uint64_t seed) const {
  if (total_ == 0) return 0;
  const Groups table = groups();
  uint64_t inGroup[kGroups] = {};
  for (uint64_t i = 0; i < draws; ++i) ++inGroup[groupOf(table, drawn(table, i, seed))];
  double count = 0;
  uint32_t group = kGroups;
  while (group-- > 0) {
    if (inGroup[group] == 0) continue;
    if (count + static_cast<double>(inGroup[group]) >= entries) break;
    count += static_cast<double>(inGroup[group]);
  }
  if (group >= kGroups) return 0;
  uint64_t inBin[kGroup] = {};
  for (uint64_t i = 0; i < draws; ++i) {
    const uint64_t at = drawn(table, i, seed);
    if (groupOf(table, at) == group) ++inBin[binOf(table, group, at) - group * kGroup];
  }
  for (uint32_t bin = kGroup; bin-- > 0;) {
    if (inBin[bin] == 0 || group + bin == 0) continue;
    const auto here = static_cast<double>(inBin[bin]);
    if (count + here >= entries) return reachedIn(group * kGroup + bin, (entries - count) / here);
    count += here;
  }
  return 0;
}

}  // namespace sparsecoll
