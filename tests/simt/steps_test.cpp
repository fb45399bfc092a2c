// What a step on a device asks of the runtime, what it tells of its time, and what it and its reducer hold.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "tests/simt/include/nvtx3/nvToolsExt.h"
#include "tests/simt/launcher.h"
#include "tests/simt/simt.h"
#include "tests/support/catch.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"
#include "tests/support/sent_dense.h"
#include "tests/support/step_calls.h"

using namespace sparsecoll::test;

namespace {

constexpr int kDevice = 0;

__global__ void traps(int) { __trap(); }

sparsecollParams_t paramsOf(const std::string& name, double density) {
  return preset(name.c_str(), name == "dense" ? 0 : density);
}

void checkCalls(const std::string& name, bool transactional, bool isError) {
  CAPTURE(name, transactional, isError);
  sparsecollReducerConfig_t reducerConfig = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  reducerConfig.transactional = transactional ? 1 : 0;
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  if (isError) config.nonFinite = sparsecollNonFiniteError;
  Group group(2, 5003, sparsecollFloat32, paramsOf(name, 0.02), &reducerConfig, &config, kDevice);
  if (group.created()[0] == sparsecollInvalidArgument && transactional) return;  // dense has no residual
  REQUIRE(group.created() == all(2, sparsecollSuccess));
  group.fillRandom(1);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  const simt::Memory before = simt::liveMemory();
  const uint64_t objects = simt::liveObjects();
  simt::resetCalls();
  for (uint64_t step = 2; step < 5; ++step) {
    group.fillRandom(step);
    if (step == 3) group.gradients[1].set(100, HUGE_VAL);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
  }
  uint64_t launches = 0;
  for (const auto& [call, count] : simt::calls()) {
    if (count == 0 || call == "work on the legacy stream") continue;  // which the test passes
    CAPTURE(call, count);
    CHECK(isCallOfStep(call));
    CHECK(whyNotInStep(call) == nullptr);
    if (call.starts_with("cudaLaunchKernel")) launches += count;
  }
  CHECK(launches > 0);
  CHECK(simt::liveMemory().allocations == before.allocations);
  CHECK(simt::liveObjects() == objects);
}

}  // namespace

TEST_CASE("after the first one a step allocates nothing, waits for nothing and copies nothing to the host") {
  for (const std::string& name : allPresets())
    for (const bool transactional : {false, true})
      for (const bool isError : {false, true}) checkCalls(name, transactional, isError);
  simt::clearErrors();
}

TEST_CASE("what a step must not call is known by its name, whatever stands behind that") {
  for (const char* const call : {"cuStreamSynchronize",
                                 "cuStreamSynchronize_ptsz",
                                 "cuCtxSynchronize_v2",
                                 "cuEventSynchronize",
                                 "cudaDeviceSynchronize_v3020",
                                 "cuMemcpyDtoH_v2",
                                 "cuMemcpy_ptds",
                                 "cuMemcpyHtoDAsync_v2_ptsz",
                                 "cuMemsetD8_v2",
                                 "cuMemAlloc_v2",
                                 "cudaMalloc_v3020",
                                 "cudaMallocFromPoolAsync_v11020",
                                 "cuMemAllocAsync_ptsz",
                                 "cuMemFree_v2",
                                 "cuMemFreeAsync",
                                 "cuMemHostAlloc",
                                 "cuMemHostRegister_v2",
                                 "cuEventCreate",
                                 "cuStreamCreateWithPriority",
                                 "cuStreamDestroy_v2",
                                 "cuGraphInstantiateWithFlags",
                                 "cuModuleLoadData",
                                 "cuLibraryLoadData",
                                 "cuMemPoolTrimTo",
                                 "cudaMemcpyAsync_ptsz",
                                 "cuMemsetD8Async",
                                 "cuMemcpyDtoDAsync_v2",
                                 "cudaMemcpyAsync of host memory"}) {
    CAPTURE(call);
    CHECK(whyNotInStep(call) != nullptr);
    CHECK_FALSE(isCallOfStep(call));
  }
  for (const char* const call : {"cudaLaunchKernelExC_v11060", "cudaEventRecord_v3020",
                                 "cudaStreamGetCaptureInfo_v3_v12030", "cudaSetDevice_v3020"}) {
    CAPTURE(call);
    CHECK(isCallOfStep(call));
    CHECK(whyNotInStep(call) == nullptr);
  }
  for (const char* const call :
       {"cuLaunchKernelEx", "cuLaunchKernel_ptsz", "cuEventRecord", "cuStreamWaitEvent", "cuEventQuery",
        "cuEventElapsedTime_v2", "cuStreamIsCapturing", "cuCtxGetCurrent", "cuCtxSetCurrent"}) {
    CAPTURE(call);
    CHECK(whyNotInStep(call) == nullptr);
  }
}

