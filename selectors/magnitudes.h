// What a histogram of sampled magnitudes tells: counts, quantiles and moments. Inside a bin, 1/32 of an octave or 3 %
// of its magnitude, entries count as evenly spread.
#pragma once

#include <cstdint>

#include "core/control.h"

namespace sparsecoll {

class Magnitudes {
 public:
  // The finite entries of the control block's sample.
  explicit Magnitudes(const Control& control) : Magnitudes(control.histogram) {}

  double total() const { return total_; }  // sampled entries, zeros included
  double nonZeros() const { return total_ - static_cast<double>(counts_[0]); }
  double largest() const;  // upper end of the highest bin with entries; 0: there are none

  // Sampled entries of at least this magnitude.
  double above(double magnitude) const;
  // The magnitude that this many sampled entries reach; 0 where not so many differ from 0.
  double quantile(double entries) const;

  struct Moments {
    double count = 0;
    double mean = 0;
    double variance = 0;  // unbiased
  };
  // Of what entries of at least this magnitude have more than it; of all entries for 0.
  Moments excess(double magnitude) const;
  // Of entries other than 0.
  double meanLn() const;
  // Mean of so many entries drawn at random, with replacement.
  double meanOfDraws(uint64_t draws, uint64_t seed) const;
  // The magnitude that this many of so many drawn entries reach.
  double quantileOfDraws(uint64_t draws, double entries, uint64_t seed) const;

 private:
  explicit Magnitudes(const uint32_t* counts);
  template <class Do>
  void draw(uint64_t draws, uint64_t seed, Do withBin) const;

  const uint32_t* counts_;
  double total_ = 0;
  uint32_t first_ = 1;  // bins from first_ to below end_ may have entries, and bin 0 has the zeros
  uint32_t end_ = 1;
};

}  // namespace sparsecoll
