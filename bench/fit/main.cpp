// sparsecoll-fit: recorded gradients, the distributions that SIDCo fits to them, and what every sampling selector's
// threshold keeps of them.
#include <fmt/core.h>

#include <cstdio>
#include <new>

#include "bench/common/errors.h"
#include "bench/fit/options.h"
#include "bench/fit/plot.h"
#include "bench/fit/report.h"

namespace bench {

namespace {

int runProgram(int argc, const char* const* argv) {
  const std::optional<Options> options = parseOptions(argc, argv);
  if (!options) return kGood;
  std::vector<Analysis> analyses;
  for (const std::string& file : options->files) print(analyses.emplace_back(file, options->densities));
  if (!options->json.empty()) writeJson(options->json, analyses);
  if (!options->svg.empty()) writePlot(options->svg, analyses);
  return kGood;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  const auto fail = [](const char* what, int code) {
    fmt::print(stderr, "sparsecoll-fit: {}\n", what);
    return code;
  };
  try {
    return bench::runProgram(argc, argv);
  } catch (const bench::UsageError& error) {
    return fail(error.what(), bench::kUsage);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", bench::kEnvironment);
  } catch (const std::exception& error) {
    return fail(error.what(), bench::kEnvironment);
  }
}
