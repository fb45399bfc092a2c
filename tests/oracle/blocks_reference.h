// SparDL and gTop-k as their papers' pseudo-code has them: dense vectors S, O and D on every rank, all ranks in one
// loop. For whole numbers, so that every sum is exact.
#pragma once

#include <cstdint>
#include <vector>

namespace sparsecoll::test {

using Vector = std::vector<double>;
using Vectors = std::vector<Vector>;  // by rank

struct StepResult {
  Vector sum;
  Vectors residuals;
  uint64_t messages = 0;  // that a rank sends at most
};

// Indices of the `count` largest magnitudes of x in [begin, end), ties to the lowest; in order.
std::vector<uint64_t> largestIn(const Vector& x, uint64_t begin, uint64_t end, uint64_t count);

struct SparDLReference {
  uint64_t n, ranks, teams;
  double density;
  bool recursive;
  bool freezes = false;
  struct Share {
    double entries = 0, step = 0;
    bool confirmed = false, made = false;
  };
  std::vector<Share> shares = {};  // by position

  uint64_t positions() const { return ranks / teams; }
  uint64_t blockBegin(uint64_t block) const;
  uint64_t wanted(uint64_t block) const;  // entries of a block
  StepResult step(const Vectors& acc);

 private:
  void adapt(Share& share, double merged, double most) const;
};

// forgets: entries dropped on the way are not given back.
StepResult gTopKReference(const Vectors& acc, uint64_t k, bool forgets, uint64_t& lost);

}  // namespace sparsecoll::test
