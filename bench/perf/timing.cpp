#include "bench/perf/timing.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <vector>

#include "bench/common/clock.h"
#include "bench/perf/device.h"

namespace bench {

namespace {

struct Step {
  uint64_t startNs = 0;
  uint64_t endNs = 0;
  uint64_t cpuNs = 0;
  sparsecollStats_t stats{};
};

using Steps = std::vector<Step>;  // of one rank

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

void summarise(const std::vector<Steps>& ranks, bool onDevice, Timing& timing) {
  using Stats = sparsecollStats_t;
  const auto slowest = [&](uint64_t Stats::*ns) {
    return medianOf(ranks, largest, [ns](const Step& step) { return step.stats.*ns; }) / 1e3;
  };
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
  timing.sentBytes = static_cast<uint64_t>(slowest(&Stats::lastBytesSent) * 1e3);
  for (const Steps& rank : ranks) {
    const Stats& all = rank.back().stats;
    const uint64_t between = all.bytesSentBetweenNodes / std::max<uint64_t>(all.opsStarted, 1);
    timing.betweenBytes = std::max(timing.betweenBytes, between);
    timing.insideBytes = std::max(timing.insideBytes, all.lastBytesSent - std::min(between, all.lastBytesSent));
  }
  timing.selected =
      static_cast<uint64_t>(medianOf(ranks, mean, [](const Step& step) { return step.stats.lastSelected; }));
  timing.imbalance = medianOf(ranks, largest, [](const Step& step) { return step.stats.lastImbalance; });
}

template <class T>
uint64_t nonZeros(const T* x, uint64_t begin, uint64_t end) {
  return static_cast<uint64_t>(std::count_if(x + begin, x + end, [](T value) { return toDouble(value) != 0; }));
}

constexpr uint64_t kMostGraphs = 32;

void waitFor(const Rank& rank, const DeviceStream& stream) {
  check(sparsecollCommWait(rank.comm, static_cast<sparsecollStream_t>(stream.handle()), 0), "sparsecollCommWait");
}

class Runner {
 public:
  Runner(const Case& what, const Gradients& gradients, const StepCounts& counts)
      : case_(what),
        gradients_(gradients),
        counts_(counts),
        team_(what.shape.ranks, what.shape.device, what.shape.world) {
    outs_.resize(static_cast<size_t>(team_.ranks()));
    steps_.resize(outs_.size());
  }

  Timing run() {
    if (team_.onDevice()) beginning_.emplace();
    team_.run([this](Rank& rank) { rank.onDevice() ? onDevice(rank) : onRank(rank); });
    if (team_.world() != nullptr) gather(*team_.world());
    summarise(steps_, team_.onDevice(), timing_);
    timing_.unionEntries = union_;
    timing_.k = info_.k;
    timing_.reason = info_.reason;
    const auto n = static_cast<double>(case_.shape.n);
    const double together = medianOf(steps_, largest, [](const Step& step) { return step.stats.lastUnion; });
    timing_.achievedDensity = (info_.densityIsGlobal != 0 ? together : static_cast<double>(timing_.selected)) / n;
    return timing_;
  }

 private:
  // Every process gets all ranks' steps.
  void gather(World& world) {
    const auto own = static_cast<size_t>(world.rank());
    const uint64_t bytes = counts_.timed * sizeof(Step);
    std::vector<Step> all(counts_.timed * steps_.size());
    world.gather(steps_[own].data(), bytes, all.data());
    for (size_t r = 0; r < steps_.size(); ++r) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * counts_.timed);
      steps_[r].assign(begin, begin + static_cast<std::ptrdiff_t>(counts_.timed));
    }
    union_ = world.total(union_);
  }

  void onRank(Rank& rank) {
    const Shape& shape = case_.shape;
    Memory& out = outs_[rank.slot()];
    out = Memory(shape.n * shape.type->bytes);
    steps_[rank.slot()].reserve(counts_.timed);
    Reducer reducer(case_.method, shape.n, *shape.type, rank.comm);
    for (uint64_t s = 0; s < counts_.warmup + counts_.timed; ++s) {
      Step step;
      rank.sync();
      const uint64_t cpu = cpuNs();
      step.startNs = nowNs();
      reducer.run(gradients_.of(rank, s), out.as<>());
      step.endNs = nowNs();
      step.cpuNs = cpuNs() - cpu;
      step.stats = reducer.stats();
      if (s >= counts_.warmup) steps_[rank.slot()].push_back(step);
    }
    if (rank.leads()) info_ = reducer.info();
    rank.sync();
    countUnion(rank);
  }

