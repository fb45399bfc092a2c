// sparsecoll-quality: how close every selector comes to the density it is asked for, as a table in Markdown. Error
// feedback on, five distributions, default and faithful, beside what one exact histogram gives.
#include <sparsecoll/sparsecoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/command_line.h"
#include "bench/common/course.h"
#include "bench/common/output_file.h"
#include "bench/common/program.h"

namespace {

using bench::Course;
using Engine = std::mt19937_64;
using Vector = std::vector<float>;

struct Options {
  uint64_t n = 262144;
  double density = 0.01;
  int ranks = 4;
  int steps = 300;
  int settled = 6;  // first step that counts
  std::vector<std::string> presets;
  std::string json;
};

double either(Engine& random, double x) { return random() % 2 == 0 ? x : -x; }

constexpr uint64_t kLayers = 61;

struct Distribution {
  const char* name;
  double (*draw)(Engine& random);
  bool layers;
};

double normal(Engine& random) { return std::normal_distribution<double>()(random); }

const Distribution kDistributions[] = {
    {"normal", normal, false},
    {"Laplace", [](Engine& random) { return either(random, std::exponential_distribution<double>()(random)); }, false},
    {"t3", [](Engine& random) { return std::student_t_distribution<double>(3)(random); }, false},
    {"gamma 1/2", [](Engine& random) { return either(random, std::gamma_distribution<double>(0.5)(random)); }, false},
    {"layers", normal, true},
};

// A rank's gradients of many steps from one set of numbers: each step starts to read every layer elsewhere.
class Stream {
 public:
  Stream(const Distribution& distribution, uint64_t n, int rank) : values_(n), layer_((n + kLayers - 1) / kLayers) {
    Engine random(static_cast<uint64_t>(rank) * 977 + 3);
    Engine scales(17);
    double scale = 1;
    for (uint64_t i = 0; i < n; ++i) {
      if (distribution.layers && i % layer_ == 0) scale = std::exp(std::normal_distribution<double>()(scales));
      values_[i] = static_cast<float>(1e-3 * scale * distribution.draw(random));
    }
  }
  void fill(Vector& gradient, uint64_t step) const {
    for (uint64_t begin = 0; begin < values_.size(); begin += layer_) {
      const uint64_t length = std::min(layer_, values_.size() - begin);
      for (uint64_t i = 0; i < length; ++i) gradient[begin + i] = values_[begin + (i + step * 1009) % length];
    }
  }

