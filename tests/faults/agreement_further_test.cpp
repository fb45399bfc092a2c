// The same for sparse vectors, field by field, and for the environment, variable by variable.
#include "tests/support/catch.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 400;

using Vector = sparsecollVector_t;
struct VectorRow {
  const char* member;
  size_t offset, bytes;
  const char* field;      // as the failure names it; nullptr: it may differ
  const char* mayDiffer;  // why
};
#define AT(type, member) #member, offsetof(type, member), sizeof(type::member)
const VectorRow kVector[] = {
    {AT(Vector, values), nullptr, "a rank's own entries"},
    {AT(Vector, indices), nullptr, "a rank's own entries"},
    {AT(Vector, count), nullptr, "a rank's own entries"},
    {AT(Vector, capacity), nullptr, "a rank's own memory"},
    {AT(Vector, length), "n", nullptr},
    {AT(Vector, dataType), "type", nullptr},
    {AT(Vector, indexType), nullptr, "of a rank's memory; what travels follows from length"},
    {AT(Vector, flags), nullptr, "a promise of the caller's on its own entries"},
    {AT(Vector, reserved0), nullptr, "0"},
    {AT(Vector, reserved), nullptr, "0"},
};

}  // namespace

TEST_CASE("a sparse vector: each field in turn") {
  size_t end = 0;
  for (const VectorRow& row : kVector) {
    CHECK(row.offset == end);
    end = row.offset + row.bytes;
  }
  CHECK(end == sizeof(Vector));
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 20000;
  const Ranks ranks(3, &config);
  for (const VectorRow& row : kVector) {
    CAPTURE(row.member);
    const std::string member = row.member;
    const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
      const bool odd = rank == 1;
      const auto type = odd && member == "dataType" ? sparsecollFloat64 : sparsecollFloat32;
      const uint64_t length = odd && member == "length" ? kLength + 1 : kLength;
      const auto indexType = odd && member == "indexType" ? sparsecollIndexU64 : sparsecollIndexU32;
      SparseVector in(type, length, odd && member == "capacity" ? 8 : 4, indexType);
      in.add(1, 1);
      if (odd && member == "count") in.add(7, 2);
      if (odd && member == "flags") in.view()->flags = SPARSECOLL_SORTED;
      SparseVector out(type, length, 32, indexType);
      return sparsecollAllReduceVector(in.view(), out.view(), nullptr, comm, nullptr);
    });
    CHECK((row.field == nullptr) == (row.mayDiffer != nullptr));
    CHECK(results == all(3, row.field != nullptr ? sparsecollMismatch : sparsecollSuccess));
    for (int rank = 0; rank < 3 && row.field != nullptr; ++rank)
      CHECK(std::string(failureOf(ranks[rank]).field) == row.field);
  }
}

#ifndef SPARSECOLL_TEST_PAIRS
namespace {

// What the library reads from the environment. Nothing of it makes other results on some ranks.
const std::map<std::string, const char*> kEnvironment = {
    {"SPARSECOLL_DISABLE_ENGINES", "ranks tell each other what they can use, and all take the same"},
    {"SPARSECOLL_INTERFACE", "hosts name their interfaces"},
    {"SPARSECOLL_ISA", "instruction sets have the same bits (recorded_steps_test)"},
    {"SPARSECOLL_LOG", "for logs"},
    {"SPARSECOLL_NCCL_LIBRARY", "a path; versions of NCCL are agreed on"},
    {"SPARSECOLL_RANKS_PER_NODE", "communicators agree on it as `ranksPerNode`"},
    {"SPARSECOLL_FLIGHT_DIR", "a folder of this host"},
    {"SPARSECOLL_FLIGHT_RECORDER", "each rank remembers its own operations"},
    {"SPARSECOLL_RATE", "each rank's own sending; engines that keep it are agreed on"},
    {"SPARSECOLL_SHARED_MEMORY", "ranks agree on who shares, and sums have the same bits"},
    {"SPARSECOLL_SILENCE_MS", "communicators agree on it as `silenceMs`"},
    {"SPARSECOLL_TUNER_FILE", "auto reducers agree on what it says as `tunerFile`"},
    {"SPARSECOLL_UCX_LIBRARY", "a path"},
    {"SPARSECOLL_PMIX_LIBRARY", "a path"},
    {"UCX_HANDLE_ERRORS", "a process's own signals"},
    {"UCX_RNDV_THRESH", "the sender decides, receivers take both"},
    {"UCX_TLS", "UCX finds what both ends have"},
    {"UCX_NET_DEVICES", "the same"},
    {"SPARSECOLL_PORT", "where ranks look for rank 0: those that look elsewhere do not meet"},
    {"SPARSECOLL_SECRET_FILE", "another secret is AuthFailed"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "a device's own queues"},
};

std::string textOf(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// What stands between quotes and names a variable.
std::vector<std::string> variablesIn(const std::string& source) {
  static const std::regex kName("= \"([A-Z][A-Z0-9_]*_[A-Z0-9_]*)\";");
  std::vector<std::string> names;
  for (std::sregex_iterator match(source.begin(), source.end(), kName), end; match != end; ++match)
    names.push_back((*match)[1]);
  return names;
}

}  // namespace

TEST_CASE("every variable of the environment that the library reads may differ, and is listed with the reason") {
  namespace fs = std::filesystem;
  const fs::path root = SPARSECOLL_SOURCE_DIR;
  const std::string documented = textOf(root / "docs/guide/errors.md");
  std::map<std::string, const char*> unseen = kEnvironment;
  for (const std::string& name : variablesIn(textOf(root / "core/environment.h"))) {
    CAPTURE(name);
    CHECK(kEnvironment.count(name) == 1);
    CHECK((name.find("SPARSECOLL_") != 0 || documented.find("`" + name + "`") != std::string::npos));
    unseen.erase(name);
  }
  CHECK(unseen.empty());
  for (const char* const folder : {"core", "host", "cuda", "transports", "selectors", "collectives", "src"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || entry.path() == root / "core/environment.cpp") continue;
      CAPTURE(entry.path().string());
      const std::string source = textOf(entry.path());
      for (const char* const call : {"getenv(", "environmentText(\"", "environmentNumber(\""})
        CHECK(source.find(call) == std::string::npos);
    }
}

TEST_CASE("a variable with another value than it takes makes no communicator and is named") {
  const std::pair<const char*, std::vector<const char*>> kRefused[] = {
      {"SPARSECOLL_RANKS_PER_NODE", {"0", "1025", "two", "2 ", "-1"}},
      {"SPARSECOLL_SHARED_MEMORY", {"2", "-1", "yes"}},
      {"SPARSECOLL_SILENCE_MS", {"19", "86400001", "1s", "18446744073709551616"}},
      {"SPARSECOLL_FLIGHT_RECORDER", {"65537", "many"}},
      {"SPARSECOLL_RATE", {"fast", "0"}},
  };
  for (const auto& [name, values] : kRefused) {
    for (const char* const value : values) {
      CAPTURE(name, value);
      (void)setenv(name, value, 1);
      sparsecollComm_t comm = nullptr;
      CHECK(sparsecollCommInitAll(&comm, 1, nullptr, nullptr) == sparsecollInvalidArgument);
      CHECK(std::string(sparsecollGetLastError()).find(std::string(name) + " is '" + value + "'") != std::string::npos);
    }
    (void)setenv(name, "", 1);  // as if it were not set
    sparsecollComm_t comm = nullptr;
    CHECK(sparsecollCommInitAll(&comm, 1, nullptr, nullptr) == sparsecollSuccess);
    CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
    (void)unsetenv(name);
  }
}
#endif
