// What the rules of swept.h read off acc. Entries that are not finite count nowhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/crew_list_rule.h"
#include "core/math.h"
#include "core/numeric.h"

namespace sparsecoll {

// Every member of a crew has one, and calls its functions together with the others.
template <class A>
class Sweeps {
 public:
  SC_BOTH Sweeps(const A* acc, uint64_t begin, uint64_t end, const Crew& crew)
      : acc_(acc), begin_(begin), end_(end), crew_(crew) {}

  SC_BOTH double length() const { return static_cast<double>(end_ - begin_); }
  // -1: not finite.
  SC_BOTH double magnitude(uint64_t i) const {
    const auto value = static_cast<double>(acc_[i]);
    return isFinite(value) ? std::abs(value) : -1;
  }

  SC_BOTH uint64_t above(double least) const {
    return crew_.sum<uint64_t>(begin_, end_, [&](uint64_t i) { return magnitude(i) > least ? uint64_t{1} : 0; });
  }
  SC_BOTH uint64_t reaching(double least) const {
    return crew_.sum<uint64_t>(begin_, end_, [&](uint64_t i) { return magnitude(i) >= least ? uint64_t{1} : 0; });
  }

  SC_BOTH double largest() const {
    struct Largest {
      double value = 0;
      SC_BOTH void operator+=(const Largest& other) { value = largerOf(value, other.value); }
    };
    return crew_.sum<Largest>(begin_, end_, [&](uint64_t i) { return Largest{magnitude(i)}; }).value;
  }
  // Infinity: none exceeds it.
  SC_BOTH double smallestAbove(double least) const {
    struct Smallest {
      double value = std::numeric_limits<double>::infinity();
      SC_BOTH void operator+=(const Smallest& other) { value = other.value < value ? other.value : value; }
    };
    const auto smallest = crew_.sum<Smallest>(begin_, end_, [&](uint64_t i) {
      const double here = magnitude(i);
      return here > least ? Smallest{here} : Smallest{};
    });
    return smallest.value;
  }

  struct Moments {
    double count = 0;
    double mean = 0;
    double variance = 0;  // unbiased
    double meanSquare = 0;
  };
  // Of what the entries above a magnitude have more than `from`; least = -1: of all.
  SC_BOTH Moments excess(double least, double from) const {
    return momentsOf(least, [&](uint64_t i) { return magnitude(i) - from; });
  }
  // Of all entries, with their signs.
  SC_BOTH Moments ofValues() const {
    return momentsOf(-1, [&](uint64_t i) { return static_cast<double>(acc_[i]); });
  }
  // term(i) is added up for all entries.
  template <class Term>
  SC_BOTH double sum(const Term& term) const {
    return crew_.sum<double>(begin_, end_, [&](uint64_t i) { return magnitude(i) >= 0 ? term(i) : 0.0; });
  }

 private:
  template <class Number>
  SC_BOTH Moments momentsOf(double least, const Number& number) const {
    struct Sums {
      double count, sum, squares;
      SC_BOTH void operator+=(const Sums& other) {
        count += other.count;
        sum += other.sum;
        squares += other.squares;
      }
    };
    const auto sums = crew_.sum<Sums>(begin_, end_, [&](uint64_t i) -> Sums {
      const double here = magnitude(i);
      if (here < 0 || !(here > least)) return {};
      const double x = number(i);
      return {1, x, x * x};
    });
    Moments moments;
    moments.count = sums.count;
    if (sums.count == 0) return moments;
    moments.mean = sums.sum / sums.count;
    moments.meanSquare = sums.squares / sums.count;
    if (sums.count > 1) moments.variance = largerOf(0, sums.squares - moments.mean * sums.sum) / (sums.count - 1);
    return moments;
  }

  const A* acc_;
  uint64_t begin_, end_;
  Crew crew_;
};

// work(Sweeps) over the whole vector.
template <class Work>
SC_BOTH void withSweeps(const ListRuleArgs& args, const Crew& crew, const Work& work) {
  const Control& control = *args.control;
  if (control.isDouble != 0)
    work(Sweeps<double>(static_cast<const double*>(args.acc), 0, control.n, crew));
  else
    work(Sweeps<float>(static_cast<const float*>(args.acc), 0, control.n, crew));
}

// The window keeps so many entries; not an exact number of them is wanted, so more than its room is an overflow.
inline SC_BOTH void keepCounted(Control& control, Window& window, uint64_t count) {
  window.limit = control.k != 0 ? std::min(count, window.room) : 0;
  if (control.k != 0 && count > window.room) ++control.overflows;
}

// A threshold that is no magnitude, as of a mean below 0, has been counted with, but is none to be told or saved.
inline SC_BOTH void keepCounted(Control& control, const Crew& crew, double threshold, uint64_t count) {
  crew.alone([&] {
    control.threshold = isFinite(threshold) && threshold > 0 ? threshold : 0;
    keepCounted(control, control.windows[0], count);
  });
}

}  // namespace sparsecoll
