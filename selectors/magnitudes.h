// What a histogram of sampled magnitudes tells: counts, quantiles and moments. Inside a bin, 1/32 of an octave or 3 %
// of its magnitude, entries count as evenly spread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/control.h"
#include "core/crew.h"
#include "core/math.h"
#include "core/search.h"

namespace sparsecoll {

// The least threshold: every entry but 0 reaches it, so fewer of them than k are all sent.
constexpr double kLeastMagnitude = 5e-324;
// A quantile that counts zeros, and a fit at density 1, give 0. All entries but zeros pass that, too.
inline SC_BOTH double reachable(double threshold) { return threshold == 0 ? kLeastMagnitude : threshold; }

// Every member of a crew has one, and calls its functions together with the others.
class Magnitudes {
 public:
  // The finite entries of the control block's sample. Two of these need crews with memories of their own.
  SC_BOTH Magnitudes(const Control& control, const Crew& crew);

  SC_BOTH double total() const { return static_cast<double>(all_); }  // sampled entries, zeros included
  SC_BOTH double nonZeros() const { return static_cast<double>(all_ - counts_[0]); }
  // Upper end of the highest bin with entries; 0: there are none.
  SC_BOTH double largest() const;

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

 private:
  // Bins by the group, so that an entry is found in two short walks.
  static constexpr uint32_t kGroup = 96;
  static constexpr uint32_t kGroups = kFiniteBins / kGroup;
  static_assert(kGroups * kGroup == kFiniteBins && kGroups <= kCrewTable && kGroup <= kCrewTable);

  SC_BOTH static double lowerEnd(uint32_t bin) {
    return bin < kFiniteBins ? static_cast<double>(std::bit_cast<float>(bin << 18)) : 0x1p128;
  }
  SC_BOTH static uint32_t binOf(double magnitude);
  SC_BOTH static double shareAbove(uint32_t bin, double magnitude);
  SC_BOTH static double reachedIn(uint32_t bin, double share);

  // Of the crew's memory: entries in each group and those below it; entries in each group.
  SC_BOTH const uint64_t* upTo() const { return crew_.memory().tables[0]; }
  SC_BOTH std::span<uint64_t> byGroup() const { return {crew_.memory().tables[1], kGroups}; }

  SC_BOTH uint64_t below(uint32_t group) const { return group != 0 ? upTo()[group - 1] : 0; }
  SC_BOTH uint32_t highestBins() const;  // the end of the highest group with entries

  const uint32_t* counts_;
  Crew crew_;
  uint64_t all_;
};

inline SC_BOTH Magnitudes::Magnitudes(const Control& control, const Crew& crew)
    : counts_(control.histogram), crew_(crew) {
  const std::span<uint64_t> ofGroup = byGroup();
  crew_.each(kGroups, [&](uint64_t group) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < kGroup; ++i) count += counts_[group * kGroup + i];
    ofGroup[group] = count;
  });
  uint64_t* const table = crew_.memory().tables[0];
  crew_.each(kGroups, [&](uint64_t group) {
    uint64_t count = 0;
    for (uint64_t g = 0; g <= group; ++g) count += ofGroup[g];
    table[group] = count;
  });
  all_ = table[kGroups - 1];
}

inline SC_BOTH uint32_t Magnitudes::highestBins() const {
  return (firstWhere(0, kGroups, [&](uint32_t group) { return upTo()[group] >= all_; }) + 1) * kGroup;
}

inline SC_BOTH double Magnitudes::largest() const {
  uint32_t end = highestBins();
  while (end > 1 && counts_[end - 1] == 0) --end;
  return end > 1 ? lowerEnd(end) : 0;
}

// The bin in which the magnitude lies, which is not negative; past all bins for what is too large for one, or no
// number.
inline SC_BOTH uint32_t Magnitudes::binOf(double magnitude) {
  if (!(magnitude < lowerEnd(kFiniteBins))) return kFiniteBins;
  const uint32_t bin = std::bit_cast<uint32_t>(static_cast<float>(magnitude)) >> 18;
  return lowerEnd(bin) > magnitude ? bin - 1 : bin;  // the float may have been rounded up
}

// The share of a bin from magnitude on.
inline SC_BOTH double Magnitudes::shareAbove(uint32_t bin, double magnitude) {
  const double low = lowerEnd(bin);
  const double high = lowerEnd(bin + 1);
  return magnitude > low ? (high - magnitude) / (high - low) : 1;
}

// Whole bins are counted, of the one in which the magnitude lies a share; bin 0 has zeros alone.
inline SC_BOTH double Magnitudes::above(double magnitude) const {
  if (magnitude <= 0) return total();
  const uint32_t bin = binOf(magnitude);
  if (bin >= kFiniteBins) return 0;
  const uint32_t group = bin / kGroup;
  uint64_t whole = all_ - upTo()[group];
  for (uint32_t above = bin + 1; above < (group + 1) * kGroup; ++above) whole += counts_[above];
  const double share = bin != 0 ? shareAbove(bin, magnitude) * counts_[bin] : 0;
  return static_cast<double>(whole) + share;
}

// The magnitude that this share of a bin's entries reach.
inline SC_BOTH double Magnitudes::reachedIn(uint32_t bin, double share) {
  return lowerEnd(bin + 1) - share * (lowerEnd(bin + 1) - lowerEnd(bin));
}

inline SC_BOTH double Magnitudes::quantile(double entries) const {
  uint32_t group = kGroups - 1;
  while (group > 0 && (upTo()[group] == below(group) || static_cast<double>(all_ - below(group)) < entries)) --group;
  auto count = static_cast<double>(all_ - upTo()[group]);
  for (uint32_t bin = (group + 1) * kGroup; bin-- > std::max(group * kGroup, 1u);) {
    if (counts_[bin] == 0) continue;
    if (count + counts_[bin] >= entries) return reachedIn(bin, (entries - count) / counts_[bin]);
    count += counts_[bin];
  }
  return 0;
}

inline SC_BOTH Magnitudes::Moments Magnitudes::excess(double magnitude) const {
  struct Sums {
    double count, sum, squares;
    SC_BOTH void operator+=(const Sums& other) {
      count += other.count;
      sum += other.sum;
      squares += other.squares;
    }
  };
  const uint32_t first = magnitude > 0 ? std::max(binOf(magnitude), 1u) : 1;
  const auto sums = crew_.sum<Sums>(first, highestBins(), [&](uint64_t at) -> Sums {
    const auto bin = static_cast<uint32_t>(at);
    if (counts_[bin] == 0) return {};
    const double count = shareAbove(bin, magnitude) * counts_[bin];
    const double low = std::max(lowerEnd(bin), magnitude) - magnitude;
    const double width = lowerEnd(bin + 1) - magnitude - low;
    const double middle = low + width / 2;
    return {count, count * middle, count * (middle * middle + width * width / 12)};
  });
  Moments moments;
  moments.count = magnitude > 0 ? sums.count : sums.count + counts_[0];
  if (moments.count <= 1) return moments;
  moments.mean = sums.sum / moments.count;
  moments.variance = std::max(0.0, sums.squares - moments.mean * sums.sum) / (moments.count - 1);
  return moments;
}

inline SC_BOTH double Magnitudes::meanLn() const {
  const auto sum = crew_.sum<double>(1, highestBins(), [&](uint64_t at) {
    const auto bin = static_cast<uint32_t>(at);
    return counts_[bin] != 0 ? counts_[bin] * lnOf(0.5 * (lowerEnd(bin) + lowerEnd(bin + 1))) : 0;
  });
  return nonZeros() > 0 ? sum / nonZeros() : 0;
}

}  // namespace sparsecoll
