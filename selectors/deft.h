// DEFT's parts (Yoon and Oh, ICPP 2023, arXiv:2307.03500), as functions of plain arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/crew.h"

namespace sparsecoll {

// Tables with a place a fragment; loads: a rank.
struct DeftState {
  uint64_t* lengths;
  uint64_t* entries;
  uint32_t* order;
  uint32_t* bins;
  double* norms;
  double* costs;
  double* loads;
  double* announced;  // a row of norms a rank, as it told them
};

// Which rule: the default, or what the authors' program does, to the last digit of its arithmetic.
enum class DeftRule { kDefault, kPublished };

// Ends of the fragments: tensors, and where one has more than n / ranks elements, `ranks` near-equal pieces of it, the
// first ones an element longer.
std::vector<uint64_t> fragmentEnds(std::span<const uint64_t> lengths, uint64_t ranks);

// Entries per fragment in proportion to the norms: in order of falling norm (ties: the higher fragment first, which is
// what the published sort does) each takes its share of what is left, at least 1 and at most all of it. entries and
// order have a place a fragment. The default multiplies by the norm before it divides, the published rule afterwards: a
// share that is a whole number in theory comes out of the two on different sides of it.
SC_BOTH void assignEntries(std::span<const double> norms, std::span<const uint64_t> lengths, uint64_t k,
                           std::span<uint64_t> entries, std::span<uint32_t> order, const Crew& crew,
                           DeftRule rule = DeftRule::kDefault);

// Rounding and the least of 1 leave the sum a little off k: brings it to k, or to the number of fragments where that is
// larger. order: as assignEntries left it.
SC_BOTH void evenOut(std::span<const uint64_t> lengths, uint64_t k, std::span<uint64_t> entries,
                     std::span<const uint32_t> order, const Crew& crew);

// The logarithm to base 2 of x > 0, exact for powers of two and else within one rounding, from whole numbers: fragments
// cost the same here where they cost the same in a program that uses a libm.
SC_BOTH double log2Of(uint64_t x);

// Longest processing time first: fragments by falling cost length * log2(entries) (ties: the lower one first), each
// into the bin with the least load (ties: the lower one). bins gets the fragment's bin, loads the bins' loads.
// Published: a fragment of which every entry travels needs no selection. It adds no load, and its place in bins is a
// bin
// + loads.size(), the bins in turn.
SC_BOTH void packBins(std::span<const uint64_t> lengths, std::span<const uint64_t> entries, std::span<uint32_t> bins,
                      std::span<double> loads, std::span<uint32_t> order, std::span<double> costs, const Crew& crew,
                      DeftRule rule = DeftRule::kDefault);

}  // namespace sparsecoll
