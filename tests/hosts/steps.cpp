// Whole steps of ranks on several hosts, over MPI: dense sums by MPI and by the library, then methods, each at some
// densities. Prints a table; "wrong" counts entries that are not conserved, or not the same on all ranks. Ends with 1
// if there are any, or if a host's card sent much else than its ranks say they did. usage: mpirun ... steps ELEMENTS
// DENSITIES PRESETS STEPS      lists with commas; PRESETS may be all, and nodes:PRESET is the preset between nodes,
// which are the hosts
#include <sparsecoll/mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/presets.h"

namespace {

constexpr uint64_t kShift = 4099;  // from one step's gradient to the next one's
constexpr uint64_t kCheckLength = 100'000;
constexpr int kWarmup = 3;
constexpr const char* kOverNodes = "nodes:";
int rank = 0, ranks = 1;
MPI_Comm host = MPI_COMM_NULL;  // the ranks of this host

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, what.c_str(), sparsecollGetLastError());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}
void check(sparsecollResult_t result, const char* call) {
  if (result != sparsecollSuccess) die(call);
}
#define CHECK_CALL(call) check(call, #call)

std::vector<std::string> listOf(const char* text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

// About normal and different on every rank.
std::vector<float> gradientOf(uint64_t length) {
  std::vector<float> gradient(length);
  uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(rank + 1);
  for (float& x : gradient) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto part = [&](int shift) { return static_cast<float>(state >> shift & 0xffff); };
    x = (part(48) + part(32) + part(16) - 98302.5F) / 32768;
  }
  return gradient;
}

// What has left this host's card; 0 if nobody counts.
uint64_t cardBytes() {
  std::ifstream counter("/sys/class/net/eth0/statistics/tx_bytes");
  uint64_t bytes = 0;
  counter >> bytes;
  return bytes;
}

// At most so many bytes have left it once more, because the network had lost them. Shaped links with many senders do.
uint64_t resentBytes() {
  constexpr uint64_t kMostOfSegment = 1514;
  std::ifstream counters("/proc/net/snmp");
  std::string line, names;
  while (std::getline(counters, line)) {
    if (!line.starts_with("Tcp:")) continue;
    if (names.empty()) {
      names = line;
      continue;
    }
    std::istringstream name(names), value(line);
    std::string one, count;
    while (name >> one && value >> count)
      if (one == "RetransSegs") return std::stoull(count) * kMostOfSegment;
  }
  return 0;
}

uint64_t largest(uint64_t x) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return x;
}
double largest(double x) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return x;
}

// Of the ranks of this host.
uint64_t sumOnHost(uint64_t x) {
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_UINT64_T, MPI_SUM, host);
  return x;
}

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Times {
  std::vector<double> seconds;  // of the slowest rank, sorted
  uint64_t cardBytes;           // a step, on this host
  uint64_t resentBytes;         // at most so many of them
};

// What a method costs besides its time.
struct Costs {
  uint64_t sent = 0;         // bytes of the rank that sends most
  double selectSeconds = 0;  // of the rank that selects longest, the median over the steps
  uint64_t residual = 0;     // bytes of a rank
};

template <class Step>
Times timesOf(int steps, const Step& step) {
  std::vector<double> times;
  uint64_t before = 0, resent = 0;
  for (int i = -kWarmup; i < steps; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (i == 0) before = cardBytes(), resent = resentBytes();
    const double begin = MPI_Wtime();
    step(i + kWarmup);
    double took = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= 0) times.push_back(took);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::sort(times.begin(), times.end());
  const auto counted = static_cast<uint64_t>(steps);
  return {times, (cardBytes() - before) / counted, (resentBytes() - resent) / counted};
}

