// Sums of the ranks' sparse lists.
#include <cmath>

#include "bench/common/random.h"
#include "bench/device/cases.h"
#include "bench/device/loops.h"
#include "bench/device/wrong.h"

namespace bench {

namespace {

// Sorted lists of different ranks, in several copies; each index is in each list with the same probability.
class Lists {
 public:
  Lists(const Vectors& vectors, double density) : n_(vectors.n()) {
    std::vector<std::vector<uint32_t>> indices(kLists);
    std::vector<bool> seen(n_);
    for (uint64_t l = 0; l < kLists; ++l)
      for (uint64_t at = gap(density, l, 0); at < n_; at += 1 + gap(density, l, at + 1)) {
        indices[l].push_back(static_cast<uint32_t>(at));
        ++entries_;
        if (!seen[at]) ++distinct_;
        seen[at] = true;
      }
    const uint64_t sets = vectors.setsFor(8 * static_cast<double>(entries_));
    for (uint64_t s = 0; s < sets; ++s) {
      for (const std::vector<uint32_t>& list : indices) lists_.emplace_back(list, 1.0f);
      views_.emplace_back();
    }
    for (uint64_t i = 0; i < lists_.size(); ++i) views_[i / kLists].push_back(lists_[i].view());
  }

  uint64_t sets() const { return views_.size(); }
  std::span<const sparsecoll::ListView> views(uint64_t set) const { return views_[set]; }
  uint64_t entries() const { return entries_; }    // of all lists
  uint64_t distinct() const { return distinct_; }  // of their sum

 private:
  // Entries left out before the next one.
  static uint64_t gap(double density, uint64_t list, uint64_t at) {
    if (density >= 1) return 0;
    return static_cast<uint64_t>(std::log(1 - unit(randomAt(list, at))) / std::log1p(-density));
  }

  uint64_t n_;
  std::vector<DeviceList> lists_;
  std::vector<std::vector<sparsecoll::ListView>> views_;
  uint64_t entries_ = 0;
  uint64_t distinct_ = 0;
};

Outcome finished(const Vectors& vectors, const Lists& lists, const Operation& operation) {
  Outcome outcome = vectors.timed(operation);
  vectors.device().finish();
  outcome.counters = {{"entries", static_cast<double>(lists.entries())},
                      {"sum_entries", static_cast<double>(lists.distinct())},
                      {"Mpairs_per_s", static_cast<double>(lists.entries()) / outcome.times.median * 1e-6}};
  return outcome;
}

Outcome merge(const Vectors& vectors, double density) {
  const Device& device = vectors.device();
  const Lists lists(vectors, density);
  const DeviceArray<uint32_t> indices(lists.distinct());
  const DeviceArray<float> values(lists.distinct());
  const DeviceArray<uint64_t> count(1);
  Operation operation;
  operation.bytes = 8 * static_cast<double>(lists.entries() + lists.distinct());
  for (uint64_t s = 0; s < lists.sets(); ++s) {
    sparsecoll::MergeArgs args;
    args.lists = lists.views(s);
    args.n = vectors.n();
    args.outIndices = indices.get();
    args.outValues = values.get();
    args.outCount = count.get();
    args.outCapacity = lists.distinct();
    operation.steps.push_back([&device, args] { check(device.kernels().merge(args, device.stream())); });
  }
  Outcome outcome = finished(vectors, lists, operation);
  outcome.wrong = difference(onHost(count.get()), lists.distinct());
  return outcome;
}

// preserved: nobody else writes to the vector between steps, so that only the entries of the last sum are cleared.
Outcome combine(const Vectors& vectors, double density, bool preserved) {
  const Device& device = vectors.device();
  const Lists lists(vectors, density);
  const DeviceArray<float> out(vectors.n());
  const DeviceArray<uint64_t> touched(vectors.n() / 1024 + 1);
  const double written = preserved ? 2 * static_cast<double>(lists.distinct()) : static_cast<double>(vectors.n());
  Operation operation;
  operation.bytes = 4 * written + 8 * static_cast<double>(lists.entries());
  for (uint64_t s = 0; s < lists.sets(); ++s) {
    sparsecoll::CombineArgs args;
    args.lists = lists.views(s);
    args.out = out.get();
    args.n = vectors.n();
    args.finish.divisor = kLists;
    if (preserved) args.touchedLines = touched.get();
    operation.steps.push_back([&device, args] { check(device.kernels().combine(args, device.stream())); });
  }
  Outcome outcome = finished(vectors, lists, operation);
  const DeviceArray<unsigned long long> nonZeros(1);
  countReaching(out.get(), vectors.n(), 1, nonZeros.get(), device.cudaStream().get());
  device.cudaStream().wait();
  outcome.wrong = difference(onHost(nonZeros.get()), lists.distinct());
  return outcome;
}

constexpr CaseKind kListCases[] = {
    {"merge", "8 lists to one list; 8 bytes an entry, in and out", true, merge},
    {"combine", "8 lists to a dense vector, averaged; 4 bytes an element, and 8 an entry", true,
     [](const Vectors& vectors, double density) { return combine(vectors, density, false); }},
    {"combine_preserved", "the same into what the last one left; 8 bytes an entry of the lists, and of the sum", true,
     [](const Vectors& vectors, double density) { return combine(vectors, density, true); }},
};

}  // namespace

std::span<const CaseKind> listCases() { return kListCases; }

}  // namespace bench
