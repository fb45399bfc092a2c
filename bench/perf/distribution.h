// What gradients look like: the magnitudes of a distribution, or the bytes of a file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bench {

class Distribution {
 public:
  // normal, laplace, powerlaw:EXPONENT, file:PATH (raw 32-bit floats). Throws UsageError, EnvironmentError.
  explicit Distribution(const std::string& text);

  // Entry i of all that there is: of an endless stream of random numbers, or of the file, from its start again at its
  // end.
  double at(uint64_t seed, uint64_t i) const;
  // Entries differ in more than noise: where in the vector they are matters.
  bool hasPlaces() const { return !file_.empty(); }

 private:
  void tabulate();
  void readFile(const std::string& path);
  double magnitude(uint64_t random) const;

  std::function<double(double)> exceeded_;  // the magnitude that is exceeded with this probability
  std::vector<double> table_;               // of it, at equal steps from probability 1 down
  std::vector<float> file_;
};

}  // namespace bench
