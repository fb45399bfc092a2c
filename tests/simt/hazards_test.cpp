// What a real device does to a careless library: waits without end, loads kernels behind waiting streams, shares
// hardware queues, keeps last errors, spoils captures. The emulation does so, too (hostile_test.cpp).
#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

#include "tests/simt/simt.h"
#include "tests/simt/twins.h"
#include "tests/support/wanted.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRanks = 3;
constexpr uint64_t kAbortMs = 200;
// What has to be over in time is so long before this; what hangs ends only with the emulation's patience, which is
// longer.
constexpr auto kInTime = std::chrono::seconds(15);
constexpr unsigned kPatienceMs = 30'000;

// A case runs once a seed.
template <class Body>
void underSeeds(Body body) {
  for (uint64_t seed = 1; seed <= seedCount(2); ++seed) {
    const int connections = kRanks + 2 + static_cast<int>(seed % 4);
    CAPTURE(seed, connections);
    simt::setConnections(connections);
    simt::schedule(seed);
    simt::patience(kPatienceMs);
    body(seed);
    simt::schedule(0);
    simt::patience(60'000);
    CHECK(simt::errors().empty());
    for (const simt::Error& error : simt::errors()) std::cerr << error.message << '\n';
    simt::clearErrors();
  }
}

bool inTime(const std::function<void()>& call) {
  const auto begun = std::chrono::steady_clock::now();
  call();
  return std::chrono::steady_clock::now() - begun < kInTime;
}

std::atomic<int> linesLogged{0};
void countErrors(void*, sparsecollLogLevel_t level, const char* subsystem, const char*) {
  if (level == sparsecollLogError && std::string(subsystem) == "cuda") ++linesLogged;
}

sparsecollConfig_t impatient() {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.abortTimeoutMs = kAbortMs;
  config.logFn = countErrors;
  return config;
}

uint64_t abandonedBy(sparsecollComm_t comm) {
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  REQUIRE(sparsecollGetStats(comm, &stats) == sparsecollSuccess);
  return stats.bytesAbandoned;
}

// Ranks that have captured a step, all but the last of which replay it: they wait for its frame.
struct Stuck {
  Twins twins;
  Reducers extra;  // which take no part
  RankGraphs graphs;
  Stuck(const sparsecollConfig_t& config, const char* name)
      : twins(kRanks, 301, preset(name, 0.03), nullptr, &config),
        extra(twins.device.ranks(), 301, sparsecollFloat32, preset("micro", 0.03)),
        graphs(kRanks) {
    REQUIRE(twins.made());
    twins.makeVectors(1);
    REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
    twins.loadGradients(0, 1);
    for (int rank = 0; rank + 1 < kRanks; ++rank)
      REQUIRE(cudaGraphLaunch(graphs[rank], twins.streams[rank]) == cudaSuccess);
  }
  // The last rank does its part, too.
  void launchLast() { REQUIRE(cudaGraphLaunch(graphs[kRanks - 1], twins.streams[kRanks - 1]) == cudaSuccess); }
};

// A step of every preset; looks at the ranks afterwards.
void stepEveryPreset(const std::function<void(Twins&)>& look) {
  for (uint32_t p = 0; sparsecollPresetName(p) != nullptr; ++p) {
    const std::string name = sparsecollPresetName(p);
    CAPTURE(name);
    Twins twins(kRanks, 701, preset(name.c_str(), name == "dense" ? 0 : 0.03));
    if (!twins.made()) continue;
    twins.makeVectors(1);
    twins.loadGradients(0, p);
    CHECK(twins.step(0) == twins.good());
    look(twins);
  }
}

}  // namespace

TEST_CASE("A1: while replays wait for a flag that never rises, every rank aborts and is destroyed in time") {
  underSeeds([](uint64_t seed) {
    Stuck stuck(impatient(), seed % 2 == 0 ? "topka" : "spardl");
    Ranks& ranks = stuck.twins.device.ranks();
    bool otherInTime = false;
    std::thread other([&] { otherInTime = inTime([&] { (void)sparsecollCommAbort(ranks[1]); }); });
    CHECK(inTime([&] { CHECK(sparsecollCommAbort(ranks[0]) == sparsecollSuccess); }));
    other.join();
    CHECK(otherInTime);
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(inTime([&] { CHECK(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess); }));
    for (int rank = 0; rank < kRanks; ++rank) CHECK(cudaStreamSynchronize(stuck.twins.streams[rank]) == cudaSuccess);
  });
}