struct Reducer {
  Reducer(sparsecollComm_t comm, const std::string& preset, double density, uint64_t length, bool momentum = true)
      : n(length) {
    sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
    const bool overNodes = preset.starts_with(kOverNodes);
    const std::string flat = overNodes ? preset.substr(std::strlen(kOverNodes)) : preset;
    CHECK_CALL(sparsecollPreset(flat.c_str(), &params));
    if (flat != "dense") params.density = density;
    if (overNodes) params.betweenNodes = std::exchange(params.collective, sparsecollCollHierarchical);
    if (!momentum) params.momentum = 0;
    // For numbers that are drawn as gradientOf draws them: about the density that was asked for.
    if (flat == "threshold") params.threshold = 1.2 * std::sqrt(-2 * std::log(density));
    CHECK_CALL(sparsecollReducerCreate(&handle, n, sparsecollFloat32, &params, nullptr, comm));
  }
  ~Reducer() { CHECK_CALL(sparsecollReducerDestroy(handle)); }
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void run(const float* gradient, float* out) { CHECK_CALL(sparsecollReducerRun(handle, gradient, out, nullptr)); }
  sparsecollStats_t stats() const {
    sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
    CHECK_CALL(sparsecollReducerGetStats(handle, &stats));
    return stats;
  }
  std::span<const float> held() const {
    void* data = nullptr;
    uint64_t length = 0;
    sparsecollDataType_t type = sparsecollFloat32;
    CHECK_CALL(sparsecollReducerGetResidual(handle, &data, &length, &type));
    return {static_cast<const float*>(data), data == nullptr ? 0 : length};
  }
  // In the places of the whole vector.
  std::vector<double> residual() const {
    sparsecollReducerInfo_t info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
    CHECK_CALL(sparsecollReducerGetInfo(handle, &info));
    std::vector<double> whole(n);
    const std::span<const float> part = held();
    std::copy(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(info.shardBegin));
    return whole;
  }

  uint64_t n;
  sparsecollReducer_t handle = nullptr;
};

