#include <algorithm>
#include <cmath>

#include "core/partition.h"
#include "core/search.h"
#include "selectors/exdyna.h"
#include "selectors/ladder.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

constexpr double kHigh = 1.05;
constexpr double kLow = 1 / 1.05;

SC_BOTH ExDynaState& exDynaState(Control& control) { return control.selector.as<ExDynaState>(); }
SC_BOTH std::span<uint32_t> startsOf(Control& control) { return {exDynaState(control).starts, control.ranks + 1u}; }

SC_BOTH uint32_t turnOf(const Control& control, uint64_t iteration, uint32_t rank) {
  return static_cast<uint32_t>((iteration % control.ranks + rank) % control.ranks);
}

SC_BOTH void takeExDynaTurn(Control& control) {
  Window& window = control.windows[0];
  const std::span<uint32_t> starts = startsOf(control);
  const Blocks& blocks = exDynaState(control).blocks;
  if (starts.back() == 0) firstPartitions(blocks.count, starts);
  const uint32_t part = turnOf(control, control.iteration, control.rank);
  window.begin = std::min(control.n, starts[part] * blocks.length);
  window.end = part + 1 == control.ranks ? control.n : std::min(control.n, starts[part + 1] * blocks.length);
}

SC_BOTH void beforeExDyna(Control& control, const Crew& crew) {
  crew.alone([&] { takeExDynaTurn(control); });
  climbLadder(control, crew);
}

SC_BOTH void beforeFaithfulExDyna(Control& control) {
  takeExDynaTurn(control);
  startFaithful(control);
}

SC_BOTH void after(Control& control, const Crew& crew) {
  crew.alone([&] { noteThreshold(control); });
  const uint32_t blocks = exDynaState(control).blocks.count;
  cutEvenly({exDynaState(control).counts, blocks}, blocks / (4 * control.ranks), startsOf(control), crew);
}

SC_BOTH void afterFaithful(Control& control) {
  if (control.delivered != 0) {
    const Blocks& blocks = exDynaState(control).blocks;
    double* const loads = exDynaState(control).loads;
    for (uint32_t r = 0; r < control.ranks; ++r) loads[turnOf(control, control.iteration, r)] = control.facts[r].count;
    const double density = static_cast<double>(control.delivered) / static_cast<double>(control.n);
    moveBorders(blocks.count, std::floor(static_cast<double>(blocks.length) * density), {loads, control.ranks},
                startsOf(control));
  }
  moveFaithful(control);
}

}  // namespace

constinit const Rule kExDynaBefore = ruleOf<beforeExDyna>("exdyna-before");
constinit const Rule kExDynaAfter = ruleOf<after>("exdyna-after");
constinit const Rule kExDynaBeforeFaithful = ruleOf<beforeFaithfulExDyna>("exdyna-faithful-before");
constinit const Rule kExDynaAfterFaithful = ruleOf<afterFaithful>("exdyna-faithful-after");

SC_BOTH void firstPartitions(uint32_t blocks, std::span<uint32_t> starts) {
  const auto parts = static_cast<uint32_t>(starts.size() - 1);
  for (uint32_t p = 0; p < parts; ++p) starts[p] = static_cast<uint32_t>(evenPart(blocks, parts, p).begin);
  starts[parts] = blocks;
}

SC_BOTH void moveBorders(uint32_t blocks, double entriesPerBlock, std::span<double> loads, std::span<uint32_t> starts) {
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

SC_BOTH void cutEvenly(std::span<const uint32_t> counts, uint32_t least, std::span<uint32_t> starts, const Crew& crew) {
  const auto parts = static_cast<uint32_t>(starts.size() - 1);
  const auto blocks = static_cast<uint32_t>(counts.size());
  // Blocks by the group: what the groups before it have.
  const uint32_t each = blocks / kCrewTable + 1;
  uint64_t* const before = crew.memory().tables[0];
  uint64_t* const ofGroup = crew.memory().tables[1];
  crew.each(kCrewTable, [&](uint64_t group) {
    uint64_t sum = 0;
    for (uint64_t b = group * each; b < std::min<uint64_t>((group + 1) * each, blocks); ++b) sum += counts[b];
    ofGroup[group] = sum;
  });
  crew.each(kCrewTable, [&](uint64_t group) {
    uint64_t sum = 0;
    for (uint64_t g = 0; g < group; ++g) sum += ofGroup[g];
    before[group] = sum;
  });
  const uint64_t total = before[kCrewTable - 1] + ofGroup[kCrewTable - 1];
  if (total == 0) return;
  crew.each(parts, [&](uint64_t p) {
    const uint64_t goal = total * p / parts;
    const uint32_t group = firstWhere(0, kCrewTable, [&](uint32_t g) { return before[g] > goal; }) - 1;
    uint64_t passed = before[group];
    uint32_t block = group * each;
    // A block goes to the side on which more of it lies.
    while (block < blocks && passed + (counts[block] + 1) / 2 <= goal) passed += counts[block++];
    starts[p] = block;
  });
  crew.alone([&] {
    starts[0] = 0;
    for (uint32_t p = 1; p < parts; ++p) {
      const uint32_t first = starts[p - 1] + least;
      const uint32_t last = blocks - (parts - p) * least;
      starts[p] = std::clamp(starts[p], std::min(first, last), last);
    }
    starts[parts] = blocks;
  });
}

}  // namespace sparsecoll
