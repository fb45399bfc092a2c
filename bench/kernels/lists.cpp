// Sums of the ranks' sparse lists.
#include <cmath>
#include <stdexcept>

#include "bench/common/random.h"
#include "bench/kernels/benchmarks.h"
#include "bench/kernels/samples.h"

namespace bench {

namespace {

// Sorted lists of different ranks: each index is in each list with the same probability.
class Lists {
 public:
  Lists(uint64_t n, double density, uint64_t count) {
    for (uint64_t l = 0; l < count; ++l) {
      std::vector<uint32_t> indices;
      for (uint64_t at = gap(density, l, 0); at < n; at += 1 + gap(density, l, at + 1))
        indices.push_back(static_cast<uint32_t>(at));
      add(indices);
    }
    for (size_t l = 0; l < count; ++l) views_.push_back({indices_[l].as<>(), values_[l].as<>(), &counts_[l]});
  }

  const std::vector<sparsecoll::ListView>& views() const { return views_; }
  uint64_t entries() const { return entries_; }

 private:
  // Entries left out before the next one.
  static uint64_t gap(double density, uint64_t list, uint64_t at) {
    if (density >= 1) return 0;
    return static_cast<uint64_t>(std::log(1 - unit(randomAt(list, at))) / std::log1p(-density));
  }

  void add(const std::vector<uint32_t>& indices) {
    Memory to(indices.size() * sizeof(uint32_t));
    Memory values(indices.size() * sizeof(float));
    std::copy(indices.begin(), indices.end(), to.as<uint32_t>());
    std::fill_n(values.as<float>(), indices.size(), 1.0f);
    indices_.push_back(std::move(to));
    values_.push_back(std::move(values));
    counts_.push_back(static_cast<uint32_t>(indices.size()));
    entries_ += indices.size();
  }

  std::vector<Memory> indices_;
  std::vector<Memory> values_;
  std::vector<uint32_t> counts_;
  std::vector<sparsecoll::ListView> views_;
  uint64_t entries_ = 0;
};

void check(const sparsecoll::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.failure().text.c_str());
}

void countPairs(benchmark::State& state, const Samples& samples, uint64_t pairs) {
  state.counters["Mpairs_per_s"] = static_cast<double>(pairs) / samples.best() * 1e-6;
}

}  // namespace

void benchMerge(benchmark::State& state, uint64_t n, double density) {
  const Lists lists(n, density, kMergeLists);
  const uint64_t most = std::min(n, lists.entries());
  const Memory indices(most * sizeof(uint32_t));
  const Memory values(most * sizeof(float));
  uint64_t count = 0;
  sparsecoll::MergeArgs args;
  args.lists = lists.views();
  args.n = n;
  args.outIndices = indices.as<>();
  args.outValues = values.as<>();
  args.outCount = &count;
  args.outCapacity = most;
  const Samples samples(state, [&] { check(hostKernels().merge(args, {})); });
  countBytes(state, samples, Data::of(n), 8 * static_cast<double>(lists.entries() + count));
  countPairs(state, samples, lists.entries());
}

void benchCombine(benchmark::State& state, uint64_t n, double density) {
  const Lists lists(n, density, kCombineLists);
  const Data& data = Data::of(n);
  sparsecoll::CombineArgs args;
  args.lists = lists.views();
  args.out = data.scratch();
  args.n = n;
  const Samples samples(state, [&] { check(hostKernels().combine(args, {})); });
  countBytes(state, samples, data, 4 * static_cast<double>(n) + 8 * static_cast<double>(lists.entries()));
  countPairs(state, samples, lists.entries());
}

}  // namespace bench
