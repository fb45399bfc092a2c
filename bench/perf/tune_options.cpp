#include <CLI/CLI.hpp>

#include "bench/common/command_line.h"
#include "bench/perf/tune.h"

namespace bench {

namespace {

constexpr uint64_t kMostRounds = 1000000;

}  // namespace

std::optional<TuneOptions> parseTuneOptions(int argc, const char* const* argv) {
  TuneOptions options;
  Options& of = options.of;
  of.bytes = {"64K", "64M", "", 4};
  of.densities = {0.1, 0.01, 0.001};
  of.steps = 31;
  of.warmup = 2;
  CLI::App app(
      "Times the methods that the preset auto chooses among, on the ranks that were started, and writes a file. "
      "With SPARSECOLL_TUNER_FILE naming it, auto tries only those that were fast.",
      "sparsecoll-tune");
  beginOptions(app);
  addSizes(app, of);
  app.add_option("--density,--densities", of.densities, "entries to send / n, a list")
      ->delimiter(',')
      ->check(densities());
  app.add_option("-d,--dtype", of.types, elementTypeNames())->expected(1);
  addRanks(app, of);
  app.add_option("-n,--steps", of.steps, "timed steps of a method, at most")->check(within<uint64_t>(3, kMostRounds));
  app.add_option("-w,--warmup", of.warmup, "steps before them")->check(within<uint64_t>(0, kMostRounds));
  app.add_option("--seconds", options.seconds, "for each size and density, about; three steps are timed in any case")
      ->check(within(0.01, 86400.0));
  app.add_option("--seed", of.seed, "of the gradients")->check(within<uint64_t>(0, UINT64_MAX));
  app.add_option("-o,--out", options.out, "the file");
  if (!parseArguments(app, argc, argv)) return std::nullopt;
  (void)of.bytes.elements(elementType(of.types.front()).bytes);
  joinWorld(of, app.count("--ranks") != 0);
  return options;
}

}  // namespace bench
