// sparsecoll-device: what lies below a step on a CUDA device, one operation at a time, each beside the bandwidth of a
// copy in the same process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "bench/common/command_line.h"
#include "bench/common/output_file.h"
#include "bench/common/program.h"
#include "bench/device/report.h"

namespace bench {

namespace {

struct Options {
  std::vector<uint64_t> n = {25000000, 100000000, 1000000000};
  std::vector<double> densities = {0.001, 0.01};
  std::vector<std::string> only;
  Settings settings;
  int device = 0;
  std::string json;
  std::vector<std::string> beside;
  bool list = false;
};

constexpr std::span<const CaseKind> (*kKinds[])() = {loopCases,  selectionCases, feedbackCases,
                                                     rivalCases, listCases,      ruleCases};

bool wanted(const Options& options, const CaseKind& kind) {
  return options.only.empty() || std::find(options.only.begin(), options.only.end(), kind.name) != options.only.end();
}

// What the others are compared with is always measured.
bool needed(const Options& options, const CaseKind& kind) { return !kind.perDensity || wanted(options, kind); }

void forEach(const std::function<void(const CaseKind&)>& work) {
  for (const auto kinds : kKinds)
    for (const CaseKind& kind : kinds()) work(kind);
}

void checkNames(const Options& options) {
  for (const std::string& name : options.only) {
    bool known = false;
    forEach([&](const CaseKind& kind) { known = known || name == kind.name; });
    if (!known) throw UsageError(fmt::format("--only {}: there is no such case (see --list)", name));
  }
}

// Too little memory is no reason to leave out the cases that fit.
void runCase(const CaseKind& kind, const Vectors& vectors, const CaseKey& place, Report& report) {
  try {
    report.add(place, kind.run(vectors, place.density.value_or(0)));
  } catch (const OutOfDeviceMemory& error) {
    report.skip(place, error.what());
  }
}

void runLength(const Options& options, uint64_t n, Report& report) {
  const double largest = *std::max_element(options.densities.begin(), options.densities.end());
  const Device device(options.device, needFor(n, largest));
  const Vectors vectors(device, n, options.settings);
  forEach([&](const CaseKind& kind) {
    if (!needed(options, kind)) return;
    if (!kind.perDensity) return runCase(kind, vectors, {kind.name, n, std::nullopt, kind.who}, report);
    for (const double density : options.densities) runCase(kind, vectors, {kind.name, n, density, kind.who}, report);
  });
}

int runProgram(int argc, char** argv) {
  Options options;
  CLI::App app("The library's device code, one operation at a time.", "sparsecoll-device");
  beginOptions(app);
  app.add_option("--n", options.n, "elements of the vector, a list")
      ->delimiter(',')
      ->check(within<uint64_t>(1024, UINT32_MAX));
  app.add_option("--density", options.densities, "entries to select / n, a list")->delimiter(',')->check(densities());
  app.add_option("--only", options.only, "these cases, a list")->delimiter(',');
  app.add_option("--replays", options.settings.replays.count, "graphs that are timed")->check(within(1, 1000000));
  app.add_option("--graph-bytes", options.settings.replays.graphBytes, "that a graph moves at least")
      ->check(within(1.0, 1e15));
  app.add_option("--noises", options.settings.noises, "gradients that a loop with error feedback meets")
      ->check(within(1, 1000));
  app.add_option("--sets", options.settings.sets,
                 "of buffers to go around; 0: more than the device's cache holds twice")
      ->check(within(0, 64));
  app.add_option("--device", options.device, "ordinal")->check(within(0, 1023));
  app.add_option("--json", options.json, "write the results to this file");
  app.add_option("--beside", options.beside, "rows of other programs, JSON files: in the same table and the same file")
      ->delimiter(',');
  app.add_flag("--list", options.list, "print the cases and end");
  if (!parseArguments(app, argc, argv)) return kGood;
  checkNames(options);
  if (options.list) {
    forEach([](const CaseKind& kind) { fmt::print("{:<18} {:<10} {}\n", kind.name, kind.who, kind.what); });
    return kGood;
  }
  std::vector<nlohmann::json> beside;
  for (const std::string& path : options.beside) beside.push_back(readRows(path));
  OutputFile json(options.json);
  checkCuda(cudaSetDevice(options.device), "cudaSetDevice");
  Report report(options.settings);
  report.begin();
  for (const uint64_t n : options.n) {
    try {
      runLength(options, n, report);
    } catch (const OutOfDeviceMemory& error) {
      report.skip({"all", n, std::nullopt, kOurs}, error.what());
    }
    for (const nlohmann::json& file : beside) report.addOf(file, n);
  }
  json.write(report.json());
  return report.anyWrong() ? kWrongData : kGood;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  return bench::exitCodeOf("sparsecoll-device", [&] { return bench::runProgram(argc, argv); });
}
