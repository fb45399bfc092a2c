// sparsecoll-perf: every method against the dense all-reduce, on ranks of this process or of many. It sees the library
// as any user does, through sparsecoll.h alone.
#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "bench/common/clock.h"
#include "bench/common/errors.h"
#include "bench/common/output_file.h"
#include "bench/common/program.h"
#include "bench/perf/check.h"
#include "bench/perf/device.h"
#include "bench/perf/library.h"
#include "bench/perf/progress.h"
#include "bench/perf/report.h"
#include "bench/perf/timing.h"

namespace bench {

namespace {

size_t longestOf(const std::vector<std::string>& names) {
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  return longest;
}

void listPresets() {
  const size_t width = longestOf(presetNames());
  for (uint32_t i = 0; const char* name = sparsecollPresetName(i); ++i) {
    const sparsecollParams_t params = Method{name, 1, sparsecollSum, 0, 0}.params();
    const char* const selector = isDense(params) ? "-" : sparsecollSelectorName(params.selector);
    fmt::print("{:<{}} selector {:<13} collective {:<13} {}\n", name, width, selector,
               sparsecollCollectiveName(params.collective), sparsecollPresetPaper(i));
  }
}

void listCases(const Options& options) {
  for (const Shape& shape : shapesOf(options))
    for (const Case& each : casesOf(options, shape))
      fmt::print("{:>12} {:<4} {:<12} density {:<8} {}\n", shape.n, shape.type->name(), shape.ranksText(),
                 each.dense ? "-" : fmt::format("{}", each.method.density), each.method.preset);
}

// Threads are all here.
std::vector<World::Place> placesOf(const Team& team) {
  if (team.world() != nullptr) return team.world()->places();
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return std::vector<World::Place>(static_cast<size_t>(team.ranks()), {host.data(), 0});
}

class Benchmark {
 public:
  Benchmark(const Options& options, const Distribution& distribution)
      : options_(options),
        distribution_(distribution),
        report_(options),
        progress_(options.reports()),
        json_(options.reports() ? options.json : ""),
        csv_(options.reports() ? options.csv : "") {}

  int run() {
    report_.begin();
    if (options_.world != nullptr && options_.world->ranks() == 1)
      report_.note("one process is one rank: " + std::string(launcherOf(options_.transport).usage) + " starts P");
    const std::vector<Shape> shapes = shapesOf(options_);
    for (const Shape& shape : shapes) cases_ += casesOf(options_, shape).size();
    for (const Shape& shape : shapes) runShape(shape);
    progress_.clear();
    if (options_.against == "dense") report_.conclude();
    json_.write(report_.json());
    csv_.write(report_.csv());
    if (report_.anyWrong()) return kWrongData;
    bool failed = false;
    for (const Assertion& assertion : options_.assertions)
      if (const auto failure = assertion.failure(report_.rows())) {
        fmt::print("# ASSERTION FAILED: {}\n", *failure);
        failed = true;
      }
    return failed ? kAssertionFailed : kGood;
  }

 private:
  void runShape(const Shape& shape) {
    Team team(shape.ranks, shape.device, shape.world);
    tellPath(team);
    const Roofline& roofline = rooflineOf(shape, team);
    report_.addRoofline(shape, roofline, options_.flags());
    const GradientPlan plan{shape.n,       shape.type,    options_.overlap,
                            options_.skew, options_.seed, variantsThatFit(shape.n, *shape.type, shape.ranks)};
    const Gradients gradients(plan, distribution_, team);
    if (plan.variants < 3) report_.note(fmt::format("memory for {} gradients a rank only", plan.variants));
    denseTotal_.reset();
    if (options_.against == "native") {
      denseTotal_ = nativeTotal(shape, gradients, team);
      report_.note(fmt::format("{} itself: {:.0f} us", shape.world->nativeSum(), *denseTotal_));
    }
    for (const Case& each : casesOf(options_, shape)) runCase(each, gradients, roofline, team);
  }

  // Once.
  void tellPath(Team& team) {
    if (std::exchange(pathTold_, true)) return;
    auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
    check(sparsecollCommGetDetails(team.comm(0), &details), "sparsecollCommGetDetails");
    report_.path(details, placesOf(team));
  }

  // The loops know nothing of element types. One shape's buffers at a time: the gradients need the memory, too.
  const Roofline& rooflineOf(const Shape& shape, Team& team) {
    const std::pair<uint64_t, int> key{shape.n, shape.ranks};
    if (!roofline_ || rooflineKey_ != key) {
      roofline_.reset();
      roofline_ = std::make_unique<Roofline>(shape.n, team);
      rooflineKey_ = key;
    }
    return *roofline_;
  }

