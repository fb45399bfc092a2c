// ExDyna: MiCRO's exclusive partitions, but made of small blocks, so that partitions with many entries can give blocks
// to others. The threshold is MiCRO's (shared_threshold.h).
//
// Default: all ranks see all indices of a step, so all count the entries of every block and cut the next step's
// partitions at equal shares of them. Faithful: neighbouring partitions exchange at most one block a step.
#include "selectors/exdyna.h"

#include <algorithm>

#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/shared_threshold.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kBlocks = 1024;
constexpr uint64_t kAlign = 32;
constexpr double kRoom = 1.5;  // messages hold this many times k / P

}  // namespace

Blocks blocksFor(uint64_t n) {
  const uint64_t even = n / kBlocks;
  const uint64_t length = std::max<uint64_t>(1, even >= kAlign ? even - even % kAlign : even);
  return {length, static_cast<uint32_t>(std::min(kBlocks, n / length))};
}

namespace {

Result<SelectionPlan> planExDyna(const SelectionRequest& request) {
  SelectionPlan plan;
  const Blocks blocks = blocksFor(request.n);
  plan.state.start<ExDynaState>().blocks = blocks;
  plan.state.bounds(&ExDynaState::starts, static_cast<uint64_t>(request.ranks), blocks.count);
  plan.state.table(&ExDynaState::loads, static_cast<uint64_t>(request.ranks));
  plan.blocks = {blocks.length, blocks.count, plan.state.table(&ExDynaState::counts, blocks.count)};
  // A partition may come to hold most of the vector, but not most of the entries that pass.
  const auto ranks = static_cast<uint64_t>(request.ranks);
  const uint64_t even = (request.n + ranks - 1) / ranks;
  planSharedThreshold(request, kRoom, request.faithful() ? std::min(request.n, 2 * even) : request.n, plan);
  plan.before = request.faithful() ? &kExDynaBeforeFaithful : &kExDynaBefore;
  plan.afterExchange = request.faithful() ? &kExDynaAfterFaithful : &kExDynaAfter;
  return plan;
}

constexpr const char* kPaper = "Yoon and Oh 2024 (ExDyna), arXiv:2402.13781";

constexpr PresetRow kPresets[] = {
    {.name = "exdyna",
     .summary = "exclusive partitions of blocks, cut so that all find as much",
     .paper = kPaper,
     .selector = sparsecollSelectExDyna,
     .collective = sparsecollCollIndexUnion},
};

}  // namespace

constinit extern const SelectorRow kExDynaRow = {
    .id = sparsecollSelectExDyna,
    .name = "exdyna",
    .paper = kPaper,
    .plan = planExDyna,
    .collective = sparsecollCollIndexUnion,
    .densityIsGlobal = true,
    .bound = {1, 40},
    .faithfulBound = {12, 40},
    .presets = kPresets,
};

}  // namespace sparsecoll
