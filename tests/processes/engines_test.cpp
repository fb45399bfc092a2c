// Ranks in several processes that agree on an engine: what the unique id names, what a rank lacks, and what they say
// of it afterwards. (Which engine wins where ranks can use several: tests/unit/engines_test.cpp, tests/nccl.)
#include <cstdlib>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {
namespace {

sparsecollConfig_t naming(sparsecollTransport_t transport) {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = transport;
  config.initTimeoutMs = 30000;
  return config;
}

sparsecollTransport_t engineOf(sparsecollComm_t comm, std::string* reason = nullptr) {
  auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
  if (sparsecollCommGetDetails(comm, &details) != sparsecollSuccess) return sparsecollTransportAuto;
  if (reason != nullptr) *reason = details.reason;
  return static_cast<sparsecollTransport_t>(details.transport);
}

}  // namespace

TEST_CASE("ranks in host memory that name nothing meet over UCX, else over TCP, and say so") {
  // Without UCX, or where a rank may not use it, over TCP.
  const bool may = GENERATE(true, false);
  if (may && !isHere({})) return;
  Processes processes(2);
  processes.start([&](int rank, Finding& finding) {
    if (!may && rank == 1) setenv("SPARSECOLL_DISABLE_ENGINES", "ucx", 1);
    const sparsecollConfig_t config = naming(sparsecollTransportAuto);
    sparsecollComm_t comm = processes.join(rank, &config);
    std::string reason;
    finding.result = engineOf(comm, &reason);
    if (finding.made == sparsecollSuccess) std::snprintf(finding.text, sizeof finding.text, "%s", reason.c_str());
    int device = 0;
    if (sparsecollCommGetInfo(comm, nullptr, nullptr, &device) == sparsecollSuccess) finding.numbers[0] = device;
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    CHECK(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == (may ? sparsecollTransportUcx : sparsecollTransportTcp));
    CHECK(processes[rank].numbers[0] == SPARSECOLL_HOST);
    if (may) CHECK(std::string(processes[rank].text) == "UCX is the best, and all ranks have it");
    if (!may) CHECK_THAT(processes[rank].text, Catch::Contains(" cannot use UCX ("));
  }
}

TEST_CASE("a rank that lacks the engine makes Unsupported on all ranks, soon, with the engine's name and the rank's") {
  using Row = std::tuple<sparsecollTransport_t, int, const char*>;
  const auto [transport, lacking, words] =
      GENERATE(Row{sparsecollTransportUcx, 1, "ucx"}, Row{sparsecollTransportUcx, 0, "ucx"},
               Row{sparsecollTransportTcp, 1, "tcp"}, Row{sparsecollTransportAuto, 2, "tcp,ucx"},
               Row{sparsecollTransportAuto, 0, "ucx,tcp"});
  if (transport != sparsecollTransportTcp && !isHere({})) return;
  CAPTURE(int{transport}, lacking);
  Processes processes(3);
  processes.start([&, transport = transport, lacking = lacking, words = words](int rank, Finding&) {
    if (rank == lacking) setenv("SPARSECOLL_DISABLE_ENGINES", words, 1);
    const sparsecollConfig_t config = naming(transport);
    (void)sparsecollCommDestroy(processes.join(rank, &config));
  });
  REQUIRE(processes.awaitEnd(60000));
  const std::string engine = transport == sparsecollTransportTcp ? "TCP" : "UCX";
  const std::string who =
      "rank(s) " + std::to_string(lacking) + " cannot use " + engine + " (SPARSECOLL_DISABLE_ENGINES names it)";
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].made == sparsecollUnsupported);
    CHECK(processes[rank].initMs < 10000);
    CHECK_THAT(processes[rank].text, Catch::Contains(who));
    CHECK_THAT(processes[rank].text,
               Catch::Contains(transport == sparsecollTransportAuto ? "no engine" : engine + " was named"));
  }
}

TEST_CASE("an id says which engine it was made for, and no other is taken with it") {
  auto ucx = naming(sparsecollTransportUcx);
  auto nccl = naming(sparsecollTransportNccl);
  sparsecollComm_t comm = nullptr;
  sparsecollUniqueId_t id{};
  REQUIRE(sparsecollGetUniqueId(&id, &ucx) == sparsecollSuccess);
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, 0, &nccl) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("config.transport is NCCL, the unique id was made for UCX"));
  REQUIRE(sparsecollGetUniqueId(&id, &nccl) == sparsecollSuccess);
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, 0, &ucx) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("config.transport is UCX, the unique id was made for NCCL"));
  // NCCL knows no host memory, whoever names it.
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, SPARSECOLL_HOST, nullptr) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("SPARSECOLL_HOST") && Catch::Contains("NCCL"));
  REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, SPARSECOLL_HOST, &nccl) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("SPARSECOLL_HOST") && Catch::Contains("NCCL"));
  nccl.backend = sparsecollBackendHost;
  CHECK(sparsecollGetUniqueId(&id, &nccl) == sparsecollInvalidArgument);
  for (const auto other : {sparsecollTransportThreads, sparsecollTransportEngine, sparsecollTransportSimulated}) {
    const sparsecollConfig_t config = naming(other);
    CHECK(sparsecollGetUniqueId(&id, &config) == sparsecollUnsupported);
  }
  CHECK(comm == nullptr);
}

TEST_CASE("with an id that says Auto a rank may name one for all") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(2);
  processes.start([&](int rank, Finding& finding) {
    const sparsecollConfig_t plain = naming(sparsecollTransportAuto);
    const sparsecollConfig_t named = naming(way.engine);
    sparsecollComm_t comm = processes.join(rank, rank == 0 ? &plain : &named);
    finding.result = engineOf(comm);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == way.engine);
  }
}

TEST_CASE("a word in the environment that is no engine's is refused, with those that are") {
  setenv("SPARSECOLL_DISABLE_ENGINES", "upc", 1);
  int available = 0;
  CHECK(sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportUcx, &available) ==
        sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("'upc'") && Catch::Contains("nccl, ucx and tcp"));
  setenv("SPARSECOLL_DISABLE_ENGINES", "ucx", 1);
  CHECK(sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportUcx, &available) == sparsecollSuccess);
  CHECK(available == 0);
  unsetenv("SPARSECOLL_DISABLE_ENGINES");
}

}  // namespace sparsecoll::test
