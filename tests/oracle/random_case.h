// One random case of the oracle: everything follows from its seed.
#pragma once

#include <string>
#include <vector>

#include "tests/support/elements.h"

namespace sparsecoll::test {

enum class Numbers { kIntegers, kBell, kSpikes, kWide };

struct RandomCase {
  explicit RandomCase(uint64_t caseSeed);

  uint64_t seed;
  std::string preset;
  bool faithful = false;
  int ranks = 1;
  uint64_t n = 1;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollParams_t params{};
  double maxDensity = 0;
  std::vector<sparsecollSegment_t> segments;  // some of which are sent dense; or none
  bool transactional = false;
  bool inPlace = false;
  bool sparseOut = false;
  int steps = 1;
  Numbers numbers = Numbers::kIntegers;

  uint64_t sentDense() const;  // elements
  std::vector<bool> isSentDense() const;
  bool has(uint32_t flag) const { return (params.flags & flag) != 0; }
  Elements gradient(int rank, int step) const;
  Elements firstOut(int rank) const;  // what lies in out before the first step
  std::string text() const;

 private:
  void drawMethod(Random& random);
  void drawDensity(Random& random);
  void drawForm(Random& random);
  void drawShape(Random& random);
  void drawSegments(Random& random);
};

}  // namespace sparsecoll::test
