// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>

#include "bench/common/version.h"
#include "examples/common/learner.h"
#include "examples/common/result.h"
#include "examples/common/stop.h"
#include "examples/common/training.h"

namespace examples {

namespace {

std::vector<std::string> presetsOf(const ExchangeSettings& exchange) {
  std::vector<std::string> presets;
  if (!exchange.compare.empty()) presets.push_back(exchange.compare);
  for (const auto& wish : exchange.presets) {
    if (wish != "all") {
      presets.push_back(wish);
      continue;
    }
    for (uint32_t i = 0; const char* name = sparsecollPresetName(i); ++i) presets.emplace_back(name);
  }
  // Each once: results, checkpoints and the table go by the name.
  std::vector<std::string> once;
  for (const auto& preset : presets)
    if (std::find(once.begin(), once.end(), preset) == once.end()) once.push_back(preset);
  return once;
}

constexpr int kUsage = 3;

// Settings that would mean something else with this method, or nothing.
void checkExchange(const std::string& preset, const Settings& settings) {
  static_cast<void>(presetParams(preset));  // a wrong name is told here
  const auto& exchange = settings.exchange;
  const auto refuse = [&preset](const char* why) { throw std::runtime_error("preset '" + preset + "': " + why); };
  if (exchange.clipNorm > 0 && (exchange.bucketMegabytes > 0 || exchange.vectorDensity > 0))
    refuse("--clip-norm clips buckets, so it needs one: no --bucket-mb, no --vector-density");
}

// How to go on after a stop: the same command, from the checkpoint. Of a launcher's options only the number of ranks is
// known.
std::string commandToResume(int argc, char** argv, const std::string& directory) {
  std::string command = launchCommand();
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool replaced = word == "--resume" || word == "--stop-after";
    if (replaced) ++i;
    if (replaced || word.rfind("--resume=", 0) == 0 || word.rfind("--stop-after=", 0) == 0) continue;
    command += (word.find_first_of(" '\"$&;*") == std::string::npos ? word : "'" + word + "'") + " ";
  }
  return command + "--resume " + directory;
}

class Main {
 public:
  Main(Program& program, Settings settings) : program_(program), settings_(std::move(settings)) {
    if (const size_t launched = launchedRanks(); launched > 0) settings_.ranks = launched;
    auto& output = settings_.output;
    output.keepCheckpoint = !output.checkpointDir.empty() || !output.resumeDir.empty() || output.checkpointEvery > 0;
    if (output.checkpointDir.empty()) output.checkpointDir = output.resumeDir;
    if (output.checkpointDir.empty()) output.checkpointDir = program.name() + "-checkpoint";
  }

  /// Returns the signal that stopped it, or 0.
  int run();
  const std::optional<TrainingEnd>& stopped() const { return stopped_; }
  bool reports() const { return reports_; }
  const std::string& checkpointDir() const { return settings_.output.checkpointDir; }

 private:
  Program& program_;
  Settings settings_;
  std::optional<TrainingEnd> stopped_;
  bool reports_ = true;  // has rank 0
};

int Main::run() {
  const auto& output = settings_.output;
  const auto presets = presetsOf(settings_.exchange);
  for (const auto& preset : presets) checkExchange(preset, settings_);
  program_.open(settings_);
  if (!output.dumpDir.empty()) std::filesystem::create_directories(output.dumpDir);
  std::optional<RunState> resumed;
  if (!output.resumeDir.empty()) resumed = Checkpoint(output.resumeDir).read(describeRun(program_, settings_));

  const auto world = openWorld(settings_.ranks, devicesOf(settings_.device, settings_.ranks));
  reports_ = world->localRanks().front() == 0;
  MetricsLog log(reports_ ? output.metricsFile : "", resumed.has_value());
  Run run{program_, settings_, *world, log, presets.size(), {}};
  if (resumed) run.finished = resumed->finished;
  if (reports_) writeResults(program_, settings_, run.finished);  // a file that cannot be written ends it here, too
  const StopSignal stop;
  for (size_t i = run.finished.size(); i < presets.size(); ++i) {
    const auto from = resumed && resumed->preset == presets[i] ? resumed : std::nullopt;
    const auto end = train(run, presets[i], from);
    if (!end.result) {
      stopped_ = end;
      return end.signal;
    }
    run.finished.push_back(*end.result);
    if (reports_) writeResults(program_, settings_, run.finished);
  }
  if (!reports_) return 0;
  std::fputs(formatResults(run.finished, settings_.exchange.compare).c_str(), stdout);
  std::fputs(formatUnlearned(run.finished).c_str(), stdout);
  return 0;
}

}  // namespace

int runProgram(int argc, char** argv, Program& program) {
  Settings settings;
  CLI::App app(program.summary());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // so that words can be appended
  app.set_version_flag("--version", bench::versionText(program.name()), "print the library's version and end");
  app.footer("Exit codes: 0 good, 1 the training failed, 3 usage, 128 + the signal that stopped it.");
  program.addOptions(app, settings);
  addCommonOptions(app, settings);
  try {
    app.parse(argc, argv);
    checkSettings(settings);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // help and version are no faults
  }
  try {
    tuneProcess();
    Main main(program, settings);
    const int signal = main.run();
    if (!main.stopped()) return 0;
    if (main.reports()) {
      std::fprintf(stderr, "%s: stopped after step %zu; go on with\n  %s\n", program.name().c_str(),
                   main.stopped()->steps, commandToResume(argc, argv, main.checkpointDir()).c_str());
    }
    return signal == 0 ? 0 : 128 + signal;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.name().c_str(), error.what());
    return 1;
  }
}

}  // namespace examples
