// Ranks on several devices: steps and replays with the bits of the host, and calls whose thread has another device as
// its current one.
#include <string>

#include "tests/simt/simt.h"
#include "tests/simt/twins.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

// Two emulated devices for as long as this lives, and ranks on them in turn.
class TwoDevices {
 public:
  TwoDevices() { simt::setDevices(2); }
  ~TwoDevices() { simt::setDevices(1); }
  TwoDevices(const TwoDevices&) = delete;
  TwoDevices& operator=(const TwoDevices&) = delete;
  const Devices inTurn{std::vector<int>{0, 1}};
};

int currentDevice() {
  int device = -1;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

// Calls of a rank whose thread has another current device. What they should not have done is collected.
class Calls {
 public:
  explicit Calls(int rank) : other_(1 - rank), current_(other_) {}
  void operator()(const char* name, sparsecollResult_t result, sparsecollResult_t expected = sparsecollSuccess) {
    if (result != expected) wrong += std::string(name) + " returns " + sparsecollGetErrorString(result) + "; ";
    if (currentDevice() != other_) wrong += std::string(name) + " leaves another device; ";
  }
  std::string wrong;

 private:
  int other_;
  CurrentDevice current_;
};

constexpr uint64_t kLength = 401;

std::unique_ptr<SparseVector> threeEntries(bool room) {
  auto vector = std::make_unique<SparseVector>(sparsecollFloat32, kLength, room ? 100u : 3u);
  for (uint64_t i = 0; i < 3 && !room; ++i) vector->add(10 * i, 1);
  if (!room) vector->view()->flags |= SPARSECOLL_SORTED;
  return vector;
}

void callReducer(Calls& calls, sparsecollComm_t comm, sparsecollStream_t stream) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.1;
  const sparsecollParams_t params = preset("topka", 0.02);
  sparsecollReducer_t reducer = nullptr;
  calls("create", sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, &config, comm));
  Elements gradient(sparsecollFloat32, kLength), out(sparsecollFloat32, kLength);
  SparseVector sparse(sparsecollFloat32, kLength, kLength);
  calls("run", sparsecollReducerRun(reducer, gradient.data(), out.data(), stream));
  calls("wait", sparsecollCommWait(comm, stream, kWaitMs));
  calls("give back", sparsecollReducerGiveBack(reducer, out.data(), 1, stream));
  calls("run sparse", sparsecollReducerRunSparse(reducer, gradient.data(), sparse.view(), stream));
  calls("wait again", sparsecollCommWait(comm, stream, kWaitMs));
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  calls("stats", sparsecollReducerGetStats(reducer, &stats));
  if (stats.opsCompleted != 2) calls.wrong += "steps are not counted; ";
  void* residual = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  calls("residual", sparsecollReducerGetResidual(reducer, &residual, &n, &type));
  calls("density", sparsecollReducerSetDensity(reducer, 0.1));
  calls("scales", sparsecollReducerSetScales(reducer, 0.5, 2));
  size_t bytes = 0;
  calls("size", sparsecollReducerExport(reducer, nullptr, &bytes, stream));
  std::vector<std::byte> blob(bytes);
  calls("export", sparsecollReducerExport(reducer, blob.data(), &bytes, stream));
  calls("import", sparsecollReducerImport(reducer, blob.data(), bytes, stream));
  calls("import from", sparsecollReducerImportFrom(reducer, blob.data(), bytes, 1, stream));
  calls("flush", sparsecollReducerFlush(reducer, out.data(), stream));
  calls("reset", sparsecollReducerReset(reducer, stream));
  calls("wait at last", sparsecollCommWait(comm, stream, kWaitMs));
  calls("destroy", sparsecollReducerDestroy(reducer));
}

