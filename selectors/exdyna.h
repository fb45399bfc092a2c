// ExDyna's parts (Yoon and Oh, CCGrid 2024, arXiv:2402.13781), as functions of plain arrays.
#pragma once

#include <cstdint>
#include <span>

#include "core/crew.h"
#include "selectors/ladder.h"

namespace sparsecoll {

// Fine-grained blocks: 1024 of them, of a multiple of 32 elements; the last partition also has the rest. Vectors too
// short for that have blocks of what 1024 of them come to, and where that is less than an element, of one.
struct Blocks {
  uint64_t length;
  uint32_t count;
};
Blocks blocksFor(uint64_t n);

struct ExDynaState {
  LadderState ladder;
  Blocks blocks;
  uint32_t* starts;  // first block of each partition, and their end
  double* loads;     // a rank
  uint32_t* counts;  // entries of the last sum in each block
};

// Partition p is blocks starts[p] to starts[p + 1].
SC_BOTH void firstPartitions(uint32_t blocks, std::span<uint32_t> starts);

// One step of neighbours: where a partition has more than 1.05 times the mean and the next less than 1 / 1.05 times, or
// the other way round, the border between them moves by one block. loads: entries by partition; changed as if they had
// moved along.
SC_BOTH void moveBorders(uint32_t blocks, double entriesPerBlock, std::span<double> loads, std::span<uint32_t> starts);

// Borders that give every partition about the same share of the counts; each has at least `least` blocks.
SC_BOTH void cutEvenly(std::span<const uint32_t> counts, uint32_t least, std::span<uint32_t> starts, const Crew& crew);

}  // namespace sparsecoll
