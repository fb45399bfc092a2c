// What a result code does to a communicator: the head of sparsecoll.h and docs/guide/errors.md say the same of every
// code, and the library does it. What remains useful on a dead communicator is what the header lists.
#include "tests/support/catch.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "src/communicator.h"
#include "tests/contract/words_of_header.h"
#include "tests/support/group.h"
#include "tests/support/pair_engine.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 2000;

enum class Fate { kLives, kEnds, kNotReturned };

std::string shortName(const Enumerator& code) { return code.name.substr(std::string("sparsecoll").size()); }

std::vector<Enumerator> codes() { return enumerationsOfHeader().at("sparsecollResult_t"); }

// By name, from the head of the header.
std::map<std::string, Fate> fatesInHeader() {
  const std::pair<const char*, Fate> lists[] = {
      {"These codes leave the communicator alive:", Fate::kLives},
      {"These codes end it when the exchange of a collective call, or CommWait, fails with them:", Fate::kEnds},
      {"No call returns this code:", Fate::kNotReturned}};
  std::map<std::string, Fate> fates;
  for (const auto& [introduction, fate] : lists)
    for (const std::string& line : listOfHead(introduction))
      for (const std::string& name : wordsOf(line)) CHECK(fates.emplace(name, fate).second);
  return fates;
}

struct GuideRow {
  int32_t code;
  std::string name;
  Fate fate;
};

// The rows of the guide's first table, "| 8 | Timeout | ends | ...".
std::vector<GuideRow> rowsOfGuide() {
  const std::map<std::string, Fate> words = {
      {"lives", Fate::kLives}, {"ends", Fate::kEnds}, {"is not returned", Fate::kNotReturned}};
  std::istringstream lines(textOf("docs/guide/errors.md"));
  std::vector<GuideRow> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 3 || line[0] != '|' || std::isdigit(static_cast<unsigned char>(line[2])) == 0) continue;
    std::vector<std::string> cells;
    std::istringstream from(line.substr(1));
    for (std::string cell; std::getline(from, cell, '|');) {
      const size_t first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    REQUIRE(cells.size() >= 3);
    REQUIRE(words.count(cells[2]) == 1);
    rows.push_back({std::stoi(cells[0]), cells[1], words.at(cells[2])});
  }
  return rows;
}

sparsecollResult_t stateOf(sparsecollComm_t comm) {
  sparsecollResult_t state = sparsecollInternalError;
  CHECK(sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess);
  return state;
}

sparsecollConfig_t impatient() {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 1000;
  return config;
}

sparsecollResult_t stepOf(const Reducers& reducers, int rank, float value = 1) {
  std::vector<float> vector(kLength, value);
  return sparsecollReducerRun(reducers[rank], vector.data(), vector.data(), nullptr);
}

sparsecollResult_t create(sparsecollComm_t comm, uint64_t n, const sparsecollParams_t& params) {
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t result = sparsecollReducerCreate(&reducer, n, sparsecollFloat32, &params, nullptr, comm);
  (void)sparsecollReducerDestroy(reducer);
  return result;
}

// Two ranks of which rank 0 gets a code from a call of its own or of all.
struct Provoked {
  sparsecollResult_t result;
  sparsecollResult_t state;  // rank 0's afterwards
};

using Call = std::function<sparsecollResult_t(int, sparsecollComm_t)>;

Provoked onTwo(const Ranks& ranks, const Call& call) {
  REQUIRE(ranks.result() == sparsecollSuccess);
  const Results results = onEach(ranks, call);
  return {results[0], stateOf(ranks[0])};
}

Provoked inSteps(const Ranks& ranks, const char* method,
                 const std::function<sparsecollResult_t(int, Reducers&)>& call) {
  Reducers reducers(ranks, kLength, sparsecollFloat32, preset(method, std::string(method) == "dense" ? 0 : 0.1));
  REQUIRE(reducers.result(0) == sparsecollSuccess);
  return onTwo(ranks, [&](int rank, sparsecollComm_t) { return call(rank, reducers); });
}

Provoked invalidUsage() {
  return onTwo(Ranks(2), [](int, sparsecollComm_t comm) {
    sparsecollReducer_t reducer = nullptr;
    const sparsecollParams_t params = preset("topka", 0.1);
    if (sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm) != sparsecollSuccess)
      return sparsecollInternalError;
    (void)sparsecollReducerDestroy(reducer);
    return sparsecollReducerReset(reducer, nullptr);
  });
}

Provoked outOfMemory() {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.workspaceLimitBytes = 1 << 20;
  return onTwo(Ranks(2, &config),
               [](int, sparsecollComm_t comm) { return create(comm, 1 << 20, preset("topka", 0.1)); });
}