void callVectors(Calls& calls, sparsecollComm_t comm, sparsecollStream_t stream) {
  const sparsecollParams_t dense = preset("dense", 0), topk = preset("topka", 0.02);
  Elements vector(sparsecollFloat32, kLength);
  calls("all-reduce",
        sparsecollAllReduce(vector.data(), vector.data(), kLength, sparsecollFloat32, &dense, comm, stream));
  const auto in = threeEntries(false), other = threeEntries(false), out = threeEntries(true);
  calls("sum", sparsecollAllReduceVector(in->view(), out->view(), nullptr, comm, stream));
  calls("parts of the sum", sparsecollReduceScatterVector(in->view(), out->view(), nullptr, comm, stream));
  calls("gather", sparsecollAllGatherVector(in->view(), out->view(), comm, stream));
  calls("select", sparsecollSelect(vector.data(), kLength, sparsecollFloat32, &topk, out->view(), comm, stream));
  calls("merge", sparsecollMerge(in->view(), other->view(), out->view(), comm, stream));
  calls("scatter", sparsecollScatterAdd(in->view(), vector.data(), kLength, 1, comm, stream));
}

}  // namespace

TEST_CASE("steps and replays of ranks on two devices have the bits of the host") {
  const TwoDevices two;
  for (const std::string& name : allPresets()) {
    const sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.02);
    CAPTURE(name);
    constexpr int kRanks = 3;
    Twins twins(kRanks, kLength, params, nullptr, nullptr, two.inTurn);
    REQUIRE(twins.made());
    twins.makeVectors(1);
    RankGraphs graphs(kRanks);
    twins.checkStep(0);
    REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
    twins.checkReplay(graphs, 0, 1);
    twins.checkStep(0);
    twins.checkReplay(graphs, 0, 1);
  }
  checkEmulation();
}

TEST_CASE("the current device of a call may be another one, and stays it") {
  const TwoDevices two;
  for (const bool ownStreams : {true, false}) {
    CAPTURE(ownStreams);
    Ranks ranks(2, nullptr, two.inTurn);
    REQUIRE(ranks.result() == sparsecollSuccess);
    CHECK(currentDevice() == 0);
    const RankStreams streams(2, two.inTurn);
    std::vector<std::string> wrong(2);
    ranks.run([&](int rank, sparsecollComm_t comm) {
      Calls calls(rank);
      const sparsecollStream_t stream = ownStreams ? streams[rank] : nullptr;
      callReducer(calls, comm, stream);
      callVectors(calls, comm, stream);
      calls("abort", sparsecollCommAbort(comm));
      calls("wait after it", sparsecollCommWait(comm, stream, kWaitMs), sparsecollAborted);
      calls("destroy", sparsecollCommDestroy(ranks.release(rank)));
      wrong[static_cast<size_t>(rank)] = calls.wrong;
    });
    for (const std::string& text : wrong) CHECK(text == "");
  }
  checkEmulation();
}

TEST_CASE("more ranks on devices than a kernel's tables hold are refused") {
  const std::vector<int> places(257, 0);
  std::vector<sparsecollComm_t> comms(places.size());
  CHECK(sparsecollCommInitAll(comms.data(), 257, places.data(), nullptr) == sparsecollUnsupported);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("257 ranks on devices, at most 256 can be"));
  CHECK(comms[0] == nullptr);
}

TEST_CASE("a kernel, an event and a time of another device are refused, as by CUDA") {
  const TwoDevices two;
  const RankStreams streams(2, two.inTurn);
  cudaEvent_t events[2] = {nullptr, nullptr};
  for (int device = 0; device < 2; ++device) {
    const CurrentDevice current(device);
    REQUIRE(cudaEventCreateWithFlags(&events[device], cudaEventDefault) == cudaSuccess);
    CHECK(cudaEventRecord(events[device], streams[device]) == cudaSuccess);
    CHECK(cudaEventRecord(events[device], nullptr) == cudaSuccess);
  }
  float milliseconds = 0;
  CHECK(cudaEventRecord(events[0], streams[1]) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(events[1], nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(&milliseconds, events[0], events[1]) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(streams[0], events[1], 0) == cudaSuccess);
  for (cudaEvent_t event : events) CHECK(cudaEventDestroy(event) == cudaSuccess);
  (void)cudaGetLastError();
}
