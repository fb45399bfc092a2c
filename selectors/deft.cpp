// DEFT: the vector is cut into fragments; every rank selects the largest entries of its own fragments only, as many as
// the fragments' norms call for. Fragments are packed into one bin a rank by their cost, and bins rotate.
//
// Default: the ranks gather the norms of all fragments and use their sum, so that every rank computes the same entries
// and the same bins; nobody waits for a leader, and the entries add up to k. Faithful: rank t mod P's norms decide the
// bins of step t, and each rank takes as many entries as its own norms say.
#include "selectors/deft.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/math.h"
#include "core/numeric.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

double costOf(uint64_t length, uint64_t entries) {
  const auto size = static_cast<double>(length);
  return entries > 1 ? size * lnOf(static_cast<double>(entries)) / lnOf(2.0) : size;
}

// The control block's tables, a place a fragment.
struct Tables {
  std::span<uint64_t> lengths, entries;
  std::span<uint32_t> order, bins;
  std::span<double> norms, costs, loads;
};

Tables tablesOf(Control& control) {
  const size_t f = control.windowCount;
  const FragmentTables& at = control.fragments;
  return {{at.lengths, f}, {at.entries, f},          {at.order, f}, {at.bins, f}, {at.norms, f},
          {at.costs, f},   {at.loads, control.ranks}};
}

void assignFrom(Control& control, const Tables& tables) {
  assignEntries(tables.norms, tables.lengths, control.k, tables.entries, tables.order);
}

// A norm as a rank told it. What is none counts as 0: the fragment gets the least.
double toldNorm(const Control& control, uint64_t rank, size_t fragment) {
  const double norm = control.survey[rank * control.windowCount + fragment];
  return isFinite(norm) && norm > 0 ? norm : 0;
}

// This rank's bin becomes the windows that are selected from.
void takeBin(Control& control, const Tables& tables) {
  const uint32_t mine = static_cast<uint32_t>((control.iteration % control.ranks + control.rank) % control.ranks);
  for (uint32_t f = 0; f < control.windowCount; ++f) {
    Window& window = control.windows[f];
    window.limit = tables.bins[f] == mine && control.k != 0 ? std::min(tables.entries[f], window.room) : 0;
  }
}

void pack(const Tables& tables) {
  packBins(tables.lengths, tables.entries, tables.bins, tables.loads, tables.order, tables.costs);
}

void share(Control& control) {
  const Tables tables = tablesOf(control);
  std::fill(tables.norms.begin(), tables.norms.end(), 0.0);
  for (uint64_t r = 0; r < control.ranks; ++r)
    for (size_t f = 0; f < tables.norms.size(); ++f) tables.norms[f] += toldNorm(control, r, f);
  assignFrom(control, tables);
  evenOut(tables.lengths, control.k, tables.entries, tables.order);
  pack(tables);
  takeBin(control, tables);
}

void shareAsPublished(Control& control) {
  const Tables tables = tablesOf(control);
  const auto take = [&](uint64_t rank) {
    for (size_t f = 0; f < tables.norms.size(); ++f) tables.norms[f] = toldNorm(control, rank, f);
    assignFrom(control, tables);
  };
  take(control.iteration % control.ranks);
  pack(tables);
  take(control.rank);
  takeBin(control, tables);
}

constexpr Rule kShare = ruleOf<share>("deft-share");
constexpr Rule kShareAsPublished = ruleOf<shareAsPublished>("deft-faithful-share");

}  // namespace

std::vector<uint64_t> fragmentEnds(std::span<const uint64_t> lengths, uint64_t ranks) {
  const uint64_t n = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  std::vector<uint64_t> ends;
  uint64_t begin = 0;
  for (const uint64_t length : lengths) {
    const bool cut = static_cast<double>(length) > static_cast<double>(n) / static_cast<double>(ranks);
    const uint64_t pieces = cut ? std::min(ranks, length) : 1;
    for (uint64_t p = 0; p < pieces; ++p) {
      begin += length / pieces + (p < length % pieces ? 1 : 0);
      ends.push_back(begin);
    }
  }
  return ends;
}

