// sparsecoll-fit: recorded gradients, the distributions that SIDCo fits to them, and what every sampling selector's
// threshold keeps of them.
#include "bench/common/output_file.h"
#include "bench/common/program.h"
#include "bench/fit/options.h"
#include "bench/fit/plot.h"
#include "bench/fit/report.h"

namespace bench {

namespace {

int runProgram(int argc, const char* const* argv) {
  const std::optional<Options> options = parseOptions(argc, argv);
  if (!options) return kGood;
  OutputFile json(options->json);
  OutputFile svg(options->svg);
  std::vector<Analysis> analyses;
  for (const std::string& file : options->files) print(analyses.emplace_back(file, options->densities));
  json.write(jsonOf(analyses));
  svg.write(plotOf(analyses));
  return kGood;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  return bench::exitCodeOf("sparsecoll-fit", [&] { return bench::runProgram(argc, argv); });
}
