// The command line and the cases that it asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf/assertion.h"
#include "bench/perf/element.h"
#include "bench/perf/library.h"
#include "bench/perf/sizes.h"
#include "bench/perf/team.h"

namespace CLI {
class App;
}

namespace bench {

struct Options {
  std::vector<uint64_t> n;  // empty: by bytes, or the distribution's length
  Sweep bytes;
  std::vector<double> densities = {0.01};
  std::vector<std::string> presets = {"all"};
  std::vector<std::string> types = {"f32"};
  std::vector<std::string> ranks = {"threads:4"};
  std::string nodes;      // NODES x RANKS; empty: steps are flat
  std::string transport;  // empty: threads, or auto where this process is one of several that were started together
  std::string backend = "host";
  std::string distribution = "normal";
  double overlap = 0;
  double skew = 0;
  uint64_t steps = 20;
  uint64_t warmup = 10;
  double inTurn = 0;  // seconds that methods step in turn; 0: one is timed after the other
  bool asMuchAsTopK = false;
  double restMs = 0;  // before each step that is taken in turn
  std::string against;
  std::string op = "sum";
  bool outPreserved = false;
  bool noResidual = false;
  bool transactional = false;
  bool graph = false;
  double threshold = 0;
  uint64_t seed = 1;
  bool noCheck = false;
  int check = 1;  // 0: as noCheck
  std::string json;
  std::string csv;
  bool list = false;
  bool dryRun = false;
  std::vector<std::string> assertionTexts;

  std::vector<int> rankCounts;        // parsed from ranks
  int ranksPerNode = 0;               // parsed from nodes
  int device = kHost;                 // parsed from backend
  std::vector<Assertion> assertions;  // parsed from their texts
  std::shared_ptr<World> world;       // joined by transport; nullptr: threads

  bool reports() const { return world == nullptr || world->rank() == 0; }

  sparsecollRedOp_t redOp() const { return op == "avg" ? sparsecollAvg : sparsecollSum; }
  uint32_t flags() const;
};

// Nothing if all there was to do was to print the help. Throws UsageError.
std::optional<Options> parseOptions(int argc, const char* const* argv);

// The ranks of --transport, --ranks and the launcher. Throws UsageError.
void joinWorld(Options& options, bool ranksGiven);

// Options that sparsecoll-tune has, too.
void addSizes(CLI::App& app, Options& options);
void addRanks(CLI::App& app, Options& options);

// What shares gradients and a roofline.
struct Shape {
  uint64_t n;
  const ElementType* type;
  int ranks;
  int device;  // that all ranks share, or kHost
  World* world = nullptr;

  std::string ranksText() const;
  std::string transport = "threads";
  bool graph = false;  // steps are replayed
};

struct Case {
  Shape shape;
  Method method;
  bool dense;
};

std::vector<Shape> shapesOf(const Options& options);
// The dense preset comes first and only once: the others are compared with it, and density means nothing to it.
std::vector<Case> casesOf(const Options& options, const Shape& shape);

}  // namespace bench