  void runCase(Case what, const Gradients& gradients, const Roofline& roofline, Team& team) {
    const Shape& shape = what.shape;
    progress_.show(done_++, cases_, fmt::format("{}, {} x {}", what.method.preset, shape.n, shape.type->name()));
    Row row;
    row.n = shape.n;
    row.type = shape.type->name();
    row.density = what.method.density;
    row.preset = what.method.preset;
    row.ranks = shape.ranksText();
    try {
      measure(what, gradients, roofline, team, row);
    } catch (const UnsupportedError& error) {
      if (!shape.graph) throw;
      row.notCaptured = error.what();
    }
    progress_.clear();
    report_.add(row);
  }

  void measure(Case& what, const Gradients& gradients, const Roofline& roofline, Team& team, Row& row) {
    const Shape& shape = what.shape;
    const bool trials = what.method.preset == kAuto;
    const StepCounts counts{trials ? std::max(options_.warmup, kAutoSteps) : options_.warmup, options_.steps};
    if (!options_.noCheck) row.check = checkCase(what, options_.seed);
    if (what.method.threshold == 0 && what.method.params().selector == sparsecollSelectThreshold)
      what.method.threshold = thresholdOfTopK(what, gradients, counts);
    const Rate before = roofline.now(team);
    row.timing = timeSteps(what, gradients, counts);
    const Rate after = roofline.now(team);
    if (what.dense && options_.against != "native") denseTotal_ = row.timing.total;
    const auto bytes = static_cast<double>(shape.n * shape.type->bytes);
    const double ring = 2 * bytes * (shape.ranks - 1) / shape.ranks;
    if (ring > 0) row.wirePercent = 100 * static_cast<double>(row.timing.sentBytes) / ring;
    row.algbw = bytes / row.timing.total * 1e-3;
    row.busbw = ring / row.timing.total * 1e-3;
    if (!options_.against.empty() && denseTotal_) row.speedup = *denseTotal_ / row.timing.total;
    const bool momentum = what.method.params().momentum != 0;
    const auto local = static_cast<double>(localBytes(*shape.type, what.dense, options_.flags(), momentum) * shape.n);
    row.roofline = local / ((before.byWall + after.byWall) / 2) * 1e6;
    if (before.byCpu > 0) row.localRoofline = local / ((before.byCpu + after.byCpu) / 2) * 1e6;
  }

  // Microseconds of the rank that takes longest, the median of the timed steps.
  double nativeTotal(const Shape& shape, const Gradients& gradients, Team& team) const {
    std::vector<double> totals;
    team.run([&](Rank& rank) {
      const Memory out(shape.n * shape.type->bytes);
      std::vector<uint64_t> tookNs(static_cast<size_t>(rank.ranks));
      for (uint64_t s = 0; s < options_.warmup + options_.steps; ++s) {
        rank.sync();
        const uint64_t start = nowNs();
        shape.world->sum(gradients.of(rank, s), out.as<>(), shape.n, *shape.type);
        tookNs[rank.slot()] = nowNs() - start;
        rank.share(tookNs);
        if (s >= options_.warmup) totals.push_back(static_cast<double>(*std::ranges::max_element(tookNs)) / 1e3);
      }
    });
    const auto middle = totals.begin() + static_cast<std::ptrdiff_t>(totals.size() / 2);
    std::nth_element(totals.begin(), middle, totals.end());
    return *middle;
  }

  const Options& options_;
  const Distribution& distribution_;
  Report report_;
  Progress progress_;
  OutputFile json_, csv_;
  size_t cases_ = 0, done_ = 0;
  bool pathTold_ = false;
  std::unique_ptr<Roofline> roofline_;  // of the last shape
  std::pair<uint64_t, int> rooflineKey_;
  std::optional<double> denseTotal_;  // of the current shape
};

int runProgram(int argc, const char* const* argv) {
  std::optional<Options> options = parseOptions(argc, argv);
  if (!options) return kGood;
  if (options->list) {
    listPresets();
    return kGood;
  }
  if (!options->reports() && std::freopen("/dev/null", "w", stdout) == nullptr) return kEnvironment;
  const Distribution distribution(options->distribution);
  if (options->n.empty()) options->n = {distribution.length()};
  if (options->dryRun) {
    listCases(*options);
    return kGood;
  }
  if (options->device != kHost) {
    // A queue that two ranks' streams share may wait for what stands behind the wait. CUDA reads it when it starts.
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    useDevice(options->device);
  }
  return Benchmark(*options, distribution).run();
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  return bench::exitCodeOf("sparsecoll-perf", [&] { return bench::runProgram(argc, argv); });
}