Provoked unsupported() {
  sparsecollParams_t params = preset("topka", 0.1);
  params.wire = sparsecollWireF16;
  return onTwo(Ranks(2), [&](int, sparsecollComm_t comm) { return create(comm, kLength, params); });
}

Provoked mismatch() {
  return onTwo(Ranks(2), [](int rank, sparsecollComm_t comm) {
    return create(comm, kLength + static_cast<uint64_t>(rank), preset("topka", 0.1));
  });
}

Provoked capacity() {
  return inSteps(Ranks(2), "topka", [](int rank, Reducers& reducers) {
    std::vector<float> gradient(kLength, 1);
    SparseVector out(sparsecollFloat32, kLength, 1);
    return sparsecollReducerRunSparse(reducers[rank], gradient.data(), out.view(), nullptr);
  });
}

Provoked nonFinite() {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  return inSteps(Ranks(2, &config), "topka",
                 [](int rank, Reducers& reducers) { return stepOf(reducers, rank, HUGE_VALF); });
}

Provoked timeout() {
  const sparsecollConfig_t config = impatient();
  return inSteps(Ranks(2, &config), "topka",
                 [](int rank, Reducers& reducers) { return rank == 0 ? stepOf(reducers, 0) : sparsecollSuccess; });
}

Provoked aborted() {
  const Ranks ranks(2);
  return inSteps(ranks, "topka", [&](int rank, Reducers& reducers) {
    (void)sparsecollCommAbort(ranks[rank]);
    return stepOf(reducers, rank);
  });
}

Provoked peerFailed() {
  const Ranks ranks(2);
  return inSteps(ranks, "topka", [&](int rank, Reducers& reducers) {
    return rank == 0 ? stepOf(reducers, 0) : sparsecollCommAbort(ranks[1]);
  });
}

Provoked corrupted() {
  std::atomic<bool> spoils{false};
  Mischief mischief;
  mischief.spoil = [&](int peer, int, std::vector<std::byte>& bytes) {
    if (spoils && peer == 0 && !bytes.empty()) bytes.back() ^= std::byte{1};
  };
  sparsecollComm_t comms[2] = {};
  REQUIRE(makeOverPairs(comms, 2, nullptr, &mischief) == sparsecollSuccess);
  const Ranks ranks(std::vector<sparsecollComm_t>(comms, comms + 2));
  return inSteps(ranks, "topka", [&](int rank, Reducers& reducers) {
    spoils = true;
    return stepOf(reducers, rank);
  });
}

// An engine whose own sum fails.
Provoked systemError() {
  PairMesh mesh(2);
  sparsecollComm_t comms[2] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank, sockets = mesh.takeSockets(rank)]() mutable {
      auto engine = std::make_unique<PairEngine>(rank, std::move(sockets));
      sparsecollEngine_t table = engine->table();
      table.iallreduce = [](void*, const void*, void*, uint64_t, int32_t, int32_t, void**) { return 7; };
      if (sparsecollCommInitEngine(&comms[rank], 2, rank, -1, &table, nullptr) == sparsecollSuccess)
        (void)engine.release();
    });
  for (std::thread& thread : threads) thread.join();
  const Ranks ranks(std::vector<sparsecollComm_t>(comms, comms + 2));
  return inSteps(ranks, "dense", [](int rank, Reducers& reducers) { return stepOf(reducers, rank); });
}

// What users can bring about without a device and without a second host.
const std::map<std::string, std::function<Provoked()>> kProvocations = {
    {"Success",
     [] { return inSteps(Ranks(2), "topka", [](int rank, Reducers& reducers) { return stepOf(reducers, rank); }); }},
    {"InvalidArgument",
     [] {
       return inSteps(Ranks(2), "topka", [](int rank, Reducers& reducers) {
         return sparsecollReducerRun(reducers[rank], nullptr, nullptr, nullptr);
       });
     }},
    {"InvalidUsage", invalidUsage},
    {"OutOfMemory", outOfMemory},
    {"Unsupported", unsupported},
    {"Mismatch", mismatch},
    {"Capacity", capacity},
    {"NonFinite", nonFinite},
    {"Timeout", timeout},
    {"Aborted", aborted},
    {"PeerFailed", peerFailed},
    {"Corrupted", corrupted},
    {"SystemError", systemError},
};

// A communicator of one rank, in host memory.
sparsecoll::Result<std::vector<std::shared_ptr<sparsecoll::Communicator>>> one() {
  constexpr int kPlaces[] = {SPARSECOLL_HOST};
  return sparsecoll::Communicator::inProcess(kPlaces,
                                             *sparsecoll::readConfig(nullptr, false, {sparsecollTransportThreads}));
}

}  // namespace

