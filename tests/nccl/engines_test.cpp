// Ranks on devices that agree on an engine, with both of them at hand; and the devices that calls take. (Ranks with
// different abilities: tests/unit/engines_test.cpp, tests/processes/engines_test.cpp.)
#include <cstdlib>
#include <string>

#include "tests/nccl/nccl_ranks.h"
#include "tests/simt/streams.h"
#include "tests/support/catch.h"
#include "tests/support/room.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 500;

sparsecollConfig_t naming(sparsecollTransport_t transport) {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = transport;
  config.initTimeoutMs = 30000;
  return config;
}

sparsecollCommDetails_t detailsOf(sparsecollComm_t comm) {
  auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
  CHECK(sparsecollCommGetDetails(comm, &details) == sparsecollSuccess);
  return details;
}

// What ranks on devices come to without NCCL; Auto: nothing.
sparsecollTransport_t secondBest() {
  for (const auto engine : {sparsecollTransportUcx, sparsecollTransportTcp}) {
    int available = 0;
    CHECK(sparsecollBackendAvailable(sparsecollBackendCuda, engine, &available) == sparsecollSuccess);
    if (available != 0) return engine;
  }
  return sparsecollTransportAuto;
}

// What every rank's CommInitRank comes to, with its text.
struct Refusals {
  Refusals(int ranks, const sparsecollConfig_t& config) : texts(static_cast<size_t>(ranks)) {
    const NcclRanks made(ranks, nullptr, [&](int, sparsecollComm_t*) { return sparsecollSuccess; });
    sparsecollUniqueId_t id{};
    REQUIRE(sparsecollGetUniqueId(&id, &config) == sparsecollSuccess);
    results = made.each([&](int rank) {
      sparsecollComm_t comm = nullptr;
      const sparsecollResult_t result = sparsecollCommInitRank(&comm, ranks, &id, rank, 0, nullptr);
      if (result != sparsecollSuccess) texts[static_cast<size_t>(rank)] = sparsecollGetLastError();
      (void)sparsecollCommDestroy(comm);
      return result;
    });
  }
  Results results;
  std::vector<std::string> texts;
};

}  // namespace

TEST_CASE("ranks with a device each that name nothing meet over NCCL, and say so") {
  simt::setDevices(3);
  sparsecollUniqueId_t id{};
  REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
  const auto onItsOwn = [&](int rank, sparsecollComm_t* comm) {
    return sparsecollCommInitRank(comm, 3, &id, rank, rank, nullptr);
  };
  const NcclRanks ranks(3, nullptr, onItsOwn, std::vector{0, 1, 2});
  REQUIRE(ranks.made() == all(3, sparsecollSuccess));
  for (int rank = 0; rank < 3; ++rank) {
    const sparsecollCommDetails_t details = detailsOf(ranks[rank]);
    CHECK(details.transport == sparsecollTransportNccl);
    CHECK(details.rank == rank);
    CHECK(details.nRanks == 3);
    CHECK(details.device == rank);
    CHECK(std::string(details.reason) == "NCCL is the best, and all ranks have it");
  }
  CHECK(fake::calls()["ncclCommInitRankConfig"] == 3);
  simt::setDevices(1);
  checkNoMisuse();
}

TEST_CASE("ranks that share a device and name nothing never get NCCL, which would refuse them") {
  constexpr const char* kWhy = "rank(s) 1, 2 cannot use NCCL (it shares device 0000:01:00.0 with rank 0)";
  if (secondBest() == sparsecollTransportAuto) {
    const Refusals refused(3, naming(sparsecollTransportAuto));
    CHECK(refused.results == all(3, sparsecollUnsupported));
    for (const std::string& text : refused.texts) CHECK_THAT(text, Catch::Contains(kWhy));
  } else {
    sparsecollUniqueId_t id{};
    REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
    const NcclRanks ranks(3, nullptr, [&](int rank, sparsecollComm_t* comm) {
      return sparsecollCommInitRank(comm, 3, &id, rank, 0, nullptr);
    });
    REQUIRE(ranks.made() == all(3, sparsecollSuccess));
    CHECK(detailsOf(ranks[2]).transport == secondBest());
    CHECK_THAT(detailsOf(ranks[2]).reason, Catch::Contains(kWhy));
  }
  CHECK(fake::calls()["ncclCommInitRankConfig"] == 0);
  checkNoMisuse();
}

TEST_CASE("an engine that is named is taken, also where there is a better one") {
  const sparsecollConfig_t nccl = naming(sparsecollTransportNccl);
  {
    const NcclRanks ranks(2, &nccl);
    REQUIRE(ranks.made() == all(2, sparsecollSuccess));
    CHECK(detailsOf(ranks[1]).transport == sparsecollTransportNccl);
    CHECK(std::string(detailsOf(ranks[1]).reason) == "NCCL was named");
  }
  if (secondBest() == sparsecollTransportAuto) return;
  const sparsecollConfig_t other = naming(secondBest());
  const NcclRanks ranks(2, &other);
  REQUIRE(ranks.made() == all(2, sparsecollSuccess));
  CHECK(detailsOf(ranks[0]).transport == secondBest());
  CHECK(detailsOf(ranks[0]).device == 0);
  checkNoMisuse();
}

