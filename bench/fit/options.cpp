#include "bench/fit/options.h"

#include <CLI/CLI.hpp>

#include "bench/common/command_line.h"

namespace bench {

namespace {

constexpr const char* kFooter =
    "Fits and thresholds come from the sample of the magnitudes that a reducer takes in its first step, exact counts "
    "from all.\n"
    "exponential, gamma and Pareto are one stage of sidco-e, sidco-gp and sidco-p, whose presets have three. sage is "
    "left out:\n"
    "its threshold follows that of the step before.";

}  // namespace

std::optional<Options> parseOptions(int argc, const char* const* argv) {
  Options options;
  CLI::App app("How well the thresholds of the sampling selectors fit recorded gradients.", "sparsecoll-fit");
  beginOptions(app, kFooter);
  app.add_option("FILE", options.files, "recorded gradients: .npy files, or raw 32-bit floats")->required();
  app.add_option("--density", options.densities, "entries to keep / n, a list")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(densities());
  app.add_option("--svg", options.svg, "draw the magnitudes and the fits into this file");
  app.add_option("--json", options.json, "write the results to this file");
  if (!parseArguments(app, argc, argv)) return std::nullopt;
  return options;
}

}  // namespace bench
