// The same gradients give the same bits over messages as in shared memory, and the same counts of bytes.
#include "tests/support/catch.h"

#include <memory>
#include <string>

#include "tests/support/group.h"
#include "tests/support/pair_engine.h"
#include "tests/support/presets.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 20011;
constexpr uint64_t kSteps = 3;
#ifdef SPARSECOLL_TEST_SANITIZED
constexpr int kRankCounts[] = {3, 8};
#else
constexpr int kRankCounts[] = {1, 2, 3, 4, 8};
#endif

// What the ranks end up with.
struct Outcome {
  Results results;
  std::vector<Elements> outs, residuals;
  std::vector<uint64_t> sentBytes, messages;
};

Outcome runSteps(const Ranks& ranks, const sparsecollParams_t& params, sparsecollDataType_t type,
                 const sparsecollReducerConfig_t* config) {
  const Reducers reducers(ranks, kLength, type, params, config);
  const auto count = static_cast<size_t>(ranks.count());
  Outcome outcome{
      all(ranks.count(), sparsecollSuccess), std::vector<Elements>(count, Elements(type, kLength)), {}, {}, {}};
  outcome.residuals.resize(count);
  outcome.sentBytes.resize(count);
  outcome.messages.resize(count);
  ranks.run([&](int rank, sparsecollComm_t) {
    const auto r = static_cast<size_t>(rank);
    Elements gradient(type, kLength);
    for (uint64_t step = 0; step < kSteps; ++step) {
      Random random(step * 1000 + r);
      for (size_t i = 0; i < kLength; ++i) gradient.set(i, random.bell());
      const sparsecollResult_t ran =
          sparsecollReducerRun(reducers[rank], gradient.data(), outcome.outs[r].data(), nullptr);
      if (ran != sparsecollSuccess) outcome.results[r] = ran;
    }
    outcome.residuals[r] = residualOf(reducers[rank]);
    outcome.sentBytes[r] = statsOf(reducers[rank]).bytesSent;
    outcome.messages[r] = statsOf(reducers[rank]).lastMessagesSent;
  });
  return outcome;
}

Ranks overMessages(int ranks, Mischief* mischief) {
  std::vector<sparsecollComm_t> comms(static_cast<size_t>(ranks));
  const sparsecollResult_t made = mischief != nullptr ? makeOverPairs(comms.data(), ranks, nullptr, mischief)
                                                      : makeOverMessages(comms.data(), ranks, nullptr);
  if (made != sparsecollSuccess) comms.clear();
  return Ranks(std::move(comms));
}

void checkEqual(int ranks, const std::string& name, sparsecollDataType_t type, bool accumulate,
                const sparsecollReducerConfig_t* config = nullptr, Mischief* mischief = nullptr) {
  sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.02);
  params.op = sparsecollAvg;
  if (accumulate) params.flags = SPARSECOLL_ACCUMULATE;
  CAPTURE(ranks, name, nameOf(type), accumulate);
  std::vector<sparsecollComm_t> comms(static_cast<size_t>(ranks));
  REQUIRE(sparsecollCommInitAll(comms.data(), ranks, nullptr, nullptr) == sparsecollSuccess);
  const Outcome threads = runSteps(Ranks(std::move(comms)), params, type, config);
  const Outcome messages = runSteps(overMessages(ranks, mischief), params, type, config);
  CHECK(threads.results == all(ranks, sparsecollSuccess));
  REQUIRE(messages.results == all(ranks, sparsecollSuccess));
  for (size_t r = 0; r < threads.outs.size(); ++r) {
    CAPTURE(r);
    CHECK((messages.outs[r] == threads.outs[r]));
    CHECK((messages.residuals[r] == threads.residuals[r]));
  }
  CHECK(messages.sentBytes == threads.sentBytes);
  CHECK(messages.messages == threads.messages);
}

}  // namespace

TEST_CASE("every preset has the bits of ranks that share memory") {
  for (const int ranks : kRankCounts)
    for (const std::string& name : presetsToStep()) checkEqual(ranks, name, sparsecollFloat32, false);
}

TEST_CASE("so have other types and sums that are added") {
  for (const char* const name : {"dense", "topka", "spardl"})
    for (const sparsecollDataType_t type : kAllTypes) checkEqual(3, name, type, false);
  for (const char* const name : {"dense", "micro"})
    for (const sparsecollDataType_t type : kAllTypes) checkEqual(4, name, type, true);
}

TEST_CASE("so have tensors that are sent dense") {
  const SentDense tensors(kLength);
  for (const int ranks : kRankCounts)
    for (const char* const name : {"topka", "micro", "gtopk", "spardl"})
      checkEqual(ranks, name, sparsecollFloat32, false, tensors.config());
}

// An engine is asked for a sum before it says that it leaves it to the library: MPI does so with 16-bit types.
TEST_CASE("so has a scaled dense sum that the engine leaves to the library, whoever sums in place") {
  constexpr int kRanks = 3;
  PairMesh mesh(kRanks);
  std::vector<sparsecollComm_t> comms(kRanks);
  RankThreads::ofProcess().run(kRanks, [&](int rank) {
    auto engine = std::make_unique<PairEngine>(rank, mesh.takeSockets(rank));
    sparsecollEngine_t table = engine->table();
    table.iallreduce = [](void*, const void*, void*, uint64_t, int32_t, int32_t, void**) -> int {
      return sparsecollUnsupported;
    };
    sparsecollComm_t& comm = comms[static_cast<size_t>(rank)];
    if (sparsecollCommInitEngine(&comm, kRanks, rank, SPARSECOLL_HOST, &table, nullptr) == sparsecollSuccess)
      (void)engine.release();
  });
  for (const sparsecollComm_t comm : comms) REQUIRE(comm != nullptr);
  const Ranks ranks(std::move(comms));
  sparsecollParams_t params = preset("dense", 0);
  params.inputScale = 0.5;
  for (const sparsecollDataType_t type : {sparsecollFloat32, sparsecollFloat16})
    for (const int inPlace : {0, 1, kRanks}) {  // so many ranks
      CAPTURE(int{type}, inPlace);
      const Reducers reducers(ranks, kLength, type, params);
      std::vector<Elements> vectors(kRanks, Elements(type, kLength)), outs = vectors;
      fillIntegers(vectors, 1, 100);
      Elements expected(type, kLength);
      for (uint64_t i = 0; i < kLength; ++i) {
        double sum = 0;
        for (const Elements& vector : vectors) sum += vector[i];
        expected.set(i, 0.5 * sum);
      }
      CHECK(onEach(ranks, [&](int rank, sparsecollComm_t) {
              const auto r = static_cast<size_t>(rank);
              void* const out = rank < inPlace ? vectors[r].data() : outs[r].data();
              return sparsecollReducerRun(reducers[rank], vectors[r].data(), out, nullptr);
            }) == all(kRanks, sparsecollSuccess));
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto r = static_cast<size_t>(rank);
        CHECK((rank < inPlace ? vectors[r] : outs[r]) == expected);
      }
    }
}

// A message's slot is taken again only when its send is done: others are done before it.
TEST_CASE("so have ranks whose sends are told to be done late, each after a time of its own") {
  for (const char* const name : {"micro", "spardl"}) {
    Mischief mischief;
    mischief.toldLate = [](int peer, int) { return peer % 2 == 0 ? 100 : 0; };
    checkEqual(5, name, sparsecollFloat32, false, nullptr, &mischief);
  }
}

TEST_CASE("the engine was used as its rules say") { CHECK(pairEngineMisuse() == ""); }
