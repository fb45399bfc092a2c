#include "bench/perf/steps.h"

#include <algorithm>
#include <cmath>

namespace bench {

namespace {

double percentile(std::vector<double> values, double share) {
  const auto wanted = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(wanted, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The median over the steps of the largest (or otherwise combined) value of the ranks.
template <class Combine, class Value>
double medianOf(const std::vector<Steps>& ranks, const Combine& combine, const Value& value) {
  std::vector<double> perStep;
  for (size_t s = 0; s < ranks.front().size(); ++s) {
    std::vector<double> perRank;
    for (const Steps& rank : ranks) perRank.push_back(static_cast<double>(value(rank[s])));
    perStep.push_back(combine(perRank));
  }
  return percentile(perStep, 0.5);
}

double largest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double largestOverMean(const std::vector<double>& values) {
  const double average = mean(values);
  return average > 0 ? largest(values) / average : 1;
}

double microsecondsOf(const Step& step) { return static_cast<double>(step.endNs - step.startNs) / 1e3; }

// The longest duration of a rank: ranks start together, and their clocks may differ. On a device steps follow each
// other without a gap, and a rank's may start while another's last one is not over: there, from the last one's end to
// this one's.
std::vector<double> totalsOf(const std::vector<Steps>& ranks, bool onDevice) {
  std::vector<double> totals;
  uint64_t before = 0;
  for (size_t s = 0; s < ranks.front().size(); ++s) {
    double longest = 0;
    uint64_t last = 0;
    for (const Steps& rank : ranks) {
      longest = std::max(longest, microsecondsOf(rank[s]));
      last = std::max(last, rank[s].endNs);
    }
    totals.push_back(onDevice && s > 0 ? static_cast<double>(last - before) / 1e3 : longest);
    before = last;
  }
  return totals;
}

template <class T>
uint64_t nonZeros(const T* x, uint64_t begin, uint64_t end) {
  return static_cast<uint64_t>(std::count_if(x + begin, x + end, [](T value) { return toDouble(value) != 0; }));
}

}  // namespace

uint64_t nonZerosIn(const Memory& out, const ElementType& type, uint64_t begin, uint64_t end) {
  uint64_t count = 0;
  withElement(type.type, [&]<class T>(T) { count = nonZeros(out.as<T>(), begin, end); });
  return count;
}

Timing timingOf(const std::vector<Steps>& ranks, const sparsecollReducerInfo_t& info, const Shape& shape) {
  using Stats = sparsecollStats_t;
  const auto slowest = [&](uint64_t Stats::*ns) {
    return medianOf(ranks, largest, [ns](const Step& step) { return step.stats.*ns; }) / 1e3;
  };
  const bool onDevice = shape.device != kHost;
  Timing timing;
  timing.steps = ranks.front().size();
  timing.phases = !onDevice;
  timing.select = slowest(&Stats::lastSelectNs);
  timing.exchange = slowest(&Stats::lastExchangeNs);
  timing.scatter = slowest(&Stats::lastScatterNs);
  const std::vector<double> totals = totalsOf(ranks, onDevice);
  timing.total = percentile(totals, 0.5);
  timing.total99 = percentile(totals, 0.99);
  timing.local = medianOf(ranks, largest, [](const Step& step) { return step.cpuNs; }) / 1e3;
  timing.best = percentile(totals, 0);
  std::vector<double> single;
  for (const Steps& rank : ranks) {
    std::vector<double> own;
    for (const Step& step : rank) own.push_back(microsecondsOf(step));
    timing.ranks.push_back(percentile(own, 0.5));
    single.insert(single.end(), own.begin(), own.end());
  }
  timing.p50 = percentile(single, 0.5);
  timing.p99 = percentile(single, 0.99);
  timing.sentBytes =
      static_cast<uint64_t>(medianOf(ranks, largest, [](const Step& step) { return step.stats.lastBytesSent; }));
  for (const Steps& rank : ranks) {
    const Stats& all = rank.back().stats;
    const uint64_t between = all.bytesSentBetweenNodes / std::max<uint64_t>(all.opsStarted, 1);
    timing.betweenBytes = std::max(timing.betweenBytes, between);
    timing.insideBytes = std::max(timing.insideBytes, all.lastBytesSent - std::min(between, all.lastBytesSent));
  }
  timing.selected =
      static_cast<uint64_t>(medianOf(ranks, mean, [](const Step& step) { return step.stats.lastSelected; }));
  timing.imbalance = medianOf(ranks, largest, [](const Step& step) { return step.stats.lastImbalance; });
  timing.selectImbalance = medianOf(ranks, largestOverMean, [](const Step& step) { return step.stats.lastSelectNs; });
  timing.k = info.k;
  timing.reason = info.reason;
  timing.dense = info.collective == sparsecollCollDense;
  const double together = medianOf(ranks, largest, [](const Step& step) { return step.stats.lastUnion; });
  const double entries = info.densityIsGlobal != 0 ? together : static_cast<double>(timing.selected);
  timing.achievedDensity = entries / static_cast<double>(shape.n);
  return timing;
}

}  // namespace bench