 private:
  Vector values_;
  uint64_t layer_;
};

nlohmann::json jsonOf(const Course& course) {
  return {{"mean", course.mean()}, {"least", course.least}, {"most", course.most}};
}

void must(sparsecollResult_t result) {
  if (result == sparsecollSuccess) return;
  throw bench::EnvironmentError(std::string(sparsecollGetErrorString(result)) + ": " + sparsecollGetLastError());
}

// The entries that reach the quantile of a histogram of acc with 32 bins an octave, over k.
double histogramRatio(const Vector& acc, uint64_t k) {
  std::vector<uint64_t> bins(8192);
  const auto keyOf = [](float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; };
  for (const float x : acc) ++bins[keyOf(x) >> 18];
  uint64_t above = 0;
  uint32_t bin = 8191;
  while (bin > 0 && above + bins[bin] < k) above += bins[bin--];
  const double part = static_cast<double>(k - above) / static_cast<double>(std::max<uint64_t>(bins[bin], 1));
  const auto low = static_cast<double>(std::bit_cast<float>(bin << 18));
  const auto high = static_cast<double>(std::bit_cast<float>((bin + 1) << 18));
  const double threshold = high - part * (high - low);
  const auto passing = std::count_if(acc.begin(), acc.end(), [&](float x) { return std::abs(x) >= threshold; });
  return static_cast<double>(passing) / static_cast<double>(k);
}

// Steps of all ranks; look(rank, reducer, step) after each.
void run(const Options& options, const std::string& preset, bool faithful, const std::vector<Stream>& streams,
         const std::function<void(int, sparsecollReducer_t, const Vector&, int)>& look) {
  std::vector<sparsecollComm_t> comms(static_cast<size_t>(options.ranks));
  must(sparsecollCommInitAll(comms.data(), options.ranks, nullptr, nullptr));
  std::mutex lock;
  std::exception_ptr failure;
  // A rank that fails takes the others out of their steps.
  const auto eachRank = [&](const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < options.ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          const std::lock_guard<std::mutex> guard(lock);
          if (failure == nullptr) failure = std::current_exception();
          (void)sparsecollCommAbort(comms[static_cast<size_t>(rank)]);
        }
      });
    for (std::thread& thread : threads) thread.join();
  };
  eachRank([&](int rank) {
    const auto r = static_cast<size_t>(rank);
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    must(sparsecollPreset(preset.c_str(), &params));
    params.density = options.density;
    params.faithful = faithful ? 1 : 0;
    params.momentum = 0;
    sparsecollReducer_t reducer = nullptr;
    must(sparsecollReducerCreate(&reducer, options.n, sparsecollFloat32, &params, nullptr, comms[r]));
    Vector gradient(options.n);
    Vector out(options.n);
    for (int step = 0; step < options.steps; ++step) {
      streams[r].fill(gradient, static_cast<uint64_t>(step));
      must(sparsecollReducerRun(reducer, gradient.data(), out.data(), nullptr));
      if (step >= options.settled) look(rank, reducer, gradient, step);
    }
    must(sparsecollReducerDestroy(reducer));
  });
  for (sparsecollComm_t comm : comms) (void)sparsecollCommDestroy(comm);
  if (failure != nullptr) std::rethrow_exception(failure);
}

Course courseOf(const Options& options, const std::string& preset, bool faithful, const std::vector<Stream>& streams) {
  std::vector<Course> courses(static_cast<size_t>(options.ranks));
  run(options, preset, faithful, streams, [&](int rank, sparsecollReducer_t reducer, const Vector&, int) {
    auto stats = SPARSECOLL_INIT(sparsecollStats_t);
    auto info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
    must(sparsecollReducerGetStats(reducer, &stats));
    must(sparsecollReducerGetInfo(reducer, &info));
    const uint64_t entries = info.densityIsGlobal != 0 ? stats.lastUnion : stats.lastSelected;
    courses[static_cast<size_t>(rank)].add(static_cast<double>(entries) / static_cast<double>(stats.lastRequested));
  });
  Course all;
  for (const Course& course : courses) {
    all.sum += course.sum;
    all.count += course.count;
    all.least = std::min(all.least, course.least);
    all.most = std::max(all.most, course.most);
  }
  return all;
}

// What error feedback with exact top-k accumulates, and a histogram makes of it.
Course histogramCourse(const Options& options, const std::vector<Stream>& streams) {
  Course course;
  std::vector<Vector> residual(1);
  const auto k = static_cast<uint64_t>(options.density * static_cast<double>(options.n));
  run(options, "topka", false, streams, [&](int rank, sparsecollReducer_t reducer, const Vector& gradient, int) {
    if (rank != 0) return;
    void* data = nullptr;
    uint64_t n = 0;
    sparsecollDataType_t type = sparsecollFloat32;
    must(sparsecollReducerGetResidual(reducer, &data, &n, &type));
    const auto* const after = static_cast<const float*>(data);
    if (!residual[0].empty()) {
      Vector acc = residual[0];
      for (uint64_t i = 0; i < n; ++i) acc[i] += gradient[i];
      course.add(histogramRatio(acc, k));
    }
    residual[0].assign(after, after + n);
  });
  return course;
}

std::vector<std::string> allPresets() {
  std::vector<std::string> names;
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i)
    if (std::string(sparsecollPresetName(i)) != "dense") names.emplace_back(sparsecollPresetName(i));
  return names;
}