  // Steps are enqueued one behind the other, as in training, and the device's clock tells when they began and ended.
  // Stats are those of the last step. Graphs hold one step each, with another gradient, and are replayed in turn.
  void onDevice(Rank& rank) {
    const Shape& shape = case_.shape;
    const uint64_t bytes = shape.n * shape.type->bytes;
    const DeviceStream stream;
    const DeviceMemory out(bytes);
    std::vector<DeviceMoment> begins(counts_.timed);
    std::vector<DeviceMoment> ends(counts_.timed);
    Steps steps(counts_.timed);
    Reducer reducer(case_.method, shape.n, *shape.type, rank.comm);
    const auto run = [&](uint64_t step) { reducer.run(gradients_.of(rank, step), out.data(), stream.handle()); };
    for (uint64_t s = 0; s < counts_.warmup; ++s) run(s);
    std::vector<DeviceGraph> graphs;
    if (shape.graph) {
      run(counts_.warmup);  // what steps do for the first time cannot be captured
      waitFor(rank, stream);
      for (uint64_t s = 0; s < std::min(counts_.timed, kMostGraphs); ++s)
        graphs.emplace_back(stream, [&] { run(counts_.warmup + s); });
      for (const DeviceGraph& graph : graphs) graph.launch(stream);  // the first time takes longer
    }
    waitFor(rank, stream);
    rank.sync();
    if (rank.index == 0) beginning_->take(stream);
    rank.sync();
    for (uint64_t s = 0; s < counts_.timed; ++s) {
      begins[s].take(stream);
      const uint64_t cpu = cpuNs();
      graphs.empty() ? run(counts_.warmup + s) : graphs[s % graphs.size()].launch(stream);
      steps[s].cpuNs = cpuNs() - cpu;
      ends[s].take(stream);
    }
    waitFor(rank, stream);
    const sparsecollStats_t stats = reducer.stats();
    for (uint64_t s = 0; s < counts_.timed; ++s) {
      steps[s].startNs = static_cast<uint64_t>(std::max(begins[s].nsSince(*beginning_), 0.0));
      steps[s].endNs = static_cast<uint64_t>(std::max(ends[s].nsSince(*beginning_), 0.0));
      steps[s].stats = stats;
    }
    steps_[rank.slot()] = std::move(steps);
    if (rank.index == 0) {
      info_ = reducer.info();
      outs_.front() = Memory(bytes);
      copyToHost(outs_.front().as<>(), out.data(), bytes);
    }
    rank.sync();
    countUnion(rank);
  }

  // The sum is the same on all ranks, so each counts a part of the first one's.
  void countUnion(const Rank& rank) {
    const uint64_t n = case_.shape.n;
    const Memory& out = outs_[rank.world != nullptr ? rank.slot() : 0];
    withElement(case_.shape.type->type,
                [&]<class T>(T) { union_ += nonZeros(out.as<T>(), rank.begin(n), rank.end(n)); });
  }

  const Case& case_;
  const Gradients& gradients_;
  StepCounts counts_;
  Team team_;
  std::vector<Memory> outs_;
  std::vector<Steps> steps_;
  std::optional<DeviceMoment> beginning_;  // of the timed steps on a device
  std::atomic<uint64_t> union_{0};
  sparsecollReducerInfo_t info_{};
  Timing timing_;
};

}  // namespace

Timing timeSteps(const Case& what, const Gradients& gradients, const StepCounts& counts) {
  return Runner(what, gradients, counts).run();
}

double thresholdOfTopK(const Case& what, const Gradients& gradients, const StepCounts& counts) {
  const Shape& shape = what.shape;
  Method method = what.method;
  method.preset = "topka";
  double threshold = 0;
  const uint64_t bytes = shape.n * shape.type->bytes;
  const auto found = [&] {
    if (shape.world == nullptr) return threshold;
    std::vector<double> all(static_cast<size_t>(shape.world->ranks()));
    all[static_cast<size_t>(shape.world->rank())] = threshold;
    shape.world->share(all);
    return all.front();
  };
  if (shape.world != nullptr && shape.world->rank() != 0) return found();
  Team(1, shape.device).run([&](Rank& rank) {
    const DeviceMemory onDevice = rank.onDevice() ? DeviceMemory(bytes) : DeviceMemory();
    const Memory onHost(rank.onDevice() ? 0 : bytes);
    void* const out = rank.onDevice() ? onDevice.data() : onHost.as<>();
    Reducer reducer(method, shape.n, *shape.type, rank.comm);
    for (uint64_t s = 0; s < counts.warmup + counts.timed / 2; ++s) reducer.run(gradients.of(rank, s), out);
    check(sparsecollCommWait(rank.comm, nullptr, 0), "sparsecollCommWait");
    threshold = reducer.stats().lastThreshold;
  });
  return found();
}

}  // namespace bench
