#include <algorithm>
#include <cmath>

#include "core/math.h"
#include "core/numeric.h"
#include "selectors/deft.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

SC_BOTH double costOf(uint64_t length, uint64_t entries, DeftRule rule) {
  const auto size = static_cast<double>(length);
  if (entries <= 1) return size;
  if (rule == DeftRule::kPublished) return size * log2Of(entries);
  return size * lnOf(static_cast<double>(entries)) / lnOf(2.0);
}

// The state's tables.
struct Tables {
  std::span<uint64_t> lengths, entries;
  std::span<uint32_t> order, bins;
  std::span<double> norms, costs, loads;
};

SC_BOTH Tables tablesOf(Control& control, const Crew& crew) {
  const size_t f = control.windowCount;
  const DeftState& at = control.selector.as<DeftState>();
  crew.each(f, [&](uint64_t i) { at.lengths[i] = control.windows[i].end - control.windows[i].begin; });
  return {{at.lengths, f}, {at.entries, f},          {at.order, f}, {at.bins, f}, {at.norms, f},
          {at.costs, f},   {at.loads, control.ranks}};
}

SC_BOTH void assignFrom(Control& control, const Tables& tables, const Crew& crew, DeftRule rule) {
  assignEntries(tables.norms, tables.lengths, control.k, tables.entries, tables.order, crew, rule);
}

// A norm as a rank told it. What is none counts as 0: the fragment gets the least.
SC_BOTH double announcedNorm(const Control& control, uint64_t rank, size_t fragment) {
  const double norm = control.selector.as<DeftState>().announced[rank * control.windowCount + fragment];
  return isFinite(norm) && norm > 0 ? norm : 0;
}

// The published program has the norms of its tensors' type.
SC_BOTH double announcedNormAsPublished(const Control& control, uint64_t rank, size_t fragment) {
  const double norm = announcedNorm(control, rank, fragment);
  if (control.isDouble != 0) return norm;
  const auto rounded = static_cast<double>(static_cast<float>(norm));
  return isFinite(rounded) ? rounded : 0;
}

// This rank's bin becomes the windows that are selected from, and so do the fragments that it sends whole.
SC_BOTH void takeBin(Control& control, const Tables& tables, const Crew& crew) {
  const uint32_t mine = static_cast<uint32_t>((control.iteration % control.ranks + control.rank) % control.ranks);
  crew.each(control.windowCount, [&](uint64_t f) {
    Window& window = control.windows[f];
    const bool whole = tables.bins[f] == mine + control.ranks;
    const uint64_t entries = whole ? window.room : tables.bins[f] == mine ? tables.entries[f] : 0;
    window.limit = control.k != 0 ? std::min(entries, window.room) : 0;
  });
}

SC_BOTH void pack(const Tables& tables, const Crew& crew, DeftRule rule) {
  packBins(tables.lengths, tables.entries, tables.bins, tables.loads, tables.order, tables.costs, crew, rule);
}

SC_BOTH void share(Control& control, const Crew& crew) {
  const Tables tables = tablesOf(control, crew);
  crew.each(tables.norms.size(), [&](uint64_t f) {
    double sum = 0;
    for (uint64_t r = 0; r < control.ranks; ++r) sum += announcedNorm(control, r, f);
    tables.norms[f] = sum;
  });
  assignFrom(control, tables, crew, DeftRule::kDefault);
  evenOut(tables.lengths, control.k, tables.entries, tables.order, crew);
  pack(tables, crew, DeftRule::kDefault);
  takeBin(control, tables, crew);
}

SC_BOTH void shareAsPublished(Control& control, const Crew& crew) {
  const Tables tables = tablesOf(control, crew);
  const auto take = [&](uint64_t rank) {
    crew.each(tables.norms.size(), [&](uint64_t f) { tables.norms[f] = announcedNormAsPublished(control, rank, f); });
    assignFrom(control, tables, crew, DeftRule::kPublished);
  };
  take(control.iteration % control.ranks);
  pack(tables, crew, DeftRule::kPublished);
  take(control.rank);
  takeBin(control, tables, crew);
}

}  // namespace

constinit const Rule kDeftShare = ruleOf<share>("deft-share");
constinit const Rule kDeftShareAsPublished = ruleOf<shareAsPublished>("deft-faithful-share");

