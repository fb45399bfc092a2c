// The command line of sparsecoll-fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bench {

struct Options {
  std::vector<std::string> files;
  std::vector<double> densities = {0.1, 0.01, 0.001};
  std::string svg;
  std::string json;
};

// Nothing if all there was to do was to print the help. Throws UsageError.
std::optional<Options> parseOptions(int argc, const char* const* argv);

}  // namespace bench
