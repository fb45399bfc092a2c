// ExDyna: MiCRO's exclusive partitions, but made of small blocks, so that partitions with many entries can give blocks
// to others. The threshold is MiCRO's (shared_threshold.h).
//
// Default: all ranks see all indices of a step, so all count the entries of every block and cut the next step's
// partitions at equal shares of them. Faithful: neighbouring partitions exchange at most one block a step.
#include "selectors/exdyna.h"

#include <algorithm>
#include <cmath>

#include "core/partition.h"
#include "selectors/selectors.h"
#include "selectors/shared_threshold.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kBlocks = 1024;
constexpr uint64_t kAlign = 32;
constexpr double kHigh = 1.05;
constexpr double kLow = 1 / 1.05;
constexpr double kRoom = 1.5;  // messages hold this many times k / P

std::span<uint32_t> startsOf(const Control& control) { return {control.blocks.starts, control.ranks + 1u}; }

uint32_t turnOf(const Control& control, uint64_t iteration, uint32_t rank) {
  return static_cast<uint32_t>((iteration % control.ranks + rank) % control.ranks);
}

void takeTurn(Control& control) {
  Window& window = control.windows[0];
  const std::span<uint32_t> starts = startsOf(control);
  if (starts.back() == 0) firstPartitions(control.blocks.count, starts);
  const uint32_t part = turnOf(control, control.iteration, control.rank);
  window.begin = std::min(control.n, starts[part] * control.blocks.length);
  window.end = part + 1 == control.ranks ? control.n : std::min(control.n, starts[part + 1] * control.blocks.length);
}

void before(Control& control) {
  takeTurn(control);
  climbLadder(control);
}

void beforeFaithful(Control& control) {
  takeTurn(control);
  startFaithful(control);
}

uint32_t leastBlocks(const Control& control) { return control.blocks.count / (4 * control.ranks); }

void after(Control& control) {
  noteThreshold(control);
  cutEvenly({control.blocks.counts, control.blocks.count}, leastBlocks(control), startsOf(control));
}

void afterFaithful(Control& control) {
  if (control.delivered != 0) {
    double* const loads = control.blocks.loads;
    for (uint32_t r = 0; r < control.ranks; ++r) loads[turnOf(control, control.iteration, r)] = control.facts[r].count;
    const double density = static_cast<double>(control.delivered) / static_cast<double>(control.n);
    moveBorders(control.blocks.count, std::floor(static_cast<double>(control.blocks.length) * density),
                {loads, control.ranks}, startsOf(control));
  }
  moveFaithful(control);
}

constexpr Rule kBefore = ruleOf<before>("exdyna-before");
constexpr Rule kAfter = ruleOf<after>("exdyna-after");
constexpr Rule kBeforeFaithful = ruleOf<beforeFaithful>("exdyna-faithful-before");
constexpr Rule kAfterFaithful = ruleOf<afterFaithful>("exdyna-faithful-after");

}  // namespace

Blocks blocksFor(uint64_t n) {
  const uint64_t even = n / kBlocks;
  const uint64_t length = std::max<uint64_t>(1, even >= kAlign ? even - even % kAlign : even);
  return {length, static_cast<uint32_t>(std::min(kBlocks, n / length))};
}

void firstPartitions(uint32_t blocks, std::span<uint32_t> starts) {
  const auto parts = static_cast<uint32_t>(starts.size() - 1);
  for (uint32_t p = 0; p < parts; ++p) starts[p] = static_cast<uint32_t>(evenPart(blocks, parts, p).begin);
  starts[parts] = blocks;
}

void moveBorders(uint32_t blocks, double entriesPerBlock, std::span<double> loads, std::span<uint32_t> starts) {
  const auto parts = static_cast<uint32_t>(loads.size());
  const uint32_t least = blocks / (4 * parts);
  double sum = 0;
  for (const double load : loads) sum += load;
  const double mean = std::floor(sum / parts);
  if (mean == 0) return;
  for (uint32_t p = 0; p + 1 < parts; ++p) {
    const double here = loads[p] / mean;
    const double next = loads[p + 1] / mean;
    const uint32_t hereBlocks = starts[p + 1] - starts[p];
    const uint32_t nextBlocks = starts[p + 2] - starts[p + 1];
    if (here > kHigh && next < kLow && hereBlocks > std::max(least, 1u)) {
      --starts[p + 1];
      loads[p] -= entriesPerBlock;
      loads[p + 1] += entriesPerBlock;
    } else if (here < kLow && next > kHigh && nextBlocks > std::max(least, 1u)) {
      ++starts[p + 1];
      loads[p] += entriesPerBlock;
      loads[p + 1] -= entriesPerBlock;
    }
  }
}

void cutEvenly(std::span<const uint32_t> counts, uint32_t least, std::span<uint32_t> starts) {
  const auto parts = static_cast<uint32_t>(starts.size() - 1);
  const auto blocks = static_cast<uint32_t>(counts.size());
  uint64_t total = 0;
  for (const uint32_t count : counts) total += count;
  if (total == 0) return;
  uint64_t passed = 0;
  uint32_t block = 0;
  starts[0] = 0;
  for (uint32_t p = 1; p < parts; ++p) {
    const uint64_t goal = total * p / parts;
    // A block goes to the side on which more of it lies.
    while (block < blocks && passed + (counts[block] + 1) / 2 <= goal) passed += counts[block++];
    const uint32_t first = starts[p - 1] + least;
    const uint32_t last = blocks - (parts - p) * least;
    starts[p] = std::clamp(block, std::min(first, last), last);
  }
  starts[parts] = blocks;
}

Result<SelectionPlan> planExDyna(const SelectionRequest& request) {
  SelectionPlan plan;
  const Blocks blocks = blocksFor(request.n);
  plan.blockLength = blocks.length;
  plan.blocks = blocks.count;
  // A partition may come to hold most of the vector, but not most of the entries that pass.
  const auto ranks = static_cast<uint64_t>(request.ranks);
  const uint64_t even = (request.n + ranks - 1) / ranks;
  planSharedThreshold(request, kRoom, request.faithful ? std::min(request.n, 2 * even) : request.n, plan);
  plan.before = request.faithful ? &kBeforeFaithful : &kBefore;
  plan.afterExchange = request.faithful ? &kAfterFaithful : &kAfter;
  return plan;
}

}  // namespace sparsecoll
