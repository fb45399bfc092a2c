// The command line of sparsecoll-tune.
#pragma once

#include <optional>
#include <string>

#include "bench/perf/options.h"

namespace bench {

struct TuneOptions {
  Options of;  // sizes, densities, ranks and the counts of steps
  double seconds = 3;
  std::string out = "tuned.csv";
};

// Nothing if all there was to do was to print the help. Throws UsageError.
std::optional<TuneOptions> parseTuneOptions(int argc, const char* const* argv);

}  // namespace bench
