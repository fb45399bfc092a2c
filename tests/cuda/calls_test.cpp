// What steps on a real device ask of CUDA once they are under way: nothing that waits, takes memory or makes anything.
// tests/simt/steps_test.cpp has the same of the emulated runtime; tests/support/step_calls.h says which calls they are.
#include <cuda.h>

#include <cstdio>
#include <string>

#include "tests/cuda/counted_calls.h"
#include "tests/cuda/device_rank.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr int kDevice = 0;
constexpr uint64_t kLength = 100003;
constexpr int kWarmUp = 4, kCounted = 4;

// CUPTI has to be there before anything else is: what it is to tell of is not asked for earlier.
void needCounts() {
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);  // a kernel's first launch loads nothing
  static const std::string why = startCounting();
  (void)needDevices(1);
  if (why.empty()) return;
  std::printf("skipped: %s\n", why.c_str());
  std::exit(77);
}

std::vector<std::string> forbiddenIn(const std::map<std::string, uint64_t>& calls) {
  std::vector<std::string> found;
  for (const auto& [name, count] : calls)
    if (const char* const why = whyNotInStep(name); why != nullptr) found.push_back(name + " " + why);
  return found;
}

bool launches(const std::map<std::string, uint64_t>& calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const auto& call) { return call.first.find("LaunchKernel") != std::string::npos; });
}

void checkCalls(const std::string& name, int ranks) {
  CAPTURE(name, ranks);
  const Results allGood = all(ranks, sparsecollSuccess);
  const sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.01);
  Group group(ranks, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  REQUIRE(group.created() == allGood);
  const auto own = deviceRanks(ranks, kLength * sizeof(float), kDevice);
  std::vector<CallCounts> counts(own.size());
  for (int step = 0; step < kWarmUp + kCounted; ++step) {
    group.fillRandom(static_cast<uint64_t>(step));
    for (size_t r = 0; r < own.size(); ++r) own[r]->gradient.load(group.gradients[r].data());
    const auto run = [&](int rank) {
      DeviceRank& mine = *own[static_cast<size_t>(rank)];
      return sparsecollReducerRun(group.reducer(rank), mine.gradient.data(), mine.out.data(), mine.stream);
    };
    const auto runCounted = [&](int rank) {
      const Counting counting(counts[static_cast<size_t>(rank)]);
      return run(rank);
    };
    REQUIRE(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
              const sparsecollResult_t result = step < kWarmUp ? run(rank) : runCounted(rank);
              if (result != sparsecollSuccess) return result;
              return sparsecollCommWait(comm, own[static_cast<size_t>(rank)]->stream, 60000);
            }) == allGood);
  }
  for (const CallCounts& ofRank : counts) {
    CHECK(launches(ofRank.runtime));
    for (const auto& [call, count] : ofRank.runtime) {
      CAPTURE(call, count);
      CHECK(isCallOfStep(call));
    }
    CHECK(forbiddenIn(ofRank.runtime) == std::vector<std::string>());
    CHECK(forbiddenIn(ofRank.driver) == std::vector<std::string>());
  }
  const auto aStep = [](uint64_t calls) { return static_cast<double>(calls) / kCounted; };
  std::printf("%-12s %d ranks: rank 0 makes %.1f calls of the runtime and %.1f of the driver a step\n", name.c_str(),
              ranks, aStep(CallCounts::sumOf(counts[0].runtime)), aStep(CallCounts::sumOf(counts[0].driver)));
}

// A function of the driver, without linking to it.
template <class Function>
Function driverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found) == cudaSuccess);
#else
  REQUIRE(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found) == cudaSuccess);
#endif
  REQUIRE(found == cudaDriverEntryPointSuccess);
  return reinterpret_cast<Function>(function);
}

}  // namespace

TEST_CASE("after the first ones steps wait for nothing and take no memory from the driver") {
  needCounts();
  for (const std::string& name : allPresets())
    for (const int ranks : {1, 4}) checkCalls(name.c_str(), ranks);
}

TEST_CASE("what should not be called is counted where it is") {
  needCounts();
  const auto waitFor = [](cudaStream_t stream) { return cudaStreamSynchronize(stream) == cudaSuccess; };
  DeviceRank rank(1024);
  const auto wait = driverFunction<CUresult (*)(CUstream)>("cuStreamSynchronize");
  CallCounts nothing, runtime, driver, memory;
  {
    const Counting counting(nothing);
    cudaStreamCaptureStatus captures{};
    CHECK(cudaStreamIsCapturing(rank.stream, &captures) == cudaSuccess);
  }
  CHECK(nothing.runtime.size() == 1);
  CHECK(forbiddenIn(nothing.runtime).empty());
  CHECK(forbiddenIn(nothing.driver).empty());
  {
    const Counting counting(runtime);
    CHECK(waitFor(rank.stream));
  }
  CHECK(forbiddenIn(runtime.runtime).size() == 1);
  {
    const Counting counting(driver);
    CHECK(wait(rank.stream) == CUDA_SUCCESS);
  }
  CHECK(forbiddenIn(driver.driver).size() == 1);
  {
    const Counting counting(memory);
    const DeviceVector more(4096);
  }
  CHECK(forbiddenIn(memory.runtime).size() == 2);
  const uint64_t before = CallCounts::sumOf(runtime.runtime);
  CHECK(waitFor(rank.stream));  // after the section
  CHECK(CallCounts::sumOf(runtime.runtime) == before);
}
