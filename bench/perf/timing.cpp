#include "bench/perf/timing.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "bench/common/clock.h"
#include "bench/perf/device.h"
#include "bench/perf/steps.h"

namespace bench {

namespace {

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
    Timing timing = timingOf(steps_, info_, case_.shape);
    timing.unionEntries = union_;
    return timing;
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
    union_ += nonZerosIn(out, *case_.shape.type, rank.begin(n), rank.end(n));
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
