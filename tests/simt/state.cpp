#include "tests/simt/state.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>

#include "tests/simt/device.h"
#include "tests/simt/queue.h"

namespace simt {
namespace {

uint64_t numberOf(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr const char* kConnectionsVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr int kUsualConnections = 8;

// What the variable says, or else a number that is drawn, which the variable says from then on.
int connectionsOfEnvironment() {
  if (const uint64_t said = numberOf(kConnectionsVariable, 0); said != 0)
    return static_cast<int>(std::clamp<uint64_t>(said, 1, kMostConnections));
  const uint64_t drawn = 1 + (connectionsSeed() * 0x9e3779b97f4a7c15u >> 40) % kUsualConnections;
  setenv(kConnectionsVariable, std::to_string(drawn).c_str(), 1);
  std::clog << "emulated devices have " << drawn
            << " hardware queues (seed SPARSECOLL_SIMT_QUEUES=" << connectionsSeed() << ")\n";
  return static_cast<int>(drawn);
}

struct Shared {
  std::mutex mutex;
  std::vector<Error> errors;
  std::atomic<bool> broken{false};
  std::atomic<uint64_t> seed{numberOf("SPARSECOLL_SIMT_SEED", 0)};
  std::atomic<int> connections{connectionsOfEnvironment()};
  std::atomic<uint64_t> waitsGivenUp{0};
  std::atomic<unsigned> patience{60'000};
  std::atomic<bool> naps{false};
  std::atomic<bool> lag{false};
  std::atomic<uint64_t> kernels{0}, blocks{0}, threads{0}, switches{0};
  std::atomic<int64_t> objects{0};
  std::atomic<uint64_t> failingAllocation{UINT64_MAX};
};
Shared& shared() {
  static Shared instance;
  return instance;
}

struct OwnSchedule {
  bool own = false;
  uint64_t seed = 0, launches = 0;
};
thread_local OwnSchedule ownSchedule;
thread_local cudaError_t lastError = cudaSuccess;

// True for the one call that the countdown in `left` ends at.
bool countsDown(std::atomic<uint64_t>& left) {
  uint64_t seen = left.load();
  while (seen != UINT64_MAX) {
    if (left.compare_exchange_weak(seen, seen == 0 ? UINT64_MAX : seen - 1)) return seen == 0;
  }
  return false;
}

}  // namespace

void schedule(uint64_t seed) { shared().seed = seed; }
void scheduleThisThread(uint64_t seed) { ownSchedule = {.own = true, .seed = seed}; }
void scheduleThisThreadLikeAll() { ownSchedule = {}; }

uint64_t seedOfNextLaunch() {
  const uint64_t seed = ownSchedule.own ? ownSchedule.seed : shared().seed.load();
  if (seed == 0) return 0;
  constexpr uint64_t spread = 0x9e3779b97f4a7c15u;
  return (seed * spread ^ ++ownSchedule.launches) | 1;
}

void report(Misuse misuse, std::string message) {
  const std::scoped_lock lock(shared().mutex);
  shared().errors.push_back({misuse, std::move(message)});
  shared().broken = true;
}
bool broken() { return shared().broken; }
std::vector<Error> errors() {
  const std::scoped_lock lock(shared().mutex);
  return shared().errors;
}
void clearErrors() {
  Queue::dropAll();
  const std::scoped_lock lock(shared().mutex);
  shared().errors.clear();
  shared().broken = false;
  lastError = cudaSuccess;
}

uint64_t connectionsSeed() {
  static const uint64_t seed = numberOf("SPARSECOLL_SIMT_QUEUES", 1);
  return seed;
}
int connections() { return shared().connections; }
void setConnections(int count) {
  shared().connections = std::clamp(count, 1, kMostConnections);
  setenv(kConnectionsVariable, std::to_string(connections()).c_str(), 1);
}
void giveUpWaits() { ++shared().waitsGivenUp; }
uint64_t waitsGivenUp() { return shared().waitsGivenUp; }

void naps(bool wanted) { shared().naps = wanted; }
bool napsAreWanted() { return shared().naps; }
void lag(bool wanted) { shared().lag = wanted; }
bool lagIsWanted() { return shared().lag; }
void patience(unsigned milliseconds) { shared().patience = milliseconds; }
unsigned patienceMilliseconds() { return shared().patience; }

void count(const Work& done) {
  shared().kernels += done.kernels;
  shared().blocks += done.blocks;
  shared().threads += done.threads;
  shared().switches += done.switches;
}
Work work() {
  return {.kernels = shared().kernels,
          .blocks = shared().blocks,
          .threads = shared().threads,
          .switches = shared().switches};
}

// Functions announce themselves at their first call; a failure may be planted before.
struct Counters {
  struct Plan {
    uint64_t skip;
    cudaError_t error;
  };
  std::mutex mutex;
  std::map<std::string, Counter*> known;
  std::map<std::string, Plan> planned;

  static Counters& all() {
    static Counters instance;
    return instance;
  }
  static void plant(Counter& counter, Plan plan) {
    counter.planted_ = plan.error;
    counter.failAt_ = plan.skip;
  }
  static void reset(Counter& counter) { counter.calls_ = 0; }
  static uint64_t calls(const Counter& counter) { return counter.calls_; }
};

Counter::Counter(const char* name) : name_(name) {
  Counters& all = Counters::all();
  const std::scoped_lock lock(all.mutex);
  all.known[name] = this;
  if (const auto plan = all.planned.extract(name)) Counters::plant(*this, plan.mapped());
}

cudaError_t Counter::enter() {
  ++calls_;
  return countsDown(failAt_) ? planted_.load() : cudaSuccess;
}

uint64_t calls(const std::string& name) {
  const auto all = calls();
  const auto found = all.find(name);
  return found == all.end() ? 0 : found->second;
}
std::map<std::string, uint64_t> calls() {
  Counters& all = Counters::all();
  const std::scoped_lock lock(all.mutex);
  std::map<std::string, uint64_t> result;
  for (const auto& [name, counter] : all.known) result[name] = Counters::calls(*counter);
  return result;
}
void resetCalls() {
  Counters& all = Counters::all();
  const std::scoped_lock lock(all.mutex);
  for (const auto& [name, counter] : all.known) Counters::reset(*counter);
}
void failCall(const std::string& name, uint64_t skip, cudaError_t error) {
  Counters& all = Counters::all();
  const std::scoped_lock lock(all.mutex);
  if (const auto found = all.known.find(name); found != all.known.end()) {
    Counters::plant(*found->second, {skip, error});
  } else {
    all.planned[name] = {skip, error};
  }
}
void forgetFailures() {
  Counters& all = Counters::all();
  const std::scoped_lock lock(all.mutex);
  all.planned.clear();
  for (const auto& [name, counter] : all.known) Counters::plant(*counter, {UINT64_MAX, cudaSuccess});
  shared().failingAllocation = UINT64_MAX;
}

void failAllocation(uint64_t skip) { shared().failingAllocation = skip; }
bool allocationWillFail() { return shared().failingAllocation != UINT64_MAX; }
bool allocationFails() { return countsDown(shared().failingAllocation); }

void countObject(int64_t change) { shared().objects += change; }
uint64_t liveObjects() { return static_cast<uint64_t>(shared().objects.load()); }

cudaError_t finish(cudaError_t error) {
  if (error != cudaSuccess) lastError = error;  // NotReady, too
  return error;
}
cudaError_t takeLast(bool keep) {
  const cudaError_t last = broken() ? cudaErrorLaunchFailure : lastError;
  if (!keep) lastError = cudaSuccess;
  return last;
}

}  // namespace simt