TEST_CASE(
    "without NCCL ranks on devices meet over another engine where they may, and get Unsupported where NCCL is named") {
  setenv("SPARSECOLL_DISABLE_ENGINES", "nccl", 1);
  const Refusals named(2, naming(sparsecollTransportNccl));
  CHECK(named.results == all(2, sparsecollUnsupported));
  for (const std::string& text : named.texts)
    CHECK_THAT(text, Catch::Contains("NCCL was named") && Catch::Contains("rank(s) 0, 1 cannot use NCCL"));
  if (secondBest() != sparsecollTransportAuto) {
    sparsecollUniqueId_t id{};
    REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
    const NcclRanks ranks(2, nullptr, [&](int rank, sparsecollComm_t* comm) {
      return sparsecollCommInitRank(comm, 2, &id, rank, 0, nullptr);
    });
    REQUIRE(ranks.made() == all(2, sparsecollSuccess));
    CHECK(detailsOf(ranks[0]).transport == secondBest());
    CHECK_THAT(detailsOf(ranks[0]).reason, Catch::Contains("rank(s) 0, 1 cannot use NCCL"));
  }
  setenv("SPARSECOLL_DISABLE_ENGINES", "nccl,ucx,tcp", 1);
  const Refusals none(2, naming(sparsecollTransportAuto));
  CHECK(none.results == all(2, sparsecollUnsupported));
  for (const std::string& text : none.texts)
    CHECK_THAT(text, Catch::Contains("cannot use NCCL") && Catch::Contains("cannot use UCX") && Catch::Contains("TCP"));
  unsetenv("SPARSECOLL_DISABLE_ENGINES");
  CHECK(fake::aliveCount() == 0);
  checkNoMisuse();
}

TEST_CASE("a rank whose device fails keeps no other waiting: all get its error and its number") {
  simt::failCall("cudaDeviceGetAttribute", 0, cudaErrorUnknown);  // of one of the ranks
  const Refusals refused(3, naming(sparsecollTransportNccl));
  simt::forgetFailures();
  CHECK(refused.results == all(3, sparsecollCudaError));
  for (const std::string& text : refused.texts) CHECK_THAT(text, Catch::Contains("CommInitRank: rank "));
  CHECK(refused.texts[0] == refused.texts[2]);
  CHECK(fake::aliveCount() == 0);
  checkNoMisuse();
}

TEST_CASE("an all-gather of the caller's makes communicators over NCCL, too") {
  Room room(3);
  const sparsecollOob_t oobs[] = {room.of(0), room.of(1), room.of(2)};
  const sparsecollConfig_t nccl = naming(sparsecollTransportNccl);
  const NcclRanks ranks(3, nullptr, [&](int rank, sparsecollComm_t* comm) {
    return sparsecollCommInitOob(comm, 3, rank, SPARSECOLL_CURRENT_DEVICE, &oobs[rank], &nccl);
  });
  REQUIRE(ranks.made() == all(3, sparsecollSuccess));
  CHECK(detailsOf(ranks[2]).transport == sparsecollTransportNccl);
  CHECK(detailsOf(ranks[2]).device == 0);
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("micro", 0.05));
  CHECK(group.step() == all(3, sparsecollSuccess));
  checkNoMisuse();
}

TEST_CASE("ranks that name different engines all get Mismatch") {
  Room room(2);
  const sparsecollOob_t oobs[] = {room.of(0), room.of(1)};
  const sparsecollConfig_t configs[] = {naming(sparsecollTransportUcx), naming(sparsecollTransportNccl)};
  const NcclRanks ranks(2, nullptr, [&](int rank, sparsecollComm_t* comm) {
    return sparsecollCommInitOob(comm, 2, rank, 0, &oobs[rank], &configs[rank]);
  });
  CHECK(ranks.made() == all(2, sparsecollMismatch));
  checkNoMisuse();
}

TEST_CASE("the current device is the calling thread's, in every call") {
  simt::setDevices(2);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  sparsecollComm_t comms[2] = {};
  const int places[] = {SPARSECOLL_CURRENT_DEVICE, 0};
  REQUIRE(sparsecollCommInitAll(comms, 2, places, nullptr) == sparsecollSuccess);
  CHECK(detailsOf(comms[0]).device == 1);
  CHECK(detailsOf(comms[1]).device == 0);
  for (const sparsecollComm_t comm : comms) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
  sparsecollUniqueId_t id{};
  REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
  REQUIRE(sparsecollCommInitRank(&comms[0], 1, &id, 0, SPARSECOLL_CURRENT_DEVICE, nullptr) == sparsecollSuccess);
  CHECK(detailsOf(comms[0]).device == 1);
  CHECK(sparsecollCommDestroy(comms[0]) == sparsecollSuccess);
  sparsecollComm_t none = nullptr;
  REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
  CHECK(sparsecollCommInitRank(&none, 1, &id, 0, 2, nullptr) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("device is 2, this process has 2 device(s)"));
  CHECK(none == nullptr);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  simt::setDevices(1);
  checkNoMisuse();
}
