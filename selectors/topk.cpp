// Exact top-k in one streaming pass. The last step's k-th magnitude, lowered a little, is the key of the pass: what
// reaches it becomes a candidate, and the exact cut runs on the candidates. The key changes the cost of a step, never
// its result.
#include <algorithm>

#include "core/partition.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kFirstSpread = 0.04;
// Candidates beyond three times what a unit keeps, for keys that are somewhat too low. One large unit also gets room
// for a useful sample (see host/cut.cpp).
constexpr uint64_t kSpare = 256;
constexpr uint64_t kSpareAlone = 16384;
constexpr uint64_t kSpareInChunk = 128;
constexpr uint64_t kUsualChunk = 4096;

WindowPlan windowFor(Range range, uint64_t limit, uint64_t mostLimit, uint64_t slots, uint64_t infinity) {
  WindowPlan window;
  window.begin = range.begin;
  window.end = range.end;
  window.limit = limit;
  window.room = mostLimit;
  window.slots = slots;
  window.key = limit >= range.length() ? 0 : infinity;
  window.spread = kFirstSpread;
  return window;
}

// What is selected from as one: its elements, and the densities asked for now and at most.
struct Unit {
  Range range;
  double now;
  double most;
};

// Every segment that is selected from is a unit of its own as soon as one of them has a density.
bool hasDensities(const SelectionRequest& request) {
  return request.anyDensity || std::any_of(request.segments.begin(), request.segments.end(),
                                           [](const sparsecollSegment_t& s) { return s.dense == 0 && s.density != 0; });
}

// of: elements that k is spread over.
double densityOf(const SelectionRequest& request, uint64_t of) {
  if (request.k == 0) return request.density;
  return static_cast<double>(std::min(request.k, of)) / static_cast<double>(of);
}

std::vector<Unit> blockUnits(const SelectionRequest& request) {
  const double density = densityOf(request, request.n);
  std::vector<Unit> units;
  for (uint32_t b = 0; b < request.blocks; ++b)
    units.push_back({blockOf(request.n, request.blocks, b), density, std::max(density, request.maxDensity)});
  return units;
}

uint64_t chunkOf(const SelectionRequest& request) {
  return request.params.chunk != 0 ? static_cast<uint64_t>(request.params.chunk) : kUsualChunk;
}

std::vector<Unit> chunkUnits(const SelectionRequest& request) {
  const uint64_t chunk = chunkOf(request);
  const double density = densityOf(request, request.n);
  std::vector<Unit> units;
  for (uint64_t begin = 0; begin < request.n; begin += chunk)
    units.push_back({{begin, std::min(begin + chunk, request.n)}, density, std::max(density, request.maxDensity)});
  return units;
}

std::vector<Unit> segmentUnits(const SelectionRequest& request) {
  const double density = densityOf(request, request.selectable());
  std::vector<Unit> units;
  uint64_t begin = 0;
  for (const sparsecollSegment_t& segment : request.segments) {
    const double now = segment.density != 0 ? segment.density : density;
    const double most = segment.density != 0 ? now : std::max(now, request.maxDensity);
    if (segment.dense == 0) units.push_back({{begin, begin + segment.length}, now, most});
    begin += segment.length;
  }
  return units;
}

// spare: candidates of a unit beyond three times what it keeps; arrivals: lists that may be added to it.
SelectionPlan planUnits(const SelectionRequest& request, const std::vector<Unit>& units, uint64_t spare,
                        uint64_t arrivals = 0) {
  const uint64_t infinity = infinityKey(request.accumulateType == sparsecollFloat64);
  SelectionPlan plan;
  plan.afterCut = &kTopKAfterCut;
  for (const Unit& unit : units) {
    const uint64_t limit = request.selectNothing ? 0 : entriesOf(unit.now, unit.range.length());
    const uint64_t most = entriesOf(unit.most, unit.range.length());
    const uint64_t slots = (3 + arrivals) * most + spare;
    plan.windows.push_back(
        windowFor(unit.range, limit, most, arrivals != 0 ? slots : std::min(unit.range.length(), slots), infinity));
    plan.k += limit;
    plan.capacity += most;
  }
  plan.mostEntries = plan.capacity;
  return plan;
}

Result<SelectionPlan> planTopK(const SelectionRequest& request) {
  if (request.blocks != 0) return planUnits(request, blockUnits(request), kSpare, request.arrivals);
  if (hasDensities(request)) return planUnits(request, segmentUnits(request), kSpare);
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.afterCut = &kTopKAfterCut;
  plan.k = wanted.now;
  plan.capacity = plan.mostEntries = wanted.most;
  const uint64_t slots = std::min(request.n, 3 * wanted.most + kSpareAlone);
  plan.windows.push_back(windowFor({0, request.n}, wanted.now, wanted.most, slots,
                                   infinityKey(request.accumulateType == sparsecollFloat64)));
  return plan;
}

// The top entries of every chunk of a fixed length, as DeMo (Peng et al. 2024, arXiv:2411.19870) and SparseLoCo (Sarfi
// et al. 2025, arXiv:2508.15706) send them: indices fit 16 bits inside a chunk, and no part of the vector starves.
Result<SelectionPlan> planChunkTopK(const SelectionRequest& request) {
  SelectionPlan plan = planUnits(request, chunkUnits(request), kSpareInChunk);
  plan.chunks = true;
  return plan;
}

constexpr PresetRow kChunkPresets[] = {
    {.name = "chunk-topk",
     .summary = "exact top-k of every chunk, 16-bit indices inside them",
     .paper = "Peng et al. 2024 (DeMo), arXiv:2411.19870",
     .selector = sparsecollSelectChunkTopK,
     .collective = sparsecollCollAllGather},
};

}  // namespace

constinit extern const SelectorRow kTopKRow = {
    .id = sparsecollSelectTopK,
    .name = "topk",
    .paper = "Shi et al. 2019, arXiv:1911.08772",
    .plan = planTopK,
    .collective = sparsecollCollAllGather,
    .segmentDensities = true,
    .blocks = true,
    .bound = {1, 16},
    .faithfulBound = {1, 16},
};

constinit extern const SelectorRow kChunkTopKRow = {
    .id = sparsecollSelectChunkTopK,
    .name = "chunk_topk",
    .paper = "Peng et al. 2024 (DeMo), arXiv:2411.19870",
    .plan = planChunkTopK,
    .collective = sparsecollCollAllGather,
    .bound = {2, 20},
    .faithfulBound = {2, 20},
    .presets = kChunkPresets,
};

}  // namespace sparsecoll
