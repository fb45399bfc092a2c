#include "bench/fit/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "bench/common/errors.h"

namespace bench {

namespace {

constexpr const char* kFooter =
    "Fits and thresholds come from the sample of the magnitudes that a reducer takes in its first step, exact counts "
    "from all.\n"
    "exponential, gamma and Pareto are one stage of sidco-e, sidco-gp and sidco-p, whose presets have three. sage is "
    "left out:\n"
    "its threshold follows that of the step before.\n"
    "Exit codes: 0 good, 3 usage, 4 environment.";

}  // namespace

std::optional<Options> parseOptions(int argc, const char* const* argv) {
  Options options;
  CLI::App app("How well the thresholds of the sampling selectors fit recorded gradients.", "sparsecoll-fit");
  app.get_formatter()->column_width(26);
  app.footer(kFooter);
  app.add_option("FILE", options.files, "recorded gradients: .npy files, or raw 32-bit floats")->required();
  app.add_option("--density", options.densities, "entries to keep / n, a list; 0.1,0.01,0.001")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--svg", options.svg, "draw the magnitudes and the fits into this file");
  app.add_option("--json", options.json, "write the results to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  for (const double density : options.densities)
    if (!(density > 0 && density <= 1)) throw UsageError(fmt::format("--density {}: it is in (0, 1]", density));
  return options;
}

}  // namespace bench