TEST_CASE("on devices, too, a reducer holds what it says and no more than its method declares") {
  constexpr uint64_t kLengths[] = {1000, 1u << 20};
  for (const std::string& name : allPresets())
    for (const uint64_t n : kLengths)
      for (const int ranks : {1, 4, 8}) {
        CAPTURE(name, n, ranks);
        const SentDense tensors(n);
        const bool sendsDense = ranks == 4 && name != "dense";
        Group group(ranks, n, sparsecollFloat32, paramsOf(name, 0.01), sendsDense ? tensors.config() : nullptr, nullptr,
                    kDevice);
        REQUIRE(group.created() == all(ranks, sparsecollSuccess));
        const sparsecollReducerInfo_t info = group.info();
        if (name != "dense") CHECK(info.workspaceBytes <= info.memoryBoundBytes);
        uint64_t held = 0;
        for (int rank = 0; rank < ranks; ++rank) held += infoOf(group.reducer(rank)).workspaceBytes;
        if (name != "dense") CHECK(held >= static_cast<uint64_t>(ranks) * n * 4);
        CHECK(group.stats(0).workspacePeakBytes <= std::max(info.memoryBoundBytes, info.workspaceBytes));
      }
}

TEST_CASE("what a reducer took from a device it gives back") {
  REQUIRE(Ranks(3, nullptr, kDevice).result() == sparsecollSuccess);  // whose flags are kept for the next ones
  const simt::Memory before = simt::liveMemory();
  const uint64_t objects = simt::liveObjects();
  {
    Group group(3, 5003, sparsecollFloat32, paramsOf("spardl", 0.02), nullptr, nullptr, kDevice);
    group.fillRandom(1);
    CHECK(group.step() == all(3, sparsecollSuccess));
    CHECK(simt::liveMemory().bytes > before.bytes);
  }
  CHECK(simt::liveMemory().bytes == before.bytes);
  CHECK(simt::liveObjects() == objects);
}

TEST_CASE("the phases of a step are ranges of tracing tools") {
  Group group(1, 5003, sparsecollFloat32, paramsOf("topka", 0.02), nullptr, nullptr, kDevice);
  group.fillRandom(1);
  simt::resetRanges();
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(simt::ranges() == std::vector<std::string>{"+select", "-", "+exchange", "-", "+scatter", "-"});
}

TEST_CASE("times of the last finished step are in the stats, and asking for them waits for nothing") {
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    Group group(2, 200003, sparsecollFloat32, paramsOf(name, 0.02), nullptr, nullptr, kDevice);
    CHECK(group.stats(0).lastTotalNs == 0);
    group.fillRandom(1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    const sparsecollStats_t stats = group.stats(0);
    CHECK(stats.lastTotalNs > 0);
    CHECK(stats.lastTotalNs == stats.lastSelectNs + stats.lastExchangeNs + stats.lastScatterNs);
    if (std::string(name) == "topka") {
      CHECK(stats.lastSelectNs > 0);
      CHECK(stats.lastExchangeNs > 0);
      CHECK(stats.lastScatterNs > 0);
    }
    simt::resetCalls();
    (void)group.stats(0);
    CHECK(simt::calls("cudaStreamSynchronize") == 0);
    CHECK(simt::calls("cudaEventSynchronize") == 0);
    CHECK(simt::calls("cudaDeviceSynchronize") == 0);
  }
}