TEST_CASE("A1: behind replays that wait a reducer is destroyed in time, and what stays for ever is counted and logged") {
  underSeeds([](uint64_t) {
    linesLogged = 0;
    Stuck stuck(impatient(), "topka");
    const Ranks& ranks = stuck.twins.device.ranks();
    CHECK(abandonedBy(ranks[0]) == 0);
    CHECK(inTime([&] { CHECK(sparsecollReducerDestroy(stuck.extra[0]) == sparsecollSuccess); }));
    CHECK(abandonedBy(ranks[0]) > 0);
    CHECK(linesLogged > 0);
    stuck.launchLast();
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(sparsecollCommWait(ranks[rank], stuck.twins.streams[rank], kWaitMs) == sparsecollSuccess);
    // Now that nothing is under way memory goes back again.
    const uint64_t before = abandonedBy(ranks[1]);
    CHECK(sparsecollReducerDestroy(stuck.extra[1]) == sparsecollSuccess);
    CHECK(abandonedBy(ranks[1]) == before);
  });
}

TEST_CASE("A1: memory waits for what was enqueued, not for what comes later") {
  underSeeds([](uint64_t seed) {
    Twins twins(kRanks, 301, preset("topka", 0.03));
    REQUIRE(twins.made());
    twins.makeVectors(1);
    const simt::Memory before = simt::liveMemory();
    auto more = std::make_unique<Reducers>(twins.device.ranks(), 301, sparsecollFloat32, preset("micro", 0.03));
    CHECK(simt::liveMemory().bytes > before.bytes);
    std::atomic<bool> ends{false};
    std::thread stepping([&] {
      while (!ends) twins.step(0);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(seed % 5));
    ends = true;
    stepping.join();
    CHECK(inTime([&] { more.reset(); }));
    CHECK(simt::liveMemory().bytes == before.bytes);
  });
}

TEST_CASE("A2: no kernel is loaded after a communicator was made, whatever is called then") {
  underSeeds([](uint64_t) {
    const char* const kLoads = "a kernel is loaded";
    const Ranks first(kRanks, nullptr, kDevice);
    REQUIRE(first.result() == sparsecollSuccess);
    const uint64_t loads = simt::calls(kLoads);
    stepEveryPreset([&](Twins&) { CHECK(simt::calls(kLoads) == loads); });
  });
}

TEST_CASE("A2: what a rank calls for the first time does not wait for the replays of others, which wait for it") {
  underSeeds([](uint64_t) {
    Stuck stuck(impatient(), "topka");
    const sparsecollReducer_t reducer = stuck.twins.device.reducer(kRanks - 1);
    const cudaStream_t stream = stuck.twins.streams[kRanks - 1];
    Elements dense(sparsecollFloat32, 301);
    CHECK(inTime([&] {
      CHECK(sparsecollReducerGiveBack(reducer, stuck.twins.outs[0][kRanks - 1].data(), 1, stream) == sparsecollSuccess);
      CHECK(sparsecollReducerFlush(reducer, dense.data(), stream) == sparsecollSuccess);
      CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    }));
    stuck.launchLast();
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(sparsecollCommWait(stuck.twins.device.ranks()[rank], stuck.twins.streams[rank], kWaitMs) ==
            sparsecollSuccess);
  });
}

TEST_CASE("A3: ranks that captured steps of one device would hold up each other are refused, and told what to set") {
  underSeeds([](uint64_t) {
    Twins twins(kRanks, 301, preset("topka", 0.03));
    REQUIRE(twins.made());
    twins.makeVectors(1);
    RankGraphs graphs(kRanks);
    simt::setConnections(kRanks + 1);
    std::vector<std::string> texts(kRanks);
    const Results results = onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t) {
      const sparsecollResult_t result =
          captureGraph(twins.streams[rank], &graphs[rank], [&] { return twins.run(rank, 0); });
      texts[static_cast<size_t>(rank)] = sparsecollGetLastError();
      return result;
    });
    CHECK(results == all(kRanks, sparsecollUnsupported));
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(text.find("CUDA_DEVICE_MAX_CONNECTIONS is 4 and has to be 5 or more") != std::string::npos);
    }
    simt::setConnections(kRanks + 2);
    CHECK(twins.capture(graphs, 0, 1) == twins.good());
    twins.checkReplay(graphs, 0, 1);
  });
}

TEST_CASE("A3: with as many hardware queues as are asked for, replays meet and aborts set them free") {
  underSeeds([](uint64_t) {
    simt::setConnections(kRanks + 2);
    for (int times = 0; times < 4; ++times) {
      Stuck stuck(impatient(), "topka");
      const Ranks& ranks = stuck.twins.device.ranks();
      if (times % 2 == 0) stuck.launchLast();
      if (times % 2 == 1) CHECK(sparsecollCommAbort(ranks[times % kRanks]) == sparsecollSuccess);
      for (int rank = 0; rank < kRanks; ++rank) {
        const sparsecollResult_t wanted = times % 2 == 0           ? sparsecollSuccess
                                          : rank == times % kRanks ? sparsecollAborted
                                                                   : sparsecollPeerFailed;
        CHECK(inTime([&] { CHECK(sparsecollCommWait(ranks[rank], stuck.twins.streams[rank], kWaitMs) == wanted); }));
      }
    }
  });
}

