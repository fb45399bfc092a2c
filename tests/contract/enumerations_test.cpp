// Whatever is in an enumeration works in a small step, or its comment says "Unsupported in this version" and the
// library says so, too, by name. Results are in errors_test.cpp.
#include "tests/support/catch.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/contract/words_of_header.h"
#include "tests/support/folder.h"
#include "tests/support/group.h"
#include "tests/support/pair_engine.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;

struct Outcome {
  sparsecollResult_t result;
  std::string text;  // of the failure
};

Outcome outcomeOf(sparsecollResult_t result) { return {result, sparsecollGetLastError()}; }

// One step on every rank.
Outcome stepOn(const Ranks& ranks, const sparsecollParams_t& params, sparsecollDataType_t type = sparsecollFloat32) {
  Outcome first{};
  onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    sparsecollReducer_t reducer = nullptr;
    Elements vector(type, kLength, rank + 1);
    sparsecollResult_t result = sparsecollReducerCreate(&reducer, kLength, type, &params, nullptr, comm);
    if (result == sparsecollSuccess) result = sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr);
    if (rank == 0) first = outcomeOf(result);
    (void)sparsecollReducerDestroy(reducer);
    return result;
  });
  return first;
}

// A step of two ranks in host memory with what change makes of a preset.
Outcome stepWith(const char* name, const std::function<void(sparsecollParams_t&)>& change) {
  sparsecollParams_t params = preset(name, 0.1);
  change(params);
  return stepOn(Ranks(2), params);
}

Outcome stepWithNonFinite(int32_t nonFinite) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = nonFinite;
  return stepOn(Ranks(2, &config), preset("topka", 0.1));
}

Outcome mergeWith(int32_t indexType) {
  const Ranks one(1);
  const auto type = static_cast<sparsecollIndexType_t>(indexType);
  SparseVector a(sparsecollFloat32, kLength, 1, type), b(sparsecollFloat32, kLength, 1, type);
  SparseVector sum(sparsecollFloat32, kLength, 2, type);
  a.add(3, 1);
  b.add(700, 2);
  const Outcome outcome = outcomeOf(sparsecollMerge(a.view(), b.view(), sum.view(), one[0], nullptr));
  if (outcome.result == sparsecollSuccess) CHECK((sum.count() == 2 && sum.index(0) == 3 && sum.index(1) == 700));
  return outcome;
}

bool isAvailable(int32_t backend, int32_t transport) {
  int available = 0;
  return sparsecollBackendAvailable(backend, transport, &available) == sparsecollSuccess && available == 1;
}

Outcome threadsOn(int32_t backend) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.backend = backend;
  const int device = 0;
  sparsecollComm_t comm = nullptr;
  const Outcome outcome =
      outcomeOf(sparsecollCommInitAll(&comm, 1, backend == sparsecollBackendCuda ? &device : nullptr, &config));
  (void)sparsecollCommDestroy(comm);
  return outcome;
}

// A communicator of one rank over an id.
Outcome meetBy(const sparsecollConfig_t& config, int device) {
  sparsecollUniqueId_t id;
  sparsecollComm_t comm = nullptr;
  Outcome outcome = outcomeOf(sparsecollGetUniqueId(&id, &config));
  if (outcome.result == sparsecollSuccess)
    outcome = outcomeOf(sparsecollCommInitRank(&comm, 1, &id, 0, device, &config));
  (void)sparsecollCommDestroy(comm);
  return outcome;
}

// The call that makes communicators over the transport, or CommInitAll.
Outcome commOver(int32_t transport) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = transport;
  if (transport == sparsecollTransportUcx || transport == sparsecollTransportTcp) return meetBy(config, -1);
  if (transport == sparsecollTransportNccl) return meetBy(config, 0);
  sparsecollComm_t comms[2] = {};
  Outcome outcome{};
  if (transport == sparsecollTransportEngine)
    outcome.result = makeOverPairs(comms, 2, &config);
  else
    outcome = outcomeOf(sparsecollCommInitAll(comms, 2, nullptr, &config));
  if (outcome.result == sparsecollSuccess)
    outcome = stepOn(Ranks(std::vector<sparsecollComm_t>(comms, comms + 2)), preset("topka", 0.1));
  return outcome;
}

Outcome meetSecurely(int32_t security) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportTcp;
  config.security = security;
  return meetBy(config, -1);
}

