// Ranks in several processes that agree on an engine: what the unique id names, what a rank lacks, and what they say
// of it afterwards. (Which engine wins where ranks can use several: tests/unit/engines_test.cpp, tests/nccl.)
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"

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

// Bytes of the id, as they are or in hexadecimal. Runs of few values, such as zeros, are no secret.
bool shows(const std::string& text, const sparsecollUniqueId_t& id) {
  constexpr size_t kRun = 8;
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (size_t at = 0; at + kRun <= sizeof id.bytes; ++at) {
    const std::string run(reinterpret_cast<const char*>(id.bytes) + at, kRun);
    if (std::set<char>(run.begin(), run.end()).size() < kRun / 2) continue;
    std::string digits;
    for (const char c : run) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      digits += two;
    }
    if (text.find(run) != std::string::npos || lower.find(digits) != std::string::npos) return true;
  }
  return false;
}

std::string fileOf(const char* path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
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

// T57. A log function gets every line there is.
TEST_CASE("the secret of an id is in no log line, no text and no variable") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  Processes processes(2);
  processes.start([&](int rank, Finding& finding) {
    struct Heard {
      std::mutex mutex;
      std::string text;
      void add(const char* line) {
        const std::lock_guard lock(mutex);
        text += std::string(line) + "\n";
      }
    } heard;
    sparsecollConfig_t config = naming(way.engine);
    config.initTimeoutMs = 5000;
    config.logUser = &heard;
    config.logFn = [](void* user, sparsecollLogLevel_t, const char*, const char* text) {
      static_cast<Heard*>(user)->add(text);
    };
    sparsecollUniqueId_t id{};
    if (rank == 0) {
      finding.made = sparsecollGetUniqueId(&id, &config);
      if (write(pipes[1], &id, sizeof id) != sizeof id) return;
    } else if (read(pipes[0], &id, sizeof id) != sizeof id) {
      return;
    }
    sparsecollComm_t comm = nullptr;
    finding.made = sparsecollCommInitRank(&comm, 2, &id, rank, SPARSECOLL_HOST, &config);
    std::vector<float> values(100, 1.0f);
    const sparsecollParams_t params = preset("topka", 0.1);
    finding.result =
        sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat32, &params, comm, nullptr);
    auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
    if (sparsecollCommGetDetails(comm, &details) == sparsecollSuccess) heard.add(details.reason);
    (void)sparsecollCommAbort(comm);
    heard.add(failureOf(comm).text);
    const Folder folder;
    const std::string recorded = folder.path() / "flight.json";
    if (sparsecollCommDumpFlightRecorder(comm, recorded.c_str()) == sparsecollSuccess)
      heard.add(fileOf(recorded.c_str()).c_str());
    (void)sparsecollCommDestroy(comm);
    // The id was used; one of it is damaged; another one's secret is.
    for (size_t flipped = 0; flipped <= sizeof id.bytes; flipped += 8) {
      sparsecollUniqueId_t bad = id;
      if (flipped < sizeof bad.bytes) bad.bytes[flipped] ^= 1;
      config.initTimeoutMs = 1;
      finding.numbers[0] += sparsecollCommInitRank(&comm, 2, &bad, rank, SPARSECOLL_HOST, &config) != sparsecollSuccess;
      heard.add(sparsecollGetLastError());
    }
    heard.add(sparsecollGetBuildInfo());
    heard.text += fileOf("/proc/self/environ") + fileOf("/proc/self/cmdline");
    finding.numbers[1] = static_cast<int64_t>(heard.text.size());
    finding.numbers[2] = shows(heard.text, id);
    heard.text.append(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes);
    finding.numbers[3] = shows(heard.text, id);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (const int end : pipes) close(end);
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == sparsecollSuccess);
    CHECK(processes[rank].numbers[0] == 17);
    CHECK(processes[rank].numbers[1] > 2000);
    CHECK(processes[rank].numbers[2] == 0);
    CHECK(processes[rank].numbers[3] == 1);  // it would have been found
  }
}

}  // namespace sparsecoll::test