TEST_CASE("A3: all ranks on a device share the library's streams there, and a wait is one call whatever the peers") {
  underSeeds([](uint64_t) {
    const uint64_t before = simt::calls("cudaStreamCreateWithPriority");
    Twins twins(kRanks, 301, preset("topka", 0.03));
    REQUIRE(twins.made());
    CHECK(simt::calls("cudaStreamCreateWithPriority") - before == 2);  // the test makes its own by another call
    twins.makeVectors(1);
    RankGraphs graphs(kRanks);
    const uint64_t waits = simt::calls("cuStreamBatchMemOp");
    REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
    // For the end of the operation before, and for each round: one call, not one for each of the two peers.
    CHECK(simt::calls("cuStreamBatchMemOp") - waits == 2 * kRanks);
    CHECK(simt::calls("cuStreamWaitValue32") == 0);
  });
}

TEST_CASE("A4: no call leaves behind a last error, of what was not ready or of what failed") {
  underSeeds([](uint64_t) {
    Stuck stuck(impatient(), "topka");
    const Ranks& ranks = stuck.twins.device.ranks();
    REQUIRE(cudaPeekAtLastError() == cudaSuccess);
    CHECK(sparsecollCommWait(ranks[0], stuck.twins.streams[0], 5) == sparsecollTimeout);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(sparsecollReducerDestroy(stuck.extra[0]) == sparsecollSuccess);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    stuck.launchLast();
    for (int rank = 0; rank < kRanks; ++rank) {
      CHECK(sparsecollCommWait(ranks[rank], stuck.twins.streams[rank], kWaitMs) == sparsecollSuccess);
      CHECK(cudaPeekAtLastError() == cudaSuccess);
    }
  });
}

TEST_CASE("A4: whichever call of the runtime fails, the caller's next look finds nothing") {
  simt::setConnections(8);
  std::vector<std::string> names;
  {
    simt::resetCalls();
    Twins twins(2, 301, preset("topka", 0.03));
    twins.makeVectors(1);
    CHECK(twins.step(0) == twins.good());
    for (const auto& [name, calls] : simt::calls())
      if (calls != 0 && name.find(' ') == std::string::npos) names.push_back(name);
  }
  CHECK(names.size() > 10);
  const sparsecollParams_t params = preset("topka", 0.03);
  const int devices[] = {0, 0};
  for (const std::string& name : names) {
    for (const uint64_t skip : {0, 3, 20}) {
      CAPTURE(name, skip);
      sparsecollComm_t comms[2] = {};
      simt::failCall(name, skip, cudaErrorLaunchOutOfResources);
      const sparsecollResult_t made = sparsecollCommInitAll(comms, 2, devices, nullptr);
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      if (made == sparsecollSuccess) {
        std::atomic<int> left{0};
        RankThreads::ofProcess().run(2, [&](int rank) {
          Elements vector(sparsecollFloat32, 301);
          sparsecollReducer_t reducer = nullptr;
          const auto calls = {
              std::function<sparsecollResult_t()>([&] {
                return sparsecollReducerCreate(&reducer, 301, sparsecollFloat32, &params, nullptr, comms[rank]);
              }),
              std::function<sparsecollResult_t()>([&] {
                return reducer == nullptr ? sparsecollCommAbort(comms[rank])
                                          : sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr);
              }),
              std::function<sparsecollResult_t()>([&] { return sparsecollCommWait(comms[rank], nullptr, 20'000); }),
              std::function<sparsecollResult_t()>([&] { return sparsecollReducerDestroy(reducer); }),
              std::function<sparsecollResult_t()>([&] { return sparsecollCommDestroy(comms[rank]); })};
          (void)cudaGetLastError();
          for (const auto& call : calls) {
            (void)call();
            left += cudaGetLastError() != cudaSuccess;
          }
        });
        CHECK(left == 0);
      }
      simt::forgetFailures();
      simt::clearErrors();
      (void)cudaGetLastError();
    }
  }
}

TEST_CASE("A7: ranks are made, and step, beside another thread's capture of the global mode") {
  underSeeds([](uint64_t seed) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, seed % 2 == 0 ? cudaStreamDefault : cudaStreamNonBlocking) ==
            cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    std::thread([&] {
      Twins twins(kRanks, 301, preset("topka", 0.03));
      REQUIRE(twins.made());
      twins.makeVectors(1);
      twins.loadGradients(0, seed);
      CHECK(twins.step(0) == twins.good());
    }).join();
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaStreamDestroy(stream);
  });
}

TEST_CASE("A7: no work is put on the legacy stream, unless the caller passes it") {
  underSeeds([](uint64_t) {
    const char* const kLegacy = "work on the legacy stream";
    const uint64_t before = simt::calls(kLegacy);
    stepEveryPreset([](Twins& twins) { (void)twins.device.stats(0); });
    CHECK(simt::calls(kLegacy) == before);
    Twins twins(kRanks, 301, preset("topka", 0.03));
    CHECK(twins.device.step() == twins.good());  // with NULL for a stream
    CHECK(simt::calls(kLegacy) > before);
  });
}
