// workspaceLimitBytes holds (T28): one byte less than needed is OutOfMemory on every rank, without effect, and at the
// limit calls work for ever.
#include "tests/support/catch.h"

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 5000;

struct MethodRow {
  const char* preset;
  bool faithful;
};
constexpr MethodRow kMethods[] = {{"topka", false}, {"threshold", false}, {"micro", false}, {"micro", true}};

sparsecollParams_t paramsOf(const MethodRow& row) {
  sparsecollParams_t params = preset(row.preset, 0.05);
  params.faithful = row.faithful ? 1 : 0;
  return params;
}

uint64_t peakOf(const Ranks& ranks) {
  uint64_t peak = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
    if (sparsecollGetStats(ranks[rank], &stats) == sparsecollSuccess) peak = std::max(peak, stats.workspacePeakBytes);
  }
  return peak;
}

sparsecollConfig_t limited(uint64_t bytes, uint64_t timeoutMs = 20000) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.workspaceLimitBytes = bytes;
  config.opTimeoutMs = timeoutMs;
  return config;
}

}  // namespace

TEST_CASE("a reducer at the limit works, one byte below it does not come to be") {
  for (const MethodRow& method : kMethods)
    for (const int count : {1, 2, 4}) {
      CAPTURE(method.preset, method.faithful, count);
      uint64_t need = 0;
      {
        Group group(count, kLength, sparsecollFloat32, paramsOf(method));
        group.fillRandom(1);
        REQUIRE(group.step() == all(count, sparsecollSuccess));
        need = peakOf(group.ranks());
      }
      REQUIRE(need > kLength * 4);
      {
        const sparsecollConfig_t config = limited(need);
        Group group(count, kLength, sparsecollFloat32, paramsOf(method), nullptr, &config);
        CHECK(group.created() == all(count, sparsecollSuccess));
        group.fillRandom(1);
        CHECK(group.step() == all(count, sparsecollSuccess));
        CHECK(peakOf(group.ranks()) <= need);
      }
      const sparsecollConfig_t config = limited(need - 1);
      const Ranks ranks(count, &config);
      for (int time = 0; time < 3; ++time) {
        const Reducers reducers(ranks, kLength, sparsecollFloat32, paramsOf(method));
        for (int rank = 0; rank < count; ++rank) {
          CHECK(reducers.result(rank) == sparsecollOutOfMemory);
          CHECK(reducers[rank] == nullptr);
        }
      }
      CHECK(peakOf(ranks) < need);
      // No effect: what fits still does.
      const Reducers small(ranks, kLength / 2, sparsecollFloat32, paramsOf(method));
      std::vector<std::vector<float>> vectors(static_cast<size_t>(count), std::vector<float>(kLength, 1.0f));
      CHECK(onEach(ranks, [&](int rank, sparsecollComm_t) {
              float* const vector = vectors[static_cast<size_t>(rank)].data();
              return sparsecollReducerRun(small[rank], vector, vector, nullptr);
            }) == all(count, sparsecollSuccess));
    }
}

TEST_CASE("memory of destroyed reducers counts no more") {
  Ranks ranks(3);
  const auto inUse = [&] {
    uint64_t bytes = 0;
    for (int rank = 0; rank < 3; ++rank) {
      sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
      if (sparsecollGetStats(ranks[rank], &stats) == sparsecollSuccess) bytes += stats.workspaceBytes;
    }
    return bytes;
  };
  const uint64_t before = inUse();
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    {
      const Reducers reducers(ranks, kLength, sparsecollFloat32, paramsOf(method));
      CHECK(inUse() > before + 3 * kLength * 4);
    }
    CHECK(inUse() == before);
  }
  const sparsecollParams_t params = preset("micro", 0.1);
  REQUIRE(onEach(ranks, [&](int, sparsecollComm_t comm) {
            std::vector<float> vector(kLength, 1.0f);
            SparseVector in(sparsecollFloat32, kLength, 1);
            SparseVector out(sparsecollFloat32, kLength, kLength);
            const sparsecollParams_t topk = preset("topka", 0.1);
            sparsecollResult_t result =
                sparsecollSelect(vector.data(), kLength, sparsecollFloat32, &topk, out.view(), comm, nullptr);
            if (result == sparsecollSuccess)
              result = sparsecollAllReduceVector(in.view(), out.view(), nullptr, comm, nullptr);
            if (result != sparsecollSuccess) return result;
            return sparsecollAllReduce(vector.data(), vector.data(), kLength, sparsecollFloat32, &params, comm,
                                       nullptr);
          }) == all(3, sparsecollSuccess));
  CHECK(inUse() == before);
}

// All ranks have the same limit and make the same calls. What one of them has still to give back from the last call
// must not decide on whether this one works.
TEST_CASE("calls that fit the limit once fit it every time, on all ranks") {
  constexpr int kRanks = 4;
  for (const bool oneShot : {false, true}) {
    CAPTURE(oneShot);
    const sparsecollParams_t params = preset("topka", 0.1);
    const auto call = [&](sparsecollComm_t comm, uint64_t entries) {
      if (oneShot) {
        std::vector<float> vector(kLength, 1.0f);
        return sparsecollAllReduce(vector.data(), vector.data(), kLength, sparsecollFloat32, &params, comm, nullptr);
      }
      SparseVector in(sparsecollFloat32, kLength, entries);
      SparseVector out(sparsecollFloat32, kLength, kLength);
      for (uint64_t i = 0; i < entries; ++i) in.add(i, 1);
      return sparsecollAllReduceVector(in.view(), out.view(), nullptr, comm, nullptr);
    };
    uint64_t need = 0;
    {
      const Ranks ranks(kRanks);
      REQUIRE(onEach(ranks, [&](int, sparsecollComm_t comm) { return call(comm, 2000); }) ==
              all(kRanks, sparsecollSuccess));
      need = peakOf(ranks);
    }
    const sparsecollConfig_t config = limited(need, 2000);
    const Ranks ranks(kRanks, &config);
    const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
      for (int time = 0; time < 200; ++time) {
        if (time % 7 == rank) std::this_thread::yield();
        const sparsecollResult_t result = call(comm, 2000);
        if (result != sparsecollSuccess) return result;
      }
      return sparsecollSuccess;
    });
    CHECK(results == all(kRanks, sparsecollSuccess));
  }
}

TEST_CASE("no limit is too small to say so") {
  sparsecollComm_t comms[4] = {};
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{64}, uint64_t{500}}) {
    const sparsecollConfig_t config = limited(bytes);
    CHECK(sparsecollCommInitAll(comms, 4, nullptr, &config) == sparsecollOutOfMemory);
    CHECK(comms[0] == nullptr);
    CHECK_THAT(sparsecollGetLastError(), Catch::Contains(std::to_string(bytes)));
  }
}