namespace {

// Three steps of two ranks; refusals: before each call of the library's one of the caller's was refused, and its thread
// has not looked.
std::vector<Elements> outsOfSteps(const std::string& name, bool refusals) {
  const auto leaveError = [refusals] {
    if (refusals) (void)cudaSetDevice(-1);
  };
  std::atomic<int> wrong{0};  // last errors that are not the caller's
  const auto look = [&] {
    const cudaError_t last = cudaPeekAtLastError();
    wrong += last != cudaSuccess && last != cudaErrorInvalidDevice ? 1 : 0;
  };
  leaveError();
  Group group(2, 5003, sparsecollFloat32, paramsOf(name, 0.02), nullptr, nullptr, kDevice);
  REQUIRE(group.created() == all(2, sparsecollSuccess));
  for (uint64_t step = 1; step <= 3; ++step) {
    group.fillRandom(step);
    CHECK(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
            const auto r = static_cast<size_t>(rank);
            leaveError();
            const sparsecollResult_t ran =
                sparsecollReducerRun(group.reducer(rank), group.gradients[r].data(), group.outs[r].data(), nullptr);
            look();
            leaveError();
            const sparsecollResult_t waited = sparsecollCommWait(comm, nullptr, 0);
            look();
            (void)cudaGetLastError();
            return ran != sparsecollSuccess ? ran : waited;
          }) == all(2, sparsecollSuccess));
  }
  (void)cudaGetLastError();
  CHECK(wrong == 0);
  return group.outs;
}

}  // namespace

TEST_CASE("an error of the runtime's that was there before a call changes nothing") {
  for (const char* const name : {"dense", "topka", "micro", "spardl", "oktopk"}) {
    CAPTURE(name);
    CHECK((outsOfSteps(name, true) == outsOfSteps(name, false)));
  }
}

TEST_CASE("on a device that a kernel of the caller's has broken a step ends with an error, and so does a new start") {
  for (const char* const name : {"dense", "topka"}) {
    CAPTURE(name);
    Group group(2, 5003, sparsecollFloat32, paramsOf(name, 0.02), nullptr, nullptr, kDevice);
    group.fillRandom(1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    REQUIRE(group.wait() == all(2, sparsecollSuccess));
    REQUIRE(simt::test::launch(traps, 1, 1, 0, 0) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaErrorLaunchFailure);
    const Results stepped = group.step();
    const Results waited = group.wait();
    for (size_t r = 0; r < 2; ++r) {
      CAPTURE(stepped[r], waited[r], failureOf(group.ranks()[static_cast<int>(r)]).text);
      CHECK((stepped[r] != sparsecollSuccess || waited[r] != sparsecollSuccess));
    }
    CHECK((stepped[0] == sparsecollCudaError || stepped[1] == sparsecollCudaError || waited[0] == sparsecollCudaError ||
           waited[1] == sparsecollCudaError));
    sparsecollComm_t comms[2] = {};
    const int devices[] = {kDevice, kDevice};
    CHECK(sparsecollCommInitAll(comms, 2, devices, nullptr) == sparsecollCudaError);
    simt::clearErrors();
    (void)cudaGetLastError();
  }
}

TEST_CASE("a failed launch is told with the kernel's name and size") {
  Group group(1, 5003, sparsecollFloat32, paramsOf("topka", 0.02), nullptr, nullptr, kDevice);
  group.fillRandom(1);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  simt::failCall("cudaLaunchKernelEx", 1, cudaErrorLaunchOutOfResources);
  const sparsecollResult_t stepped = group.step()[0];
  const sparsecollResult_t waited = sparsecollCommWait(group.ranks()[0], nullptr, 0);
  simt::forgetFailures();
  CHECK((stepped == sparsecollCudaError || waited == sparsecollCudaError));
  const std::string text = failureOf(group.ranks()[0]).text;
  CAPTURE(text);
  CHECK(text.find("passTiles over 5003 elements on device 0") != std::string::npos);
}