// On a terminal, once it takes longer than two seconds: a line on stderr that the next one replaces.
class Progress {
 public:
  explicit Progress(size_t total) : total_(total), shows_(isatty(STDERR_FILENO) == 1) {}
  void begin(const std::string& what) {
    ++at_;
    if (!shows_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(2)) return;
    std::fprintf(stderr, "\r\033[K%zu of %zu: %s", at_, total_, what.c_str());
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  size_t total_;
  size_t at_ = 0;
  bool shows_;
  bool shown_ = false;
};

// The table on stdout, a line when it is complete, and the JSON file.
class Table {
 public:
  explicit Table(const Options& options)
      : options_(options), progress_(std::size(kDistributions) * (1 + 2 * options.presets.size())) {
    json_["context"] = {{"build", nlohmann::json::parse(sparsecollGetBuildInfo())},
                        {"n", options.n},
                        {"density", options.density},
                        {"ranks", options.ranks},
                        {"steps", options.steps},
                        {"settled", options.settled}};
    json_["rows"] = nlohmann::json::array();
    std::string line = "| |", rule = "|---|";
    for (const Distribution& distribution : kDistributions) {
      line += std::string(" ") + distribution.name + " |";
      rule += "---:|";
      streams_.emplace_back();
      for (int rank = 0; rank < options.ranks; ++rank) streams_.back().emplace_back(distribution, options.n, rank);
    }
    std::printf("%s\n%s\n", line.c_str(), rule.c_str());
  }

  void row(const std::string& name, bool faithful, const std::function<Course(const std::vector<Stream>&)>& measure) {
    const std::string title = name + (faithful ? ", faithful" : "");
    std::string line = "| " + title + " |";
    for (size_t i = 0; i < streams_.size(); ++i) {
      progress_.begin(title + ", " + kDistributions[i].name);
      const Course course = measure(streams_[i]);
      line += " " + course.text() + " |";
      nlohmann::json cell = jsonOf(course);
      cell.update({{"method", name}, {"faithful", faithful}, {"distribution", kDistributions[i].name}});
      json_["rows"].push_back(cell);
    }
    progress_.clear();
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  std::string json() const { return json_.dump(2) + "\n"; }

 private:
  const Options& options_;
  Progress progress_;
  std::vector<std::vector<Stream>> streams_;
  nlohmann::json json_;
};

int runProgram(int argc, char** argv) {
  Options options;
  const std::vector<std::string> known = allPresets();
  CLI::App app("Entries sent over entries asked for, by method and distribution: mean (least-most) of the steps.",
               "sparsecoll-quality");
  bench::beginOptions(app);
  app.add_option("-n,--elements", options.n, "elements of the gradient")
      ->check(bench::within<uint64_t>(1000, 1ull << 30));
  app.add_option("--density", options.density, "entries to send / n")->check(bench::within(1e-6, 1.0));
  app.add_option("--ranks", options.ranks, "threads")->check(bench::within(1, 64));
  app.add_option("--steps", options.steps, "with error feedback; the first six do not count")
      ->check(bench::within(8, 100000));
  app.add_option("--preset", options.presets, "methods, a list; without it all but dense")
      ->default_str("")
      ->delimiter(',');
  app.add_option("--json", options.json, "write the results to this file");
  if (!bench::parseArguments(app, argc, argv)) return bench::kGood;
  if (options.presets.empty()) options.presets = known;
  for (const std::string& preset : options.presets)
    if (std::find(known.begin(), known.end(), preset) == known.end())
      throw bench::UsageError("--preset " + preset +
                              ": no sparse method has this name; sparsecoll-perf --list has all");

  bench::OutputFile json(options.json);
  Table table(options);
  table.row("exact histogram", false,
            [&](const std::vector<Stream>& streams) { return histogramCourse(options, streams); });
  for (const std::string& preset : options.presets)
    for (const bool faithful : {false, true})
      table.row(preset, faithful,
                [&](const std::vector<Stream>& streams) { return courseOf(options, preset, faithful, streams); });
  json.write(table.json());
  return bench::kGood;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::exitCodeOf("sparsecoll-quality", [&] { return runProgram(argc, argv); });
}