// Entries of a step that were lost, came from nowhere, or differ between ranks. Whole numbers make the sums exact.
uint64_t wrongEntries(sparsecollComm_t comm, const std::string& preset, double density) {
  Reducer reducer(comm, preset, density, kCheckLength, false);  // what goes in is the gradient
  std::vector<float> gradient(kCheckLength), out(kCheckLength), first(kCheckLength);
  uint64_t wrong = 0;
  for (uint64_t step = 0; step < 3; ++step) {
    for (uint64_t i = 0; i < kCheckLength; ++i)
      gradient[i] =
          static_cast<float>((i * 2654435761u + static_cast<uint64_t>(rank) * 40503u + step * 977u) % 255) - 127;
    std::vector<double> mass = reducer.residual();
    for (uint64_t i = 0; i < kCheckLength; ++i) mass[i] += gradient[i];
    reducer.run(gradient.data(), out.data());
    const std::vector<double> left = reducer.residual();
    for (uint64_t i = 0; i < kCheckLength; ++i) mass[i] -= left[i];
    MPI_Allreduce(MPI_IN_PLACE, mass.data(), static_cast<int>(kCheckLength), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    first = out;
    MPI_Bcast(first.data(), static_cast<int>(kCheckLength), MPI_FLOAT, 0, MPI_COMM_WORLD);
    for (uint64_t i = 0; i < kCheckLength; ++i) wrong += mass[i] != out[i] || first[i] != out[i] ? 1 : 0;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

class Table {
 public:
  Table(uint64_t n, int steps) : n_(n), steps_(steps), gradient_(gradientOf(n + 64 * kShift)), out_(n) {}

  void header() const {
    if (rank == 0)
      std::printf("%-16s %8s %10s %10s %12s %12s %10s %14s %9s %6s\n", "preset", "density", "median ms", "best ms",
                  "sent bytes", "card bytes", "select ms", "residual bytes", "x dense", "wrong");
  }

  // What dense gradients cost without the library: as MPI chooses to do it.
  void mpi() {
    const auto times = timesOf(steps_, [&](int step) {
      MPI_Allreduce(gradientAt(step), out_.data(), static_cast<int>(n_), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    print("MPI_Allreduce", 1, times, {2 * (static_cast<uint64_t>(ranks) - 1) * n_ / static_cast<uint64_t>(ranks) * 4},
          0);
  }

  void method(sparsecollComm_t comm, const std::string& preset, double density) {
    const uint64_t wrong = wrongEntries(comm, preset, density);
    wrong_ += wrong;
    Reducer reducer(comm, preset, density, n_);
    sparsecollStats_t before{};
    std::vector<double> selects;
    const auto times = timesOf(steps_, [&](int step) {
      if (step == kWarmup) before = reducer.stats();
      reducer.run(gradientAt(step), out_.data());
      if (step >= kWarmup) selects.push_back(static_cast<double>(reducer.stats().lastSelectNs) * 1e-9);
    });
    const sparsecollStats_t after = reducer.stats();
    const auto steps = static_cast<uint64_t>(steps_);
    Costs costs{(after.bytesSent - before.bytesSent) / steps, medianOf(selects), reducer.held().size_bytes()};
    const bool isDense = preset.ends_with("dense");
    if (isDense) costs.selectSeconds = 0;  // of velocity and the like, which there is none of
    const bool overNodes = preset.starts_with(kOverNodes);
    // A step. Packets have heads, what came is acknowledged, and ranks are told when to begin. A flat step does not
    // tell what it sends to ranks of its host.
    const uint64_t crossed =
        overNodes ? after.bytesSentBetweenNodes - before.bytesSentBetweenNodes : after.bytesSent - before.bytesSent;
    const uint64_t sent = sumOnHost(crossed / steps), here = sumOnHost(1), card = times.cardBytes;
    const bool known = overNodes || here == 1;
    const bool strange =
        known && card != 0 && (card < sent || card > sent + sent / 20 + 32768 * here + times.resentBytes);
    strange_ += largest(uint64_t{strange});
    print(preset, isDense ? 1 : density, times, costs, wrong);
    if (strange)
      std::printf("rank %d says that its host sent %llu bytes, its card %llu\n", rank,
                  static_cast<unsigned long long>(sent), static_cast<unsigned long long>(card));
  }

  // Both dense sums have been measured: what follows is compared with the faster one.
  void denseIsKnown() {
    for (const Line& line : lines_) dense_ = dense_ == 0 ? line.median : std::min(dense_, line.median);
    show();
  }

  bool right() const { return wrong_ == 0 && strange_ == 0; }

 private:
  const float* gradientAt(int step) const { return gradient_.data() + static_cast<uint64_t>(step % 64) * kShift; }

  struct Line {
    std::string name;
    double density, median, best;
    Costs costs;
    uint64_t card, wrong;
  };

  void print(const std::string& name, double density, const Times& times, const Costs& costs, uint64_t wrong) {
    const Costs most{largest(costs.sent), largest(costs.selectSeconds), largest(costs.residual)};
    lines_.push_back({name, density, medianOf(times.seconds), times.seconds[0], most, largest(times.cardBytes), wrong});
    if (dense_ != 0) show();
  }

  void show() {
    for (const Line& line : lines_)
      if (rank == 0)
        std::printf("%-16s %8g %10.1f %10.1f %12llu %12llu %10.1f %14llu %9.2f %6llu\n", line.name.c_str(),
                    line.density, line.median * 1e3, line.best * 1e3, static_cast<unsigned long long>(line.costs.sent),
                    static_cast<unsigned long long>(line.card), line.costs.selectSeconds * 1e3,
                    static_cast<unsigned long long>(line.costs.residual), dense_ / line.median,
                    static_cast<unsigned long long>(line.wrong));
    lines_.clear();
    std::fflush(stdout);
  }

  uint64_t n_;
  int steps_;
  std::vector<float> gradient_, out_;
  std::vector<Line> lines_;  // that wait for dense_
  double dense_ = 0;         // seconds of the better dense sum, once both have been measured
  uint64_t wrong_ = 0, strange_ = 0;
};

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
  if (count != 5) die("usage: steps ELEMENTS DENSITIES PRESETS STEPS");
  std::vector<std::string> presets = listOf(words[3]);
  if (presets == std::vector<std::string>{"all"}) presets = sparsecoll::test::allPresets();
  sparsecollComm_t comm = nullptr;
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 120'000;
  CHECK_CALL(sparsecollCommInitMpi(&comm, MPI_COMM_WORLD, SPARSECOLL_HOST, &config));
  Table table(std::strtoull(words[1], nullptr, 10), std::atoi(words[4]));
  table.header();
  table.mpi();
  table.method(comm, "dense", 1);
  table.denseIsKnown();
  for (const std::string& density : listOf(words[2]))
    for (const std::string& preset : presets)
      if (preset != "dense") table.method(comm, preset, std::atof(density.c_str()));
  CHECK_CALL(sparsecollCommDestroy(comm));
  MPI_Finalize();
  return table.right() ? 0 : 1;
}
