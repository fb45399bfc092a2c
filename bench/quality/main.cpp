// sparsecoll-quality: how close every selector comes to the density it is asked for, as a table in Markdown. Error
// feedback on, five distributions, default and faithful, beside what one exact histogram gives.
#include <sparsecoll/sparsecoll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Engine = std::mt19937_64;
using Vector = std::vector<float>;

struct Options {
  uint64_t n = 262144;
  double density = 0.01;
  int ranks = 4;
  int steps = 300;
  int settled = 6;  // first step that counts
  std::vector<std::string> presets;
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

struct Course {
  double sum = 0, least = 1e300, most = 0;
  int count = 0;
  void add(double ratio) {
    sum += ratio;
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    ++count;
  }
  std::string text() const {
    char line[64];
    std::snprintf(line, sizeof line, "%.2f (%.2f-%.2f)", sum / count, least, most);
    return line;
  }
};

void must(sparsecollResult_t result) {
  if (result == sparsecollSuccess) return;
  std::fprintf(stderr, "sparsecoll-quality: %s: %s\n", sparsecollGetErrorString(result), sparsecollGetLastError());
  std::exit(1);
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
  const auto eachRank = [&](const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < options.ranks; ++rank) threads.emplace_back(body, rank);
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
  for (sparsecollComm_t comm : comms) must(sparsecollCommDestroy(comm));
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

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.presets = allPresets();
  CLI::App app("Entries sent over entries asked for, by method and distribution");
  app.add_option("-n,--elements", options.n, "elements of the gradient")->check(CLI::Range(1000ull, 1ull << 30));
  app.add_option("--density", options.density, "entries to send / n")->check(CLI::Range(1e-6, 1.0));
  app.add_option("--ranks", options.ranks, "threads")->check(CLI::Range(1, 64));
  app.add_option("--steps", options.steps, "with error feedback; the first six do not count")
      ->check(CLI::Range(8, 100000));
  app.add_option("--preset", options.presets, "methods, a list")->delimiter(',');
  CLI11_PARSE(app, argc, argv);

  std::printf("| |");
  for (const Distribution& distribution : kDistributions) std::printf(" %s |", distribution.name);
  std::printf("\n|---|---:|---:|---:|---:|---:|\n");
  std::vector<std::vector<Stream>> streams;
  for (const Distribution& distribution : kDistributions) {
    streams.emplace_back();
    for (int rank = 0; rank < options.ranks; ++rank) streams.back().emplace_back(distribution, options.n, rank);
  }
  std::printf("| exact histogram |");
  for (const auto& of : streams) std::printf(" %s |", histogramCourse(options, of).text().c_str());
  std::printf("\n");
  for (const std::string& preset : options.presets)
    for (const bool faithful : {false, true}) {
      std::printf("| %s%s |", preset.c_str(), faithful ? ", faithful" : "");
      for (const auto& of : streams) {
        std::printf(" %s |", courseOf(options, preset, faithful, of).text().c_str());
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  return 0;
}
