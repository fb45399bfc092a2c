// The preset auto between processes, with the times that steps take here: whatever it chooses, all ranks choose it in
// the same step. A rank that is killed in a trial is named by the others, as in any step.
#include <csignal>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kLength = 20000;
constexpr uint64_t kMostTrials = 40;

uint64_t hashOfPlan(sparsecollReducer_t reducer, int64_t& last) {
  uint64_t count = 64;
  std::vector<sparsecollChoice_t> choices(count);
  if (sparsecollReducerGetPlan(reducer, choices.data(), &count) != sparsecollSuccess || count == 0) return 0;
  last = static_cast<int64_t>(choices[count - 1].step);
  return hashBytes(choices.data(), count * sizeof choices[0]);
}

void fill(std::vector<float>& gradient, int rank, int step) {
  Random random(static_cast<uint64_t>(rank * 1000 + step));
  for (float& x : gradient) x = static_cast<float>(random.bell());
}

}  // namespace

TEST_CASE("processes choose together") {
  for (const Way& way : engines()) {
    CAPTURE(way.name());
    Processes processes(kRanks, way);
    processes.start([&](int rank, Finding& finding) {
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      const sparsecollParams_t params = preset("auto", 0.01);
      sparsecollReducer_t reducer = nullptr;
      sparsecollResult_t result = sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm);
      std::vector<float> gradient(kLength), out(kLength);
      uint64_t hash = 1;
      for (int step = 0; result == sparsecollSuccess && step < 44; ++step) {
        fill(gradient, rank, step);
        result = sparsecollReducerRun(reducer, gradient.data(), out.data(), nullptr);
        hash = hashBytes(out.data(), out.size() * sizeof out[0], hash);
      }
      finding.hashes[0] = hash;
      finding.hashes[1] = hashOfPlan(reducer, finding.numbers[0]);
      std::snprintf(finding.text, sizeof finding.text, "%s", infoOf(reducer).reason);
      finding.result = result;
      (void)sparsecollReducerDestroy(reducer);
      (void)sparsecollCommDestroy(comm);
    });
    REQUIRE(processes.awaitEnd(60000));
    for (int rank = 0; rank < kRanks; ++rank) {
      CAPTURE(rank, processes[rank].text);
      CHECK(processes[rank].result == sparsecollSuccess);
      CHECK(processes[rank].hashes[0] == processes[0].hashes[0]);
      CHECK(processes[rank].hashes[1] == processes[0].hashes[1]);
      CHECK(processes[rank].hashes[1] != 0);
      CHECK(processes[rank].numbers[0] <= static_cast<int64_t>(kMostTrials));
      CHECK(std::string(processes[rank].text) == processes[0].text);
    }
    CHECK_THAT(std::string(processes[0].text), Catch::StartsWith("n 20k P 3: "));
  }
}

TEST_CASE("a rank that is killed in a trial") {
  for (const Way& way : engines())
    for (const int last : {0, 3}) {  // in a step of its own, and where ranks meet before one
      CAPTURE(way.name(), last);
      Processes processes(kRanks, way);
      processes.start([&](int rank, Finding& finding) {
        sparsecollComm_t comm = processes.join(rank);
        if (finding.made != sparsecollSuccess) return;
        const sparsecollParams_t params = preset("auto", 0.01);
        sparsecollReducer_t reducer = nullptr;
        sparsecollResult_t result =
            sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm);
        std::vector<float> gradient(kLength), out(kLength);
        for (int step = 0; result == sparsecollSuccess && step < 10; ++step) {
          if (rank == 1 && step == last) (void)raise(SIGKILL);
          fill(gradient, rank, step);
          result = sparsecollReducerRun(reducer, gradient.data(), out.data(), nullptr);
          finding.stage = step + 1;
        }
        finding.result = result;
        finding.peer = failureOf(comm).peer;
        finding.numbers[0] = sparsecollReducerFlush(reducer, out.data(), nullptr);
        (void)sparsecollReducerDestroy(reducer);
        (void)sparsecollCommDestroy(comm);
      });
      REQUIRE(processes.awaitEnd(60000, {1}));
      for (const int rank : {0, 2}) {
        CAPTURE(rank);
        CHECK(processes[rank].result == sparsecollPeerFailed);
        CHECK(processes[rank].peer == 1);
        CHECK(processes[rank].stage == last + 1);
        CHECK(processes[rank].numbers[0] == sparsecollSuccess);
      }
    }
}

}  // namespace sparsecoll::test
