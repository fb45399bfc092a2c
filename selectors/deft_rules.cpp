#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/math.h"
#include "core/numeric.h"
#include "selectors/deft.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

SC_BOTH double costOf(uint64_t length, uint64_t entries) {
  const auto size = static_cast<double>(length);
  return entries > 1 ? size * lnOf(static_cast<double>(entries)) / lnOf(2.0) : size;
}

// By a heap, since a device's thread has no stack for a sort that calls itself.
template <class Before>
SC_BOTH void sortBy(std::span<uint32_t> order, Before before) {
  std::make_heap(order.begin(), order.end(), before);
  std::sort_heap(order.begin(), order.end(), before);
}

// The control block's tables, a place a fragment.
struct Tables {
  std::span<uint64_t> lengths, entries;
  std::span<uint32_t> order, bins;
  std::span<double> norms, costs, loads;
};

SC_BOTH Tables tablesOf(Control& control) {
  const size_t f = control.windowCount;
  const FragmentTables& at = control.fragments;
  return {{at.lengths, f}, {at.entries, f},          {at.order, f}, {at.bins, f}, {at.norms, f},
          {at.costs, f},   {at.loads, control.ranks}};
}

SC_BOTH void assignFrom(Control& control, const Tables& tables) {
  assignEntries(tables.norms, tables.lengths, control.k, tables.entries, tables.order);
}

// A norm as a rank told it. What is none counts as 0: the fragment gets the least.
SC_BOTH double toldNorm(const Control& control, uint64_t rank, size_t fragment) {
  const double norm = control.survey[rank * control.windowCount + fragment];
  return isFinite(norm) && norm > 0 ? norm : 0;
}

// This rank's bin becomes the windows that are selected from.
SC_BOTH void takeBin(Control& control, const Tables& tables) {
  const uint32_t mine = static_cast<uint32_t>((control.iteration % control.ranks + control.rank) % control.ranks);
  for (uint32_t f = 0; f < control.windowCount; ++f) {
    Window& window = control.windows[f];
    window.limit = tables.bins[f] == mine && control.k != 0 ? std::min(tables.entries[f], window.room) : 0;
  }
}

SC_BOTH void pack(const Tables& tables) {
  packBins(tables.lengths, tables.entries, tables.bins, tables.loads, tables.order, tables.costs);
}

SC_BOTH void share(Control& control) {
  const Tables tables = tablesOf(control);
  std::fill(tables.norms.begin(), tables.norms.end(), 0.0);
  for (uint64_t r = 0; r < control.ranks; ++r)
    for (size_t f = 0; f < tables.norms.size(); ++f) tables.norms[f] += toldNorm(control, r, f);
  assignFrom(control, tables);
  evenOut(tables.lengths, control.k, tables.entries, tables.order);
  pack(tables);
  takeBin(control, tables);
}

SC_BOTH void shareAsPublished(Control& control) {
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

}  // namespace

constinit const Rule kDeftShare = ruleOf<share>("deft-share");
constinit const Rule kDeftShareAsPublished = ruleOf<shareAsPublished>("deft-faithful-share");

SC_BOTH void assignEntries(std::span<const double> norms, std::span<const uint64_t> lengths, uint64_t k,
                           std::span<uint64_t> entries, std::span<uint32_t> order) {
  std::iota(order.begin(), order.end(), 0u);
  sortBy(order, [&](uint32_t a, uint32_t b) { return norms[a] != norms[b] ? norms[a] > norms[b] : a > b; });
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

SC_BOTH void evenOut(std::span<const uint64_t> lengths, uint64_t k, std::span<uint64_t> entries,
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

SC_BOTH void packBins(std::span<const uint64_t> lengths, std::span<const uint64_t> entries, std::span<uint32_t> bins,
                      std::span<double> loads, std::span<uint32_t> order, std::span<double> costs) {
  for (size_t f = 0; f < lengths.size(); ++f) costs[f] = costOf(lengths[f], entries[f]);
  std::iota(order.begin(), order.end(), 0u);
  sortBy(order, [&](uint32_t a, uint32_t b) { return costs[a] != costs[b] ? costs[a] > costs[b] : a < b; });
  std::fill(loads.begin(), loads.end(), 0.0);
  for (const uint32_t f : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    bins[f] = static_cast<uint32_t>(least - loads.begin());
    *least += costs[f];
  }
}

}  // namespace sparsecoll