SC_BOTH void assignEntries(std::span<const double> norms, std::span<const uint64_t> lengths, uint64_t k,
                           std::span<uint64_t> entries, std::span<uint32_t> order, const Crew& crew, DeftRule rule) {
  crew.order(order, [&](uint32_t a, uint32_t b) { return norms[a] != norms[b] ? norms[a] > norms[b] : a > b; });
  crew.alone([&] {
    auto left = static_cast<double>(k);
    double normLeft = 0;  // one after the other, as published: its last digit can move an entry
    for (const double norm : norms) normLeft += norm;
    for (const uint32_t f : order) {
      const double exact = rule == DeftRule::kPublished ? left * (norms[f] / normLeft) : left * norms[f] / normLeft;
      const double wanted = normLeft > 0 ? std::trunc(exact) : 0;
      const auto length = static_cast<double>(lengths[f]);
      // A norm that is not finite makes the share NaN; such a fragment gets the least.
      // Nor may it take more than is left, as a sum of norms that has lost its digits would have it.
      const double share = std::min(wanted, std::max(left, 1.0));
      const double taken = length < share ? length : share >= 1 ? share : 1;
      entries[f] = static_cast<uint64_t>(taken);
      left -= taken;
      normLeft -= norms[f];
    }
  });
}

SC_BOTH void evenOut(std::span<const uint64_t> lengths, uint64_t k, std::span<uint64_t> entries,
                     std::span<const uint32_t> order, const Crew& crew) {
  const auto sumOf = [&] { return crew.sum<uint64_t>(0, entries.size(), [&](uint64_t f) { return entries[f]; }); };
  for (uint64_t sum = sumOf(); sum != k; sum = sumOf()) {
    const bool grows = sum < k;
    const auto spare = [&](uint64_t f) { return grows ? lengths[f] - entries[f] : entries[f] - 1; };
    const auto move = [&](uint64_t f, uint64_t moved) { entries[f] = grows ? entries[f] + moved : entries[f] - moved; };
    const auto open =
        crew.sum<uint64_t>(0, entries.size(), [&](uint64_t f) { return uint64_t{spare(f) != 0 ? 1u : 0u}; });
    if (open == 0) return;
    // The same to everyone who can take it; the last few go one each to the first ones.
    const uint64_t left = grows ? k - sum : sum - k;
    if (left >= open) {
      crew.each(entries.size(), [&](uint64_t f) { move(f, std::min(left / open, spare(f))); });
      continue;
    }
    crew.alone([&] {
      uint64_t rest = left;
      for (size_t at = 0; rest != 0; ++at) {
        if (spare(order[at]) == 0) continue;
        move(order[at], 1);
        --rest;
      }
    });
  }
}

SC_BOTH double log2Of(uint64_t x) {
  constexpr int kDigits = 58;  // behind the point; 6 stand before it
  const auto whole = static_cast<uint64_t>(bitWidth(x) - 1);
  uint64_t part = x << (63 - whole);  // x / 2^whole, in [1, 2), with 63 digits
  uint64_t digits = whole;
  for (int digit = 0; digit < kDigits; ++digit) {
    const unsigned __int128 square = static_cast<unsigned __int128>(part) * part;
    const auto carry = static_cast<uint64_t>(square >> 127);
    digits = digits << 1 | carry;
    part = static_cast<uint64_t>(square >> (63 + carry));
  }
  return static_cast<double>(digits) * 0x1p-58;
}

SC_BOTH void packBins(std::span<const uint64_t> lengths, std::span<const uint64_t> entries, std::span<uint32_t> bins,
                      std::span<double> loads, std::span<uint32_t> order, std::span<double> costs, const Crew& crew,
                      DeftRule rule) {
  crew.each(lengths.size(), [&](uint64_t f) { costs[f] = costOf(lengths[f], entries[f], rule); });
  crew.order(order, [&](uint32_t a, uint32_t b) { return costs[a] != costs[b] ? costs[a] > costs[b] : a < b; });
  crew.alone([&] {
    const auto count = static_cast<uint32_t>(loads.size());
    uint32_t next = 0;  // bin of a whole fragment
    for (double& load : loads) load = 0;
    for (const uint32_t f : order) {
      if (rule == DeftRule::kPublished && entries[f] == lengths[f]) {
        bins[f] = count + next;
        next = (next + 1) % count;
        continue;
      }
      uint32_t least = 0;
      for (uint32_t bin = 1; bin < count; ++bin)
        if (loads[bin] < loads[least]) least = bin;
      bins[f] = least;
      loads[least] += costs[f];
    }
  });
}

}  // namespace sparsecoll
