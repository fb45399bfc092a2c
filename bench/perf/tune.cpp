// sparsecoll-tune: what auto's candidates take on these ranks, as a file for SPARSECOLL_TUNER_FILE.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/common/clock.h"
#include "bench/common/output_file.h"
#include "bench/common/program.h"
#include "bench/perf/progress.h"
#include "bench/perf/tune.h"
#include "bench/perf/turns.h"
#include "src/candidates.h"

namespace bench {

namespace {

namespace format = sparsecoll;

std::vector<Case> casesAt(const Shape& shape, double density) {
  std::vector<Case> cases;
  for (const format::CandidateRow& row : format::kCandidates) {
    Method method{row.preset, row.countsAllRanks ? std::min(1.0, density * shape.ranks) : density};
    const bool dense = isDense(method.params());
    cases.push_back({shape, std::move(method), dense});
  }
  return cases;
}

// As the library counts them.
int nodesOf(Team& team) {
  int nodes = 0;
  team.run([&](Rank& rank) {
    Method method{"dense"};
    method.overNodes = true;
    const Reducer reducer(method, 1, elementType("f32"), rank.comm);
    if (rank.leads()) nodes = reducer.info().nodes;
    rank.sync();
  });
  return nodes;
}

std::string headOf(const Shape& shape) {
  Team team(shape.ranks, shape.device, shape.world);
  auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
  check(sparsecollCommGetDetails(team.comm(0), &details), "sparsecollCommGetDetails");
  const auto build = nlohmann::json::parse(sparsecollGetBuildInfo());
  std::string text = fmt::format("{}\n# sparsecoll {}, commit {}, {}\n", format::kTunerTitle,
                                 build["version"].get<std::string>(), build["commit"].get<std::string>(), dateText());
  text += fmt::format("{},{}\n{},{}\n{},{}\n{},{}\n{},{}", format::kTunerRanks, shape.ranks, format::kTunerNodes,
                      nodesOf(team), format::kTunerEngine, sparsecollTransportName(details.transport),
                      format::kTunerType, shape.type->name(), format::kTunerElements, format::kTunerDensity);
  for (const format::CandidateRow& row : format::kCandidates) text += fmt::format(",{}", row.preset);
  return text + "\n";
}

int runProgram(int argc, const char* const* argv) {
  const std::optional<TuneOptions> options = parseTuneOptions(argc, argv);
  if (!options) return kGood;
  const Options& of = options->of;
  if (!of.reports() && std::freopen("/dev/null", "w", stdout) == nullptr) return kEnvironment;
  OutputFile file(of.reports() ? options->out : "");
  Progress progress(of.reports());
  const std::vector<Shape> shapes = shapesOf(of);
  if (shapes.front().ranks == 1) throw UsageError("one rank alone exchanges nothing");
  if (of.rankCounts.size() != 1) throw UsageError("--ranks: one number of ranks goes into a file");
  std::vector<double> densities = of.densities;
  std::ranges::sort(densities);
  if (const auto twice = std::ranges::adjacent_find(densities); twice != densities.end())
    throw UsageError(fmt::format("--densities: {} is given twice", *twice));
  const Distribution distribution("normal");
  std::string text = headOf(shapes.front());
  fmt::print("{}", text);
  size_t done = 0;
  for (const Shape& shape : shapes) {
    Team team(shape.ranks, shape.device, shape.world);
    const Gradients gradients({shape.n, shape.type, 0, 0, of.seed, variantsThatFit(shape.n, *shape.type, shape.ranks)},
                              distribution, team);
    for (const double density : of.densities) {
      progress.show(done++, shapes.size() * of.densities.size(), fmt::format("{} at {}", shape.n, density));
      std::string line = fmt::format("{},{}", shape.n, density);
      for (const Turn& turn : timeInTurns(casesAt(shape, density), gradients, {options->seconds, of.steps, of.warmup}))
        line += fmt::format(",{:.6g}", turn.timing.total / 1e3);
      progress.clear();
      fmt::print("{}\n", line);
      std::fflush(stdout);
      text += line + "\n";
    }
  }
  file.write(text);
  fmt::print("# written to {}; SPARSECOLL_TUNER_FILE may name it\n", options->out);
  return kGood;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  return bench::exitCodeOf("sparsecoll-tune", [&] { return bench::runProgram(argc, argv); });
}
