// A step in the plain words of sparsecoll.h: all ranks on one thread, entry by entry. Numbers are doubles, rounded to
// the accumulate type after each operation (one double operation rounded to float is the float operation).
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/elements.h"

namespace sparsecoll::test {

struct Method {
  int32_t selector = sparsecollSelectTopK;
  int32_t collective = sparsecollCollAllGather;
  bool faithful = false;
  bool residual = true;  // error feedback
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t ranks = 1;
  uint64_t n = 0;
  uint64_t k = 0;         // Info.k
  uint64_t capacity = 0;  // Info.capacity
  uint64_t survey = 0;    // numbers that every rank tells the others before it selects
  double inputScale = 1;
  double outputScale = 1;
  bool average = false;
  bool overContributors = false;  // averages are over the ranks whose values are in an entry
  double momentum = 0;
  bool nesterov = false;
  bool masks = true;  // velocity is cleared where an entry left the residual
  double clipNorm = 0;
  double decay = 1;
  std::vector<bool> sentDense;  // elements of tensors that are sent dense; empty: none

  bool dense() const { return collective == sparsecollCollDense; }
  bool sendsDense(uint64_t i) const { return !sentDense.empty() && sentDense[i]; }
  bool unites() const { return collective == sparsecollCollIndexUnion; }
};

class Reference {
 public:
  explicit Reference(const Method& method);

  // threshold: the current one of the methods that have one (0: none yet).
  void step(const std::vector<Elements>& gradients, double threshold);

  const std::vector<double>& acc(size_t rank) const { return acc_[rank]; }
  const std::vector<double>& residual(size_t rank) const { return residual_[rank]; }
  // What the step added to the faded residual: the scaled and clipped gradient, through the velocity if there is one.
  const std::vector<double>& input(size_t rank) const { return input_[rank]; }
  const std::vector<uint64_t>& sent(size_t rank) const { return sent_[rank]; }  // increasing indices
  const std::vector<double>& sum() const { return sum_; }                       // before op and outputScale
  const std::vector<bool>& touched() const { return touched_; }                 // indices that somebody sent
  double finished(uint64_t i) const;                                            // in the accumulate type
  bool overflowed(size_t rank) const { return overflowed_[rank]; }  // more passed the threshold than a message holds
  // Bytes that a rank sends in this step, by the schedule of its collective.
  uint64_t bytesSent(size_t rank) const;

  double round(double x) const { return roundTo(accumulateType(method_.type), x); }

 private:
  void accumulate(size_t rank, const Elements& gradient);
  double clippedScale(const Elements& gradient) const;
  double fma(double a, double b, double c) const;
  std::vector<uint64_t> selectFromRest(size_t rank, double threshold);
  std::vector<uint64_t> select(size_t rank, double threshold);
  std::vector<uint64_t> selectMicro(size_t rank, double threshold);
  // The entries of [begin, end) with the largest magnitudes, at most count of them and none below least.
  std::vector<uint64_t> largest(size_t rank, uint64_t begin, uint64_t end, uint64_t count, double least);

  Method method_;
  uint64_t iteration_ = 0;
  std::vector<bool> overflowed_;
  std::vector<std::vector<double>> acc_, residual_, velocity_, input_;
  std::vector<std::vector<uint64_t>> sent_;
  std::vector<double> sum_;
  std::vector<bool> touched_;
};

}  // namespace sparsecoll::test
