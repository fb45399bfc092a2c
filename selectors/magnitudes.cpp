#include "selectors/magnitudes.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/math.h"
#include "core/random.h"

namespace sparsecoll {

namespace {

double lowerEnd(uint32_t bin) { return static_cast<double>(std::bit_cast<float>(bin << 18)); }

// The share of a bin from magnitude on.
double shareAbove(uint32_t bin, double magnitude) {
  const double low = lowerEnd(bin);
  const double high = lowerEnd(bin + 1);
  return std::clamp((high - magnitude) / (high - low), 0.0, 1.0);
}

}  // namespace

Magnitudes::Magnitudes(const uint32_t* counts) : counts_(counts) {
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

double Magnitudes::largest() const { return end_ > first_ ? lowerEnd(end_) : 0; }

double Magnitudes::above(double magnitude) const {
  if (magnitude <= 0) return total_;
  double count = 0;
  for (uint32_t bin = end_; bin-- > first_;) {
    const double share = shareAbove(bin, magnitude);
    if (share == 0) break;
    count += share * counts_[bin];
  }
  return count;
}

double Magnitudes::quantile(double entries) const {
  double count = 0;
  for (uint32_t bin = end_; bin-- > first_;) {
    if (counts_[bin] == 0) continue;
    if (count + counts_[bin] >= entries) {
      const double share = (entries - count) / counts_[bin];
      return lowerEnd(bin + 1) - share * (lowerEnd(bin + 1) - lowerEnd(bin));
    }
    count += counts_[bin];
  }
  return 0;
}

Magnitudes::Moments Magnitudes::excess(double magnitude) const {
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

double Magnitudes::meanLn() const {
  double sum = 0;
  for (uint32_t bin = first_; bin < end_; ++bin)
    if (counts_[bin] != 0) sum += counts_[bin] * lnOf(0.5 * (lowerEnd(bin) + lowerEnd(bin + 1)));
  return nonZeros() > 0 ? sum / nonZeros() : 0;
}

template <class Do>
void Magnitudes::draw(uint64_t draws, uint64_t seed, Do withBin) const {
  std::array<uint64_t, kFiniteBins> upTo;  // entries in this bin and those below it
  uint64_t count = 0;
  for (uint32_t bin = 0; bin < kFiniteBins; ++bin) upTo[bin] = count += counts_[bin];
  for (uint64_t i = 0; i < draws; ++i) {
    const uint64_t at = mixBits(seed + i) % count;
    withBin(static_cast<uint32_t>(std::upper_bound(upTo.begin(), upTo.end(), at) - upTo.begin()));
  }
}

double Magnitudes::meanOfDraws(uint64_t draws, uint64_t seed) const {
  if (total_ == 0) return 0;
  double sum = 0;
  draw(draws, seed, [&sum](uint32_t bin) {
    if (bin != 0) sum += 0.5 * (lowerEnd(bin) + lowerEnd(bin + 1));
  });
  return sum / static_cast<double>(draws);
}

double Magnitudes::quantileOfDraws(uint64_t draws, double entries, uint64_t seed) const {
  if (total_ == 0) return 0;
  std::array<uint32_t, kFiniteBins> drawn{};
  draw(draws, seed, [&drawn](uint32_t bin) { ++drawn[bin]; });
  return Magnitudes(drawn.data()).quantile(entries);
}

}  // namespace sparsecoll