// What a communicator writes to stderr while the environment asks for this level.
std::string logAt(const std::string& level) {
  const Folder folder;
  const std::filesystem::path path = folder.write("log", "");
  std::fflush(stderr);
  const int kept = dup(STDERR_FILENO);
  std::FILE* const file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  (void)dup2(fileno(file), STDERR_FILENO);
  (void)setenv("SPARSECOLL_LOG", level.c_str(), 1);
  { const Ranks one(1); }
  (void)unsetenv("SPARSECOLL_LOG");
  std::fflush(stderr);
  (void)dup2(kept, STDERR_FILENO);
  (void)close(kept);
  std::fclose(file);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Outcome logFrom(int32_t level) {
  const char* const levels[] = {"off", "error", "warn", "info", "trace"};
  const bool tells = logAt(levels[level]).find(" ready, ") != std::string::npos;
  return {tells == (level >= sparsecollLogInfo) ? sparsecollSuccess : sparsecollInternalError, "log"};
}

// A small step with a value of each enumeration.
const std::map<std::string, std::function<Outcome(int32_t)>> kSteps = {
    {"sparsecollDataType_t",
     [](int32_t value) { return stepOn(Ranks(2), preset("topka", 0.1), static_cast<sparsecollDataType_t>(value)); }},
    {"sparsecollRedOp_t", [](int32_t value) { return stepWith("topka", [&](auto& params) { params.op = value; }); }},
    {"sparsecollWire_t", [](int32_t value) { return stepWith("topka", [&](auto& params) { params.wire = value; }); }},
    {"sparsecollIndexType_t", mergeWith},
    {"sparsecollBackend_t", threadsOn},
    {"sparsecollTransport_t", commOver},
    {"sparsecollColl_t",
     [](int32_t value) { return stepWith("topka", [&](auto& params) { params.collective = value; }); }},
    {"sparsecollSelect_t",
     [](int32_t value) {
       return stepWith("topka", [&](auto& params) {
         params.selector = value;
         params.collective = sparsecollCollAuto;
       });
     }},
    {"sparsecollDistribution_t",
     [](int32_t value) { return stepWith("sidco-p", [&](auto& params) { params.distribution = value; }); }},
    {"sparsecollTeamGather_t",
     [](int32_t value) { return stepWith("spardl", [&](auto& params) { params.teamGather = value; }); }},
    {"sparsecollNonFinite_t", stepWithNonFinite},
    {"sparsecollSecurity_t", meetSecurely},
    {"sparsecollLogLevel_t", logFrom},
};

// Whether this build and machine have what a value needs besides the library.
bool isHere(const std::string& type, int32_t value) {
  if (type == "sparsecollSecurity_t") return isAvailable(sparsecollBackendHost, sparsecollTransportTcp);
  if (type == "sparsecollBackend_t") return isAvailable(value, sparsecollTransportAuto);
  if (type == "sparsecollTransport_t") return isAvailable(sparsecollBackendAuto, value);
  return true;
}

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// sparsecollWireBf16 of sparsecollWire_t: bf16. sparsecollCollHierarchical of sparsecollColl_t: hierarchical.
std::string shortName(const Enumerator& one, const std::string& type) {
  return lowered(one.name.substr(type.size() - 2));
}

}  // namespace

TEST_CASE("every value of every enumeration works, or is Unsupported by name as its comment says") {
  for (const auto& [type, values] : enumerationsOfHeader()) {
    if (type == "sparsecollResult_t") continue;
    CAPTURE(type);
    REQUIRE(kSteps.count(type) == 1);
    REQUIRE_FALSE(values.empty());
    for (const Enumerator& one : values) {
      CAPTURE(one.name);
      const Outcome outcome = kSteps.at(type)(one.value);
      CAPTURE(outcome.text);
      if (one.unsupported()) {
        CHECK(outcome.result == sparsecollUnsupported);
        CHECK_THAT(lowered(outcome.text), Catch::Contains(shortName(one, type)));
      } else {
        CHECK(outcome.result == (isHere(type, one.value) ? sparsecollSuccess : sparsecollUnsupported));
      }
    }
  }
}

TEST_CASE("a value that is in no enumeration is InvalidArgument") {
  const int32_t wrong = 99;
  const std::function<Outcome()> tries[] = {
      [&] { return stepWith("topka", [&](auto& params) { params.selector = wrong; }); },
      [&] { return stepWith("topka", [&](auto& params) { params.collective = wrong; }); },
      [&] { return stepWith("topka", [&](auto& params) { params.wire = wrong; }); },
      [&] { return stepWith("topka", [&](auto& params) { params.op = wrong; }); },
      [&] { return threadsOn(wrong); },
      [&] { return commOver(wrong); },
  };
  for (const auto& one : tries) {
    const Outcome outcome = one();
    CAPTURE(outcome.text);
    CHECK(outcome.result == sparsecollInvalidArgument);
    CHECK_THAT(outcome.text, Catch::Contains("99"));
  }
}
