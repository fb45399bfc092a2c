// A great many small operations of all methods, with reducers, checkpoints and communicators that come and go between
// them (T51): at the end a rank has the memory, the descriptors and the threads that it had half way. `make soak`
// does ten million.
#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {
namespace {

constexpr int kRanks = 2;
constexpr uint64_t kLongest = 3000;
constexpr size_t kReducers = 6;
constexpr int64_t kSlackKilobytes = 8192;  // what allocators keep, and UCX

uint64_t operationsWanted() {
  const char* const text = std::getenv("SPARSECOLL_TEST_OPERATIONS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 30000;
}

int64_t entriesOf(const char* folder) {
  DIR* const directory = opendir(folder);
  if (directory == nullptr) return -1;
  int64_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

struct Footprint {
  int64_t kilobytes = 0, descriptors = 0, threads = 0;

  // One thread at a time: what it opens to look would be another one's descriptors.
  static Footprint now() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::ifstream statm("/proc/self/statm");
    int64_t all = 0, resident = 0;
    statm >> all >> resident;
    return {resident * sysconf(_SC_PAGESIZE) / 1024, entriesOf("/proc/self/fd"), entriesOf("/proc/self/task")};
  }
};

struct SoakResult {
  Footprint early, late;
  uint64_t hash = 1;  // of all sums
  int64_t failed = 0;
};

struct Used {
  sparsecollReducer_t reducer = nullptr;
  uint64_t n = 0;
  size_t type = 0;  // of kAllTypes
};

// One rank. What happens at an operation is drawn alike on all ranks.
class Soak {
 public:
  Soak(int rank, sparsecollComm_t comm, uint64_t operations)
      : rank_(rank), comm_(comm), operations_(operations), blob_(1 << 20) {
    for (const sparsecollDataType_t type : kAllTypes) {
      gradients_.emplace_back(type, 2 * kLongest);
      Random values(static_cast<uint64_t>(rank) + 5);
      for (uint64_t i = 0; i < 2 * kLongest; ++i) gradients_.back().set(i, values.bell());
      outs_.emplace_back(type, kLongest);
    }
  }

  SoakResult run() {
    for (Used& used : used_) renew(used);
    for (uint64_t at = 0; at < operations_ && result_.failed == 0; ++at) {
      if (at == operations_ / 2) result_.early = Footprint::now();
      perform();
    }
    result_.late = Footprint::now();
    add();  // no rank leaves, and closes what connects it to the others, before all have counted
    for (Used& used : used_) note(sparsecollReducerDestroy(used.reducer));
    return result_;
  }

 private:
  void note(sparsecollResult_t result) { result_.failed += result != sparsecollSuccess ? 1 : 0; }

  void perform() {
    const uint64_t drawn = random_.below(20000);
    Used& used = used_[random_.below(kReducers)];
    if (drawn == 0) return split();
    if (drawn < 10) return renew(used);
    if (drawn < 60) return keep(used);
    if (drawn < 400) return add();
    step(used);
  }

  void renew(Used& used) {
    note(sparsecollReducerDestroy(std::exchange(used.reducer, nullptr)));
    const char* const name = sparsecollPresetName(static_cast<int>(random_.below(presets_)));
    used.n = 1 + random_.below(kLongest);
    used.type = random_.below(std::size(kAllTypes));
    const sparsecollParams_t params = preset(name, std::string(name) == "dense" ? 0 : 0.05);
    note(sparsecollReducerCreate(&used.reducer, used.n, kAllTypes[used.type], &params, nullptr, comm_));
  }

  void step(Used& used) {
    const uint64_t bytes = bytesOf(kAllTypes[used.type]);
    const Elements& gradient = gradients_[used.type];
    Elements& out = outs_[used.type];
    const char* const from = static_cast<const char*>(gradient.data()) + random_.below(kLongest) * bytes;
    note(sparsecollReducerRun(used.reducer, from, out.data(), nullptr));
    result_.hash = hashBytes(out.data(), used.n * bytes, result_.hash);
  }

  void keep(Used& used) {
    size_t bytes = blob_.size();
    note(sparsecollReducerExport(used.reducer, blob_.data(), &bytes, nullptr));
    note(sparsecollReducerImport(used.reducer, blob_.data(), bytes, nullptr));
  }

  void add() {
    float in[64], sum[64];
    const uint64_t n = 1 + random_.below(64);
    for (uint64_t i = 0; i < n; ++i) in[i] = static_cast<float>(static_cast<uint64_t>(rank_) + i);
    const sparsecollParams_t params = preset("dense", 0);
    note(sparsecollAllReduce(in, sum, n, sparsecollFloat32, &params, comm_, nullptr));
    result_.hash = hashBytes(sum, n * sizeof(float), result_.hash);
  }

  void split() {
    sparsecollComm_t other = nullptr;
    note(sparsecollCommSplit(comm_, 0, rank_, &other, nullptr));
    note(sparsecollCommDestroy(other));
  }

  static uint64_t countPresets() {
    uint64_t count = 0;
    while (sparsecollPresetName(static_cast<int>(count)) != nullptr) ++count;
    return count;
  }

  const int rank_;
  sparsecollComm_t const comm_;
  const uint64_t operations_;
  const uint64_t presets_ = countPresets();
  Random random_{77};
  std::vector<Elements> gradients_, outs_;  // of kAllTypes
  std::vector<char> blob_;
  std::array<Used, kReducers> used_{};
  SoakResult result_;
};

void check(const std::string& name, const std::vector<SoakResult>& results) {
  CAPTURE(name);
  for (const SoakResult& result : results) {
    CHECK(result.failed == 0);
    CHECK(result.hash == results[0].hash);
    CHECK(result.late.kilobytes <= result.early.kilobytes + kSlackKilobytes);
    CHECK(result.late.descriptors == result.early.descriptors);
    CHECK(result.late.threads == result.early.threads);
  }
  const SoakResult& first = results[0];
  std::cout << name << ": " << operationsWanted() << " operations; kB " << first.early.kilobytes << " -> "
            << first.late.kilobytes << ", descriptors " << first.early.descriptors << " -> " << first.late.descriptors
            << ", threads " << first.early.threads << " -> " << first.late.threads << "\n";
}

}  // namespace

TEST_CASE("many operations of threads leave nothing behind") {
  std::vector<SoakResult> results(kRanks);
  const Ranks ranks(kRanks);
  ranks.run([&](int rank, sparsecollComm_t comm) {
    results[static_cast<size_t>(rank)] = Soak(rank, comm, operationsWanted()).run();
  });
  check("threads", results);
}

TEST_CASE("many operations of processes leave nothing behind") {
  for (const Way& way : engines()) {
    Processes processes(kRanks, way);
    processes.start([&](int rank, Finding& finding) {
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      const SoakResult result = Soak(rank, comm, operationsWanted()).run();
      int at = 0;
      for (const Footprint& footprint : {result.early, result.late})
        for (const int64_t number : {footprint.kilobytes, footprint.descriptors, footprint.threads})
          finding.numbers[at++] = number;
      finding.numbers[at] = result.failed;
      finding.hashes[0] = result.hash;
      finding.result = sparsecollCommDestroy(comm);
    });
    REQUIRE(processes.awaitEnd(8 * 3600 * 1000.0));
    std::vector<SoakResult> results;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Finding& finding = processes[rank];
      CAPTURE(rank, finding.text);
      REQUIRE(finding.made == sparsecollSuccess);
      CHECK(finding.result == sparsecollSuccess);
      const int64_t* const numbers = finding.numbers;
      results.push_back(
          {{numbers[0], numbers[1], numbers[2]}, {numbers[3], numbers[4], numbers[5]}, finding.hashes[0], numbers[6]});
    }
    check(way.name(), results);
  }
}

}  // namespace sparsecoll::test
