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
#include "bench/perf/turns.h"

namespace bench {

namespace {

constexpr uint64_t kThresholdSteps = 20;  // that a threshold is sought in, if so many are timed

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
    for (const Shape& shape : shapes)
      cases_ += options_.inTurn != 0 ? options_.densities.size() : casesOf(options_, shape).size();
    for (const Shape& shape : shapes) runShape(shape);
    progress_.clear();
    if (options_.against == "dense") report_.conclude();
    json_.write(report_.json());
    csv_.write(report_.csv());
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw EnvironmentError("standard output cannot be written");
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
    if (options_.inTurn != 0)
      runInTurn(shape, gradients, roofline, team);
    else
      for (const Case& each : casesOf(options_, shape)) runCase(each, gradients, roofline, team);
  }

  // All methods of one density, beside dense. What others are compared with comes first.
  void runInTurn(const Shape& shape, const Gradients& gradients, const Roofline& roofline, Team& team) {
    for (const double density : options_.densities) {
      std::vector<Case> cases = casesOf(options_, shape);
      std::erase_if(cases, [&](const Case& each) { return !each.dense && each.method.density != density; });
      std::ranges::stable_partition(cases, [](const Case& each) { return each.dense || each.method.preset == kTopK; });
      show(shape, fmt::format("density {}", density));
      std::vector<std::optional<CheckResult>> checks;
      for (Case& each : cases) checks.push_back(prepared(each, gradients));
      const Turns turns{options_.inTurn, options_.steps, options_.warmup, options_.asMuchAsTopK, options_.restMs};
      const Rate before = roofline.now(team);
      const std::vector<Turn> timed = timeInTurns(cases, gradients, turns);
      const Rate after = roofline.now(team);
      progress_.clear();
      for (size_t i = 0; i < timed.size(); ++i) {
        Row row = rowOf(timed[i].what);
        row.check = checks[i];
        judge(timed[i].what, timed[i].timing, before, after, row);
        report_.add(row);
      }
    }
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

  void show(const Shape& shape, const std::string& what) {
    progress_.show(done_++, cases_, fmt::format("{}, {} x {}", what, shape.n, shape.type->name()));
  }

  static Row rowOf(const Case& what) {
    Row row;
    row.n = what.shape.n;
    row.type = what.shape.type->name();
    row.density = what.method.density;
    row.preset = what.method.preset;
    row.ranks = what.shape.ranksText();
    return row;
  }

  void runCase(Case what, const Gradients& gradients, const Roofline& roofline, Team& team) {
    show(what.shape, what.method.preset);
    Row row = rowOf(what);
    try {
      measure(what, gradients, roofline, team, row);
    } catch (const UnsupportedError& error) {
      if (!what.shape.graph) throw;
      row.notCaptured = error.what();
    }
    progress_.clear();
    report_.add(row);
  }

  StepCounts countsOf(const Case& what) const {
    const bool trials = what.method.preset == kAuto;
    return {trials ? std::max(options_.warmup, kAutoSteps) : options_.warmup, options_.steps};
  }

  // The correctness phase, and the threshold of a method that wants one.
  std::optional<CheckResult> prepared(Case& what, const Gradients& gradients) const {
    std::optional<CheckResult> checked;
    if (!options_.noCheck) checked = checkCase(what, options_.seed);
    if (what.method.threshold == 0 && what.method.params().selector == sparsecollSelectThreshold)
      what.method.threshold =
          thresholdOfTopK(what, gradients, {options_.warmup, std::min(options_.steps, kThresholdSteps)});
    return checked;
  }

  void measure(Case& what, const Gradients& gradients, const Roofline& roofline, Team& team, Row& row) {
    row.check = prepared(what, gradients);
    const Rate before = roofline.now(team);
    const Timing timing = timeSteps(what, gradients, countsOf(what));
    judge(what, timing, before, roofline.now(team), row);
  }

  // before, after: what the machine had left over then.
  void judge(const Case& what, const Timing& timing, const Rate& before, const Rate& after, Row& row) {
    const Shape& shape = what.shape;
    row.timing = timing;
    if (what.dense && options_.against != "native") denseTotal_ = timing.total;
    const auto bytes = static_cast<double>(shape.n * shape.type->bytes);
    const double ring = 2 * bytes * (shape.ranks - 1) / shape.ranks;
    if (ring > 0) row.wirePercent = 100 * static_cast<double>(timing.sentBytes) / ring;
    row.algbw = bytes / timing.total * 1e-3;
    row.busbw = ring / timing.total * 1e-3;
    if (!options_.against.empty() && denseTotal_) row.speedup = *denseTotal_ / timing.total;
    const bool momentum = what.method.params().momentum != 0;
    const auto local = static_cast<double>(localBytes(*shape.type, timing.dense, options_.flags(), momentum) * shape.n);
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