void assignEntries(std::span<const double> norms, std::span<const uint64_t> lengths, uint64_t k,
                   std::span<uint64_t> entries, std::span<uint32_t> order) {
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return norms[a] != norms[b] ? norms[a] > norms[b] : a > b; });
  auto left = static_cast<double>(k);
  double normLeft = 0;
  for (const double norm : norms) normLeft += norm;
  for (const uint32_t f : order) {
    const double wanted = normLeft > 0 ? std::trunc(left * norms[f] / normLeft) : 0;
    const auto length = static_cast<double>(lengths[f]);
    // A norm that is not finite makes the share NaN; such a fragment gets the least.
    // Nor may it take more than is left, as a sum of norms that has lost its digits would have it.
    const double share = std::min(wanted, std::max(left, 1.0));
    const double taken = length < share ? length : share >= 1 ? share : 1;
    entries[f] = static_cast<uint64_t>(taken);
    left -= taken;
    normLeft -= norms[f];
  }
}

void evenOut(std::span<const uint64_t> lengths, uint64_t k, std::span<uint64_t> entries,
             std::span<const uint32_t> order) {
  uint64_t sum = std::accumulate(entries.begin(), entries.end(), uint64_t{0});
  while (sum != k) {
    const bool grows = sum < k;
    const auto spare = [&](uint32_t f) { return grows ? lengths[f] - entries[f] : entries[f] - 1; };
    const auto open =
        static_cast<uint64_t>(std::count_if(order.begin(), order.end(), [&](uint32_t f) { return spare(f) != 0; }));
    if (open == 0) return;
    // The same to everyone who can take it; the last few go one each to the first ones.
    uint64_t left = grows ? k - sum : sum - k;
    const uint64_t each = std::max<uint64_t>(left / open, 1);
    for (const uint32_t f : order) {
      const uint64_t moved = std::min({each, spare(f), left});
      entries[f] = grows ? entries[f] + moved : entries[f] - moved;
      sum = grows ? sum + moved : sum - moved;
      left -= moved;
    }
  }
}

void packBins(std::span<const uint64_t> lengths, std::span<const uint64_t> entries, std::span<uint32_t> bins,
              std::span<double> loads, std::span<uint32_t> order, std::span<double> costs) {
  for (size_t f = 0; f < lengths.size(); ++f) costs[f] = costOf(lengths[f], entries[f]);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return costs[a] != costs[b] ? costs[a] > costs[b] : a < b; });
  std::fill(loads.begin(), loads.end(), 0.0);
  for (const uint32_t f : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    bins[f] = static_cast<uint32_t>(least - loads.begin());
    *least += costs[f];
  }
}

Result<SelectionPlan> planDeft(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  std::vector<uint64_t> lengths;
  for (const sparsecollSegment_t& segment : request.segments) lengths.push_back(segment.length);
  if (lengths.empty()) lengths.push_back(request.n);
  SelectionPlan plan;
  plan.k = wanted.now;
  uint64_t begin = 0;
  for (const uint64_t end : fragmentEnds(lengths, static_cast<uint64_t>(request.ranks))) {
    WindowPlan window;
    window.begin = begin;
    window.end = end;
    window.room = end - begin;
    window.lazy = true;
    plan.windows.push_back(window);
    begin = end;
  }
  const uint64_t fragments = plan.windows.size();
  // No fragment gets less than one entry. A rank's own norms may ask for more than k in its bin, but never for more
  // than k and one a fragment.
  plan.mostEntries = std::min(request.n, request.faithful ? wanted.most + fragments : std::max(wanted.most, fragments));
  plan.capacity = plan.mostEntries;
  plan.lazySlots = std::min(request.n, 3 * plan.capacity + 16384);
  plan.survey = SurveyKind::kNorms;
  plan.surveyLength = static_cast<uint32_t>(fragments);
  plan.afterSurvey = request.faithful ? &kShareAsPublished : &kShare;
  return plan;
}

}  // namespace sparsecoll
