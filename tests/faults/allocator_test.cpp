// Memory from the caller's allocator: all of it, given back as it was got, and what becomes of a call that gets none
// (T46).
#include "tests/support/catch.h"

#include <string>

#include "tests/support/allocators.h"
#include "tests/support/group.h"
#include "tests/support/malloc_hooks.h"
#include "tests/support/presets.h"
#include "tests/support/same_steps.h"

using namespace sparsecoll::test;

namespace {

using Allocator = BookedAllocator<Pages>;

constexpr uint64_t kLength = 3000;

sparsecollParams_t paramsOf(const std::string& name, uint64_t seed = 7) {
  sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.05);
  params.seed = seed;
  if (name == "threshold") params.threshold = 1.5;
  return params;
}

uint64_t held(const Ranks& ranks) {
  uint64_t bytes = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
    if (sparsecollGetStats(ranks[rank], &stats) == sparsecollSuccess) bytes += stats.workspaceBytes;
  }
  return bytes;
}

// Two steps with the bits of ranks that take their memory from the process.
void checkSteps(Group& group, const sparsecollParams_t& params, uint64_t n = kLength) {
  const int ranks = group.count();
  Group plain(ranks, n, sparsecollFloat32, params);
  checkSameSteps(plain, group, 2);
}

}  // namespace

TEST_CASE("a communicator and its reducers hold nothing but the allocator's memory, and give it back") {
  for (const std::string& name : allPresets()) {
    CAPTURE(name);
    Allocator allocator;
    {
      const sparsecollConfig_t config = allocator.config();
      const sparsecollParams_t params = paramsOf(name);
      Group group(2, kLength, sparsecollFloat32, params, nullptr, &config);
      REQUIRE(group.created() == all(2, sparsecollSuccess));
      CHECK(allocator.bytes() == held(group.ranks()));
      const uint64_t before = allocator.calls();
      checkSteps(group, params);
      CHECK(allocator.calls() == before);  // no step asks for any
      CHECK(allocator.bytes() == held(group.ranks()));
    }
    CHECK(allocator.balanced());
  }
}

TEST_CASE("what grows with the vector does not come from the process") {
  if (!memory::hooked()) return;
  constexpr uint64_t kLong = 1u << 20;
  for (const std::string& name : allPresets()) {
    CAPTURE(name);
    Allocator allocator;
    const sparsecollConfig_t config = allocator.config();
    const sparsecollParams_t params = paramsOf(name);
    sparsecollReducer_t reducer = nullptr;
    const uint64_t before = memory::liveBytes();
    memory::resetPeak();
    const Ranks ranks(1, &config);
    REQUIRE(sparsecollReducerCreate(&reducer, kLong, sparsecollFloat32, &params, nullptr, ranks[0]) ==
            sparsecollSuccess);
    CHECK(memory::peakBytes() - before < kLong / 8);
    if (name != "dense") CHECK(allocator.bytes() > kLong * sizeof(float));
    CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  }
}

TEST_CASE("one-shot calls take from the allocator, too, and leave nothing") {
  Allocator allocator;
  const sparsecollConfig_t config = allocator.config();
  const Ranks ranks(2, &config);
  const uint64_t before = allocator.bytes();
  const sparsecollParams_t params = paramsOf("topka");
  std::vector<Elements> vectors(2, Elements(sparsecollFloat32, kLength, 1));
  const uint64_t calls = allocator.calls();
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          void* const vector = vectors[static_cast<size_t>(rank)].data();
          return sparsecollAllReduce(vector, vector, kLength, sparsecollFloat32, &params, comm, nullptr);
        }) == all(2, sparsecollSuccess));
  CHECK(allocator.calls() > calls);
  CHECK(allocator.bytes() == before);
}

TEST_CASE("the i-th piece of memory is not there: OutOfMemory, nothing is lost, and the call works the next time") {
  for (const char* const name : {"topka", "micro", "spardl", "oktopk", "dense"}) {
    uint64_t refusals = 0;
    for (uint64_t i = 0;; ++i) {
      CAPTURE(name, i);
      Allocator allocator;
      {
        const sparsecollConfig_t config = allocator.config();
        const sparsecollParams_t params = paramsOf(name);
        allocator.refuseAfter(i);
        sparsecollComm_t comms[2] = {nullptr, nullptr};
        const sparsecollResult_t made = sparsecollCommInitAll(comms, 2, nullptr, &config);
        if (made != sparsecollSuccess) {
          CHECK(allocator.refused());
          CHECK(made == sparsecollOutOfMemory);
          CHECK(comms[0] == nullptr);
          CHECK(allocator.balanced());
          ++refusals;
          continue;
        }
        for (sparsecollComm_t comm : comms) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
        allocator.refuseAfter(UINT64_MAX / 2);
        const Ranks ranks(2, &config);
        const uint64_t held = allocator.bytes();
        REQUIRE(i >= refusals);
        allocator.refuseAfter(i - refusals);
        const Reducers first(ranks, kLength, sparsecollFloat32, params);
        const bool refused = allocator.refused();
        if (refused) {
          const int lacking = first.result(0) == sparsecollOutOfMemory ? 0 : 1;
          CHECK(first.result(lacking) == sparsecollOutOfMemory);
          CHECK(first.result(1 - lacking) == sparsecollMismatch);
          CHECK(allocator.bytes() == held);
        }
        allocator.refuseAfter(UINT64_MAX / 2);
        Group group(2, kLength, sparsecollFloat32, params, nullptr, &config);
        const Reducers again(ranks, kLength, sparsecollFloat32, params);
        CHECK(again.result(0) == sparsecollSuccess);
        CHECK(again.result(1) == sparsecollSuccess);
        checkSteps(group, params);
        if (!refused) break;
      }
      CHECK(allocator.balanced());
    }
    CHECK(refusals > 0);
  }
}

TEST_CASE("memory that is not aligned goes back at once") {
  Allocator allocator;
  allocator.shiftBy(64);
  const sparsecollConfig_t config = allocator.config();
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, &config) == sparsecollInvalidUsage);
  CHECK(std::string(sparsecollGetLastError()).find("aligned") != std::string::npos);
  CHECK(comm == nullptr);
  CHECK(allocator.calls() > 0);
  CHECK(allocator.balanced());
}

TEST_CASE("an allocator without functions, or that is none, is refused") {
  const Allocator good;
  sparsecollComm_t comm = nullptr;
  sparsecollConfig_t config = good.config();
  sparsecollAllocator_t wrong = *good.get();
  config.allocator = &wrong;
  wrong.allocate = nullptr;
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, &config) == sparsecollInvalidArgument);
  wrong = *good.get();
  wrong.release = nullptr;
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, &config) == sparsecollInvalidArgument);
  wrong = *good.get();
  wrong.magic = 0;
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, &config) == sparsecollInvalidArgument);
  CHECK(std::string(sparsecollGetLastError()).find("allocator") != std::string::npos);
  CHECK(comm == nullptr);
}
