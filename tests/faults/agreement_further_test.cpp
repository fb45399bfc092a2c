// The same for sparse vectors, field by field, and for the environment, variable by variable.
#include "tests/support/catch.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

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
    {"SPARSECOLL_ISA", "instruction sets have the same bits (isa_equality)"},
    {"SPARSECOLL_LOG", "for logs"},
    {"SPARSECOLL_NCCL_LIBRARY", "a path; versions of NCCL are agreed on"},
    {"SPARSECOLL_RANKS_PER_NODE", "communicators agree on it as `ranksPerNode`"},
    {"SPARSECOLL_SILENCE_MS", "how long a rank waits is its own affair"},
    {"SPARSECOLL_UCX_LIBRARY", "a path"},
    {"UCX_HANDLE_ERRORS", "a process's own signals"},
    {"UCX_TLS", "UCX finds what both ends have"},
    {"SPARSECOLL_PORT", "where ranks look for rank 0: those that look elsewhere do not meet"},
    {"SPARSECOLL_SECRET_FILE", "another secret is AuthFailed"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "a device's own queues"},
};

// A_NAME_1, as variables and nothing else between quotes look.
bool isVariable(const std::string& text) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return text.find('_') != std::string::npos && text.find('_') != 0 && text.back() != '_' &&
         text.find_first_not_of(kLetters) == std::string::npos;
}

}  // namespace

TEST_CASE("every variable of the environment that the library reads may differ, and is listed with the reason") {
  namespace fs = std::filesystem;
  std::map<std::string, const char*> unseen = kEnvironment;
  size_t reads = 0;
  for (const char* const folder : {"core", "host", "cuda", "transports", "selectors", "collectives", "src"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SPARSECOLL_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file()) continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string source = text.str();
      if (source.find("getenv(") == std::string::npos) continue;
      ++reads;
      for (size_t begin = source.find('"'); begin != std::string::npos; begin = source.find('"', begin + 1)) {
        const std::string name = source.substr(begin + 1, source.find('"', begin + 1) - begin - 1);
        if (!isVariable(name)) continue;
        CAPTURE(entry.path().string(), name);
        CHECK(kEnvironment.count(name) == 1);
        unseen.erase(name);
      }
    }
  CHECK(reads >= 5);
  CHECK(unseen.empty());
}
#endif
