#include "bench/perf/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "bench/common/command_line.h"
#include "bench/perf/check.h"

namespace bench {

namespace {

constexpr const char* kDense = "dense";
constexpr const char* kNative = "native";
constexpr int kMostRanks = 1024;
constexpr uint64_t kMostSteps = 1000000;
constexpr double kMostThreshold = 1e30;
constexpr const char* kFooter =
    "Times are microseconds. select, exchange, scatter: medians over the timed steps of the slowest rank; total: "
    "median\n"
    "over the steps of the longest duration of a rank; p50, p99: of the single ranks' durations in all steps.\n"
    "algbw: bytes of the gradient / total, in 1e9 bytes a second; busbw: algbw * 2 (P - 1) / P, what each rank of a "
    "ring\n"
    "all-reduce would have to send at that speed; xdense: total of dense / total.\n"
    "sel%: entries sent / n; wire%: bytes sent / bytes of a ring all-reduce; union%: non-zeros of the sum / n;\n"
    "xroof: total / roofline, the time of the method's memory traffic at the bandwidth of this machine.\n"
    "inside_B, between_B: with --nodes, bytes that a rank sends to ranks of its node and to other nodes, at most.\n"
    "local, xlocal: the same in computing time of the slowest rank, without waits and turns of others on its core.";

// -n was the number of elements once.
CLI::Validator iterations() {
  return CLI::Validator(
      [](std::string& text) {
        const std::optional<uint64_t> number = numberIn<uint64_t>(text);
        if (number && *number >= 1 && *number <= kMostSteps) return std::string();
        const bool large = number && *number > kMostSteps;
        return fmt::format("{} is no number of timed steps, 1 to {}{}", text, kMostSteps,
                           large ? ": --elements sets the length of the gradient" : "");
      },
      fmt::format("[1 to {}]", kMostSteps));
}

CLI::Validator bytes() {
  return CLI::Validator(
      [](std::string& text) {
        return bytesIn(text) ? std::string() : text + " is no number of bytes, as 1048576, 1024K, 1M and 1G are";
      },
      "BYTES");
}

void addShapes(CLI::App& app, Options& options) {
  app.add_option("--elements", options.n,
                 "elements of the gradient, a list; with --dist file:PATH as many as the first recorded one has")
      ->default_str("1000000")
      ->delimiter(',')
      ->check(within<uint64_t>(1, kMostElements));
  addSizes(app, options);
  app.add_option("--density", options.densities, "entries to send / n, a list")->delimiter(',')->check(densities());
  app.add_option("--preset", options.presets, "methods, a list, or all (see --list); auto: the fastest, by trials")
      ->delimiter(',');
  app.add_option("-d,--dtype", options.types, elementTypeNames() + ", a list")->delimiter(',');
  app.add_option(
      "--nodes", options.nodes,
      "NODESxRANKS, for example 2x4: all methods go between nodes of so many ranks each; without --transport "
      "the ranks are threads");
  addRanks(app, options);
  app.add_option("--backend", options.backend, "host, cuda or cuda:ORDINAL: where the ranks' vectors lie");
  app.add_option("-o,--op", options.op, "sum or avg")->check(CLI::IsMember({"sum", "avg"}));
  app.add_flag("--out-preserved", options.outPreserved, "promise that nobody else writes the sum");
  app.add_flag("--no-residual", options.noResidual, "without error feedback");
  app.add_flag("--transactional", options.transactional, "a step that fails leaves the residual as it was");
  app.add_option("--threshold", options.threshold,
                 "of preset threshold; without it, the one that exact top-k arrives at with the same density")
      ->check(within(0.0, kMostThreshold));
}

void addData(CLI::App& app, Options& options) {
  app.add_option(
      "--dist", options.distribution,
      "normal, laplace, powerlaw:EXPONENT, file:PATH: recorded gradients, in a .npy file, a folder of them, or raw "
      "32-bit floats");
  app.add_option("--overlap", options.overlap, "share of the positions where all ranks have the same entry")
      ->check(within(0.0, 1.0));
  app.add_option("--skew", options.skew, "the vector's end has 1 - SKEW times the scale of its beginning")
      ->check(within(0.0, 1.0));
  app.add_option("--seed", options.seed, "of the gradients")->check(within<uint64_t>(0, UINT64_MAX));
}

void addRun(CLI::App& app, Options& options) {
  app.add_option("-n,--steps", options.steps, "timed steps")->check(iterations());
  app.add_option("-w,--warmup", options.warmup, "steps before them, for thresholds to settle")
      ->check(within<uint64_t>(0, kMostSteps));
  app.add_option("--in-turn", options.inTurn,
                 "0: time one method after the other; else all of one density take a step in turn, round by round, for "
                 "about so many seconds and at most --steps rounds, in which slow ones are left out")
      ->check(within(0.0, 86400.0));
  app.add_flag("--as-topka", options.asMuchAsTopK,
               "with --in-turn: P times the density for methods that would deliver fewer entries than topka, as theirs "
               "counts all ranks together");
  app.add_option(
         "--rest", options.restMs,
         "with --in-turn: so many milliseconds before each step, for the buckets of shaped links to be full again")
      ->check(within(0.0, 10000.0));
  app.add_option("--against", options.against,
                 "speed-up column: dense, or native: the transport's own sum, as MPI_Allreduce")
      ->check(CLI::IsMember({kDense, kNative}));
  app.add_flag("--graph", options.graph,
               "with --backend cuda: replay steps that were captured in CUDA graphs, without the host's part of them");
  app.add_option("-c,--check", options.check, "0: leave out the correctness phase")->check(within(0, 1));
  app.add_flag("--no-check", options.noCheck, "the same as -c 0");
  app.add_option("--csv", options.csv, "write the rows to this file, with a line of names");
  app.add_option("--json", options.json, "write the results to this file");
  app.add_flag("--list", options.list, "print the presets and end");
  app.add_flag("--dry-run", options.dryRun, "print the cases and end");
  app.add_option("--assert", options.assertionTexts,
                 "exit with 1 unless it holds, for example \"speedup>=1.2 @ density<=0.01, preset==topka\"")
      ->default_str("")
      ->allow_extra_args(false);
}

template <class Number>
std::optional<Number> numberAfter(const std::string& text, size_t colon) {
  return colon == std::string::npos ? std::nullopt : numberIn<Number>(std::string_view(text).substr(colon + 1));
}

int ranksOf(const std::string& text) {
  const size_t colon = text.find(':');
  if (text.substr(0, colon) != "threads") throw UsageError("--ranks " + text + ": this version has the engine threads");
  if (const auto ranks = numberAfter<int>(text, colon); ranks && *ranks >= 1 && *ranks <= kMostRanks) return *ranks;
  throw UsageError(fmt::format("--ranks {}: write threads:RANKS, 1 to {} of them", text, kMostRanks));
}

int deviceOf(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (text == "host") return kHost;
  if (text == "cuda") return 0;
  if (const auto ordinal = numberAfter<int>(text, colon); name == "cuda" && ordinal && *ordinal >= 0) return *ordinal;
  throw UsageError("--backend " + text + ": there are host, cuda and cuda:ORDINAL");
}

std::string inOneLine(const std::vector<std::string>& names) {
  std::string line;
  for (const std::string& name : names) line += (line.empty() ? "" : ", ") + name;
  return line;
}

void resolvePresets(Options& options) {
  const std::vector<std::string> known = presetNames();
  if (const auto all = std::ranges::find(options.presets, "all"); all != options.presets.end())
    options.presets.insert(options.presets.erase(all), known.begin(), known.end());
  for (const std::string& preset : options.presets)
    if (preset != kAuto && std::find(known.begin(), known.end(), preset) == known.end())
      throw UsageError(fmt::format("--preset {}: there are {}, {}", preset, inOneLine(known), kAuto));
}

// Every rank reads the environment when it makes a communicator.
void resolveNodes(Options& options, bool ranksGiven) {
  if (options.nodes.empty()) return;
  const size_t times = options.nodes.find('x');
  const auto nodes = numberIn<int>(std::string_view(options.nodes).substr(0, times));
  const auto ranks = numberAfter<int>(options.nodes, times);
  if (!nodes || !ranks || *nodes < 1 || *ranks < 1 || *ranks > kMostRanks / *nodes)
    throw UsageError(fmt::format("--nodes {}: write NODESxRANKS, at most {} ranks in all", options.nodes, kMostRanks));
  if (ranksGiven) throw UsageError("--nodes says how many ranks there are, so --ranks does not go with it");
  if (options.device != kHost) throw UsageError("--nodes: in host memory only");
  if (std::ranges::find(options.presets, kAuto) != options.presets.end())
    throw UsageError("--nodes: between nodes there is no preset auto");
  options.ranksPerNode = *ranks;
  options.ranks = {fmt::format("threads:{}", *nodes * *ranks)};
  (void)setenv("SPARSECOLL_RANKS_PER_NODE", std::to_string(*ranks).c_str(), 1);
}

// Processes are as many as were started.
void checkNodes(const Options& options) {
  if (options.world == nullptr || options.ranksPerNode == 0) return;
  const int ranks = options.world->ranks();
  const size_t times = options.nodes.find('x');
  if (options.nodes.substr(0, times) != std::to_string(ranks / options.ranksPerNode) ||
      ranks % options.ranksPerNode != 0)
    throw UsageError(fmt::format("--nodes {}: there are {} ranks", options.nodes, ranks));
}

void resolve(Options& options, bool ranksGiven) {
  resolvePresets(options);
  options.noCheck = options.noCheck || options.check == 0;
  if (options.bytes.asked() && !options.n.empty())
    throw UsageError("--elements and --minbytes, --maxbytes say the same thing: give one of them");
  for (const std::string& name : options.types)
    if (options.bytes.asked()) (void)options.bytes.elements(elementType(name).bytes);
  options.device = deviceOf(options.backend);
  if (options.graph && options.device == kHost) throw UsageError("--graph: steps are captured on --backend cuda only");
  if (options.inTurn != 0 && (options.device != kHost || options.against == kNative))
    throw UsageError("--in-turn: in host memory only, and not --against native");
  if (options.asMuchAsTopK && options.inTurn == 0) throw UsageError("--as-topka goes with --in-turn");
  if (options.restMs != 0 && options.inTurn == 0) throw UsageError("--rest goes with --in-turn");
  resolveNodes(options, ranksGiven);
  joinWorld(options, ranksGiven);
  checkNodes(options);
  for (const std::string& name : options.types)
    for (const int ranks : options.rankCounts)
      if (!options.noCheck && largestCheckInteger(elementType(name), ranks) < 1)
        throw UsageError(fmt::format("sums of {} ranks in {} are not exact, so they need --no-check", ranks, name));
  for (const std::string& text : options.assertionTexts) {
    options.assertions.emplace_back(text);
    if (options.assertions.back().metric() == "speedup_dense" && options.against.empty())
      throw UsageError("--assert " + text + ": a speed-up needs --against");
  }
}

}  // namespace

void addSizes(CLI::App& app, Options& options) {
  app.add_option("-b,--minbytes", options.bytes.least, "bytes of the vector, from this many, 4M for example")
      ->check(bytes());
  app.add_option("-e,--maxbytes", options.bytes.most, "to this many")->check(bytes());
  app.add_option("-f,--stepfactor", options.bytes.factor, "each time by this factor")->check(within(1.1, 1e6));
  app.add_option("-i,--stepbytes", options.bytes.increment, "or by so many more")->check(bytes());
}

void addRanks(CLI::App& app, Options& options) {
  app.add_option("--ranks", options.ranks,
                 "threads:RANKS, a list, for example threads:4,threads:7; not with the other transports")
      ->delimiter(',');
  std::string transports = "what ranks talk over, by default threads, and auto in processes that were started together";
  for (const Launcher& launcher : launchers()) transports += fmt::format("; {}: {}", launcher.name, launcher.usage);
  app.add_option("--transport", options.transport, transports);
}

void joinWorld(Options& options, bool ranksGiven) {
  const bool chosen = !options.transport.empty();
  if (!chosen) options.transport = !ranksGiven && wasLaunched() ? kAutoName : kThreadsName;
  if (const Launcher& launcher = launcherOf(options.transport); launcher.join != nullptr) {
    if (ranksGiven)
      throw UsageError(fmt::format("--ranks goes with --transport {}; with --transport {} every process is a rank: {}",
                                   kThreadsName, options.transport, launcher.usage));
    if (options.device != kHost) throw UsageError("--transport " + options.transport + ": in host memory only");
    options.world = launcher.join(launcher.transport);
    options.rankCounts = {options.world->ranks()};
  } else {
    for (const std::string& text : options.ranks) options.rankCounts.push_back(ranksOf(text));
  }
  if (options.against == kNative && (options.world == nullptr || options.world->nativeSum().empty()))
    throw UsageError("--against native: transport " + options.transport + " has no sum of its own");
}

uint32_t Options::flags() const {
  return (outPreserved ? SPARSECOLL_OUT_PRESERVED : 0u) | (noResidual ? SPARSECOLL_NO_RESIDUAL : 0u);
}

std::optional<Options> parseOptions(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Sparse against dense all-reduce: time, bytes and correctness of every method.", "sparsecoll-perf");
  beginOptions(app, kFooter);
  addShapes(app, options);
  addData(app, options);
  addRun(app, options);
  if (!parseArguments(app, argc, argv)) return std::nullopt;
  resolve(options, app.count("--ranks") != 0);
  return options;
}

std::string Shape::ranksText() const { return fmt::format("{}:{}", transport, ranks); }

std::vector<Shape> shapesOf(const Options& options) {
  std::vector<Shape> shapes;
  for (const std::string& name : options.types) {
    const ElementType& type = elementType(name);
    for (const uint64_t n : options.bytes.asked() ? options.bytes.elements(type.bytes) : options.n)
      for (const int ranks : options.rankCounts)
        shapes.push_back({n, &type, ranks, options.device, options.world.get(), options.transport, options.graph});
  }
  return shapes;
}

std::vector<Case> casesOf(const Options& options, const Shape& shape) {
  std::vector<Case> dense;
  std::vector<Case> sparse;
  const auto add = [&](const std::string& preset, double density) {
    Method method{preset, density, options.redOp(), options.flags(), options.threshold};
    method.transactional = options.transactional;
    method.overNodes = options.ranksPerNode != 0;
    if (!isDense(method.params()))
      sparse.push_back({shape, std::move(method), false});
    else if (dense.empty())
      dense.push_back({shape, std::move(method), true});
  };
  if (!options.against.empty()) add(kDense, 1);
  for (const double density : options.densities)
    for (const std::string& preset : options.presets) add(preset, density);
  for (Case& each : dense) each.method.density = 1;
  dense.insert(dense.end(), sparse.begin(), sparse.end());
  return dense;
}

}  // namespace bench
