// sparsecoll-kernels: the host kernels on one thread, each beside the bandwidth of r += g in the same process.
#include <fmt/core.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/number.h"
#include "bench/common/program.h"
#include "bench/common/version.h"
#include "bench/kernels/benchmarks.h"
#include "bench/kernels/data.h"
#include "sparsecoll/sparsecoll.h"

namespace bench {

namespace {

constexpr const char* kHelp =
    "The host kernels on one thread, each beside the bandwidth of r += g in the same process.\n"
    "usage: sparsecoll-kernels [OPTIONS]\n"
    "  --n LIST          elements of the vector (default 26214400,1048576; with --dist as many as are recorded)\n"
    "  --density LIST    entries to select / n (default 0.1,0.01,0.001)\n"
    "  --dist file:PATH  recorded gradients (default normal noise)\n"
    "  --version         print the library's version and end\n"
    "  --help            print this and end\n";

const std::vector<uint64_t> kUsualLengths = {26214400, 1048576};
constexpr int kSelectionRanks[] = {1, 2, 4, 8, 16};
constexpr uint64_t kMostElements = 0xfffffffe;  // of a reducer
constexpr std::string_view kFile = "file:";

struct Lists {
  std::vector<uint64_t> n;  // empty: not given
  std::vector<double> densities = {0.1, 0.01, 0.001};
  std::string recording;  // path of recorded gradients; empty: normal noise
};

template <class T>
std::vector<T> numbers(std::string_view option, const std::string& text, T most) {
  std::vector<T> found;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view piece = std::string_view(text).substr(at, comma - at);
    const std::optional<T> number = numberIn<T>(piece);
    if (!number || !(*number > 0 && *number <= most))
      throw UsageError(fmt::format("{} {}: a list of numbers above 0, {} at most, is needed", option, text, most));
    found.push_back(*number);
    at = comma + 1;
  }
  return found;
}

// Takes our options out of the arguments and leaves the others to Google Benchmark.
class Arguments {
 public:
  Arguments(int argc, char** argv) : rest_(argv, argv + 1) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      const std::string_view name = argument.substr(0, argument.find('='));
      if (argument == "--version") {
        version_ = true;
        continue;
      }
      if (name != "--n" && name != "--density" && name != "--dist") {
        rest_.push_back(argv[i]);
        continue;
      }
      const bool joined = name.size() < argument.size();
      if (!joined && i + 1 == argc) throw UsageError(std::string(name) + " needs a value");
      set(name, joined ? std::string(argument.substr(name.size() + 1)) : argv[++i]);
    }
    count_ = static_cast<int>(rest_.size());
    rest_.push_back(nullptr);
  }

  const Lists& lists() const { return lists_; }
  bool version() const { return version_; }
  int* count() { return &count_; }
  char** rest() { return rest_.data(); }

 private:
  void set(std::string_view name, const std::string& text) {
    if (name == "--dist") {
      if (!text.starts_with(kFile) || text.size() == kFile.size())
        throw UsageError("--dist " + text + ": there is file:PATH");
      lists_.recording = text.substr(kFile.size());
    }
    if (name == "--n") lists_.n = numbers<uint64_t>(name, text, kMostElements);
    if (name == "--density") lists_.densities = numbers<double>(name, text, 1);
  }

  Lists lists_;
  bool version_ = false;
  std::vector<char*> rest_;
  int count_ = 0;
};

using AtLength = void (*)(benchmark::State& state, uint64_t n);
using AtDensity = void (*)(benchmark::State& state, uint64_t n, double density);

void add(const std::string& name, AtLength run, uint64_t n) {
  benchmark::RegisterBenchmark(fmt::format("{}/n:{}", name, n).c_str(), [=](benchmark::State& state) {
    run(state, n);
  })->Unit(benchmark::kMillisecond);
}

void add(const std::string& name, AtDensity run, uint64_t n, double density, const std::string& ending = "") {
  benchmark::RegisterBenchmark(fmt::format("{}/n:{}/density:{}{}", name, n, density, ending).c_str(),
                               [=](benchmark::State& state) { run(state, n, density); })
      ->Unit(benchmark::kMillisecond);
}

void addSelections(uint64_t n, double density) {
  for (const std::string& method : selectionMethods())
    for (const int ranks : kSelectionRanks)
      benchmark::RegisterBenchmark(fmt::format("selection/{}/n:{}/density:{}/P:{}", method, n, density, ranks).c_str(),
                                   [=](benchmark::State& state) { benchSelection(state, method, n, density, ranks); })
          ->Unit(benchmark::kMillisecond)
          ->UseManualTime();
}

void addAll(const Lists& lists) {
  for (const uint64_t n : lists.n) {
    add("inplace_add", benchInplaceAdd, n);
    add("read", benchRead, n);
    for (const double density : lists.densities) {
      add("fused_pass", benchFusedPass, n, density);
      add("exact_topk", benchExactTopK, n, density);
      add("threshold_select", benchThresholdSelect, n, density);
      add("nth_element", benchNthElement, n, density);
      add("merge", benchMerge, n, density, fmt::format("/P:{}", kMergeLists));
      add("combine", benchCombine, n, density, fmt::format("/P:{}", kCombineLists));
      addSelections(n, density);
    }
  }
}

void printHelp() {
  fmt::print("{}{}\nAnd the options of Google Benchmark:\n", kHelp, kExitCodes);
  std::fflush(stdout);
  benchmark::PrintDefaultHelp();
}

int runProgram(int argc, char** argv) {
  Arguments arguments(argc, argv);
  if (arguments.version()) {
    fmt::print("{}\n", versionText("sparsecoll-kernels"));
    return kGood;
  }
  benchmark::Initialize(arguments.count(), arguments.rest(), printHelp);
  if (benchmark::ReportUnrecognizedArguments(*arguments.count(), arguments.rest())) return kUsage;
  benchmark::AddCustomContext("isa", hostKernels().name());
  benchmark::AddCustomContext("libsparsecoll", sparsecollGetBuildInfo());
  // A packaged Google Benchmark may have been built without NDEBUG, and says so of itself as "Library".
  benchmark::AddCustomContext("note",
                              "a warning that \"Library was built as DEBUG\" is about Google Benchmark's own "
                              "library, which keeps the time, not about the kernels that are timed");
  Lists lists = arguments.lists();
  const uint64_t recorded = lists.recording.empty() ? 0 : Data::useRecording(lists.recording);
  if (lists.n.empty()) lists.n = recorded != 0 ? std::vector{recorded} : kUsualLengths;
  addAll(lists);
  benchmark::RunSpecifiedBenchmarks();
  return kGood;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  return bench::exitCodeOf("sparsecoll-kernels", [&] { return bench::runProgram(argc, argv); });
}