TEST_CASE("the header and the guide know every code and say the same of it") {
  const std::map<std::string, Fate> header = fatesInHeader();
  const std::vector<GuideRow> guide = rowsOfGuide();
  const std::vector<Enumerator> all = codes();
  REQUIRE(guide.size() == all.size());
  CHECK(header.size() == all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    CHECK(guide[i].code == all[i].value);
    CHECK(guide[i].name == shortName(all[i]));
    REQUIRE(header.count(shortName(all[i])) == 1);
    CHECK(guide[i].fate == header.at(shortName(all[i])));
    CHECK((guide[i].fate == Fate::kNotReturned) == all[i].unsupported());
    CHECK(std::string(sparsecollGetErrorString(static_cast<sparsecollResult_t>(all[i].value))) != "unknown result");
  }
}

TEST_CASE("an operation that fails with a code ends the communicator where the guide says so") {
  for (const GuideRow& row : rowsOfGuide()) {
    if (row.fate == Fate::kNotReturned) continue;
    CAPTURE(row.name);
    const auto code = static_cast<sparsecollResult_t>(row.code);
    auto comms = one();
    REQUIRE(comms.ok());
    sparsecoll::Communicator& comm = *comms->front();
    sparsecoll::Operation operation;
    operation.onHost = true;
    const sparsecoll::Status status = comm.operate(operation, [&](sparsecoll::Operation&) -> sparsecoll::Status {
      if (code == sparsecollSuccess) return {};
      return sparsecoll::fail(code, "a planted failure");
    });
    CHECK(status.result() == code);
    CHECK(comm.state() == (row.fate == Fate::kEnds ? code : sparsecollSuccess));
  }
}

TEST_CASE("an exception inside an operation is InternalError and ends the communicator") {
  auto comms = one();
  REQUIRE(comms.ok());
  sparsecoll::Operation operation;
  operation.onHost = true;
  const sparsecoll::Status status = comms->front()->operate(
      operation, [](sparsecoll::Operation&) -> sparsecoll::Status { throw std::runtime_error("planted"); });
  CHECK(status.result() == sparsecollInternalError);
  CHECK(comms->front()->state() == sparsecollInternalError);
}

TEST_CASE("codes that users bring about leave communicators as the guide says") {
  for (const GuideRow& row : rowsOfGuide()) {
    if (kProvocations.count(row.name) == 0) continue;
    CAPTURE(row.name);
    const Provoked provoked = kProvocations.at(row.name)();
    CHECK(provoked.result == row.code);
    CHECK(provoked.state == (row.fate == Fate::kEnds ? provoked.result : sparsecollSuccess));
  }
  for (const auto& [name, ignored] : kProvocations) CHECK(fatesInHeader().count(name) == 1);
}

TEST_CASE("outside of an exchange a code leaves the communicator alive") {
  const Ranks one(1);
  const Reducers reducers(one, kLength, sparsecollFloat32, preset("topka", 0.1));
  std::vector<std::byte> blob(1 << 16);
  size_t bytes = blob.size();
  REQUIRE(sparsecollReducerExport(reducers[0], blob.data(), &bytes, nullptr) == sparsecollSuccess);
  blob[bytes / 2] ^= std::byte{1};
  CHECK(sparsecollReducerImport(reducers[0], blob.data(), bytes, nullptr) == sparsecollCorrupted);
  CHECK(sparsecollReducerImportFrom(reducers[0], blob.data(), bytes, 1, nullptr) == sparsecollCorrupted);
  CHECK(stateOf(one[0]) == sparsecollSuccess);
  const Ranks two(2);
  sparsecollConfig_t hasty = SPARSECOLL_INIT(sparsecollConfig_t);
  hasty.initTimeoutMs = 20;
  sparsecollComm_t fewer = nullptr;
  CHECK(sparsecollCommShrink(two[0], nullptr, 0, &fewer, &hasty) == sparsecollTimeout);
  CHECK(stateOf(two[0]) == sparsecollSuccess);
}

TEST_CASE("no source of the library returns InProgress") {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* const floor : {"core", "host", "cuda", "transports", "selectors", "collectives", "src"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(sourceFolder()) / floor)) {
      if (!entry.is_regular_file() || entry.path().filename() == "names.cpp") continue;
      ++files;
      CAPTURE(entry.path().string());
      CHECK(textOf(fs::relative(entry.path(), sourceFolder()).string()).find("sparsecollInProgress") ==
            std::string::npos);
    }
  CHECK(files > 100);
}

TEST_CASE("a preset of another name is refused with the names of all") {
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  REQUIRE(sparsecollPreset("a name of more than twenty letters", &params) == sparsecollInvalidArgument);
  const std::string text = sparsecollGetLastError();
  for (const std::string& name : allPresets()) CHECK_THAT(text, Catch::Contains(" " + name));
  CHECK_THAT(text, Catch::Contains("\"a name of more than \"") && Catch::EndsWith(" " + allPresets().back()));
}
