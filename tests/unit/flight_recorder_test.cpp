// The flight recorder on one rank and on threads: what it keeps, what its file says, and that a file can be written at
// any moment, whatever is at its place.
#include "tests/support/catch.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "core/environment.h"
#include "src/flight_recorder.h"
#include "tests/support/folder.h"
#include "tests/support/group.h"
#include "tools/flight/join.h"

using namespace sparsecoll;
using namespace sparsecoll::test;

namespace {

std::string bytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<uint64_t> sequencesOf(const FlightRecorder& recorder) {
  std::vector<uint64_t> sequences;
  recorder.each([&](const FlightFacts& facts) { sequences.push_back(facts.sequence); });
  return sequences;
}

FlightSource sourceOf(std::string_view name) {
  FlightSource source;
  source.id = 0xabc;
  source.name = name;
  source.rank = 2;
  source.ranks = 4;
  source.transport = sparsecollTransportTcp;
  source.failure = SPARSECOLL_INIT(sparsecollFailure_t);
  return source;
}

// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { (void)setenv(name, value.c_str(), 1); }
  ~Variable() { (void)unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

sparsecollResult_t oneRank(const char* variable, const std::string& value) {
  const Variable set(variable, value);
  sparsecollComm_t comm = nullptr;
  const sparsecollResult_t result = sparsecollCommInitAll(&comm, 1, nullptr, nullptr);
  (void)sparsecollCommDestroy(comm);
  return result;
}

}  // namespace

TEST_CASE("a recorder keeps the last operations, the oldest first") {
  FlightRecorder recorder(4);
  CHECK(sequencesOf(recorder).empty());
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) recorder.begin(sequence, 7, nullptr)->end(0, -1, 1, 2);
  CHECK(sequencesOf(recorder) == std::vector<uint64_t>{1, 2, 3});
  for (uint64_t sequence = 4; sequence <= 11; ++sequence) recorder.begin(sequence, 7, nullptr);
  CHECK(sequencesOf(recorder) == std::vector<uint64_t>{8, 9, 10, 11});
  CHECK(recorder.count() == 11);

  FlightRecorder off(0);
  CHECK(!off.on());
  CHECK(off.begin(1, 0, nullptr) == nullptr);
  CHECK(sequencesOf(off).empty());
}

TEST_CASE("a reader never finds parts of two operations in one record") {
  FlightRecorder recorder(2);
  std::atomic<bool> ended{false};
  uint64_t seen = 0, mixed = 0;
  std::thread reader([&] {
    while (!ended || seen == 0)
      recorder.each([&](const FlightFacts& facts) {
        ++seen;
        const OperationLabel& label = facts.label;
        if (facts.sequence != facts.number || label.tag != facts.number || label.n != facts.number ||
            facts.plan != facts.number || (facts.endNs != 0 && facts.sentBytes != facts.number))
          ++mixed;
      });
  });
  for (uint64_t number = 1; number <= 100000; ++number) {
    const OperationLabel label{"ReducerRun", "", "", "", number, number, 0};
    FlightRecord* const record = recorder.begin(number, number, &label);
    record->beginRound(0, 0);
    record->end(sparsecollSuccess, -1, number, 0);
  }
  ended = true;
  reader.join();
  CHECK(seen > 0);
  CHECK(mixed == 0);
}

TEST_CASE("a record tells the round, its bytes and who is missing, and nothing of it goes over to the next operation") {
  FlightRecorder recorder(1);
  const OperationLabel label{"ReducerRun", "topka", "topk", "allgather", 4, 25000000, 250000};
  FlightRecord* const record = recorder.begin(118, 9, &label);
  record->beginRound(0, 0);
  for (const int rank : {0, 70, 1023}) record->await(rank);
  record->came(70);
  record->came(5);
  record->beginRound(10, 20);
  for (const int rank : {1, 700}) record->await(rank);
  record->came(1);
  FlightFacts facts;
  REQUIRE(record->read(facts));
  CHECK(facts.sequence == 118);
  CHECK(facts.rounds == 2);
  CHECK(facts.sentBytes == 10);
  CHECK(facts.receivedBytes == 20);
  CHECK(facts.endNs == 0);
  CHECK(facts.startNs <= facts.roundNs);
  RankBits awaited{};
  awaited[700 / 64] = uint64_t{1} << (700 % 64);
  CHECK(facts.awaited == awaited);
  record->end(sparsecollTimeout, 700, 30, 40);
  REQUIRE(record->read(facts));
  CHECK(facts.result == sparsecollTimeout);
  CHECK(facts.peer == 700);
  CHECK(facts.endNs >= facts.roundNs);

  REQUIRE(recorder.begin(119, 9, nullptr)->read(facts));
  CHECK(facts.awaited == RankBits{});
  CHECK(facts.rounds == 0);
  CHECK(facts.sentBytes == 0);
  CHECK(facts.endNs == 0);
  CHECK(facts.peer == -1);
  CHECK(std::string(facts.label.call) == "operation");
}

TEST_CASE("what a file says is what the recorder holds") {
  const Folder folder;
  FlightRecorder recorder(8);
  const OperationLabel label{"ReducerRun", "topka", "topk", "allgather", 4, 25000000, 250000};
  FlightRecord* record = recorder.begin(117, 9, &label);
  record->beginRound(0, 0);
  record->await(3);
  record->came(3);
  record->end(sparsecollSuccess, -1, 100, 200);
  record = recorder.begin(0, 0, nullptr);
  record = recorder.begin(118, 9, &label);
  record->beginRound(0, 0);
  record->await(1);
  record->await(3);
  const std::string path = folder.path() / "file.json";
  REQUIRE(writeFlight(recorder, sourceOf("two \"words\"\n\\ \x01 \xc3\xa4 \xff\xfe \xed\xa0\x80"), path.c_str()).ok());
  const flight::Recording read = flight::readRecording(path);
  CHECK(read.name == "two \"words\"\n\\ \x01 \xc3\xa4 ?? ???");
  CHECK(read.communicator == "0000000000000abc");
  CHECK(read.rank == 2);
  CHECK(read.ranks == 4);
  CHECK(read.pid == getpid());
  CHECK(read.transport == "tcp");
  CHECK(!read.failure);
  REQUIRE(read.entries.size() == 3);
  CHECK(read.entries[0].sequence == 117u);
  CHECK(read.entries[0].result == "success");
  CHECK(read.entries[0].sentBytes == 100);
  CHECK(read.entries[0].waitsFor.empty());
  CHECK(!read.entries[1].sequence);
  CHECK(read.entries[2].call == "ReducerRun");
  CHECK(read.entries[2].preset == "topka");
  CHECK(read.entries[2].tag == 4);
  CHECK(read.entries[2].n == 25000000);
  CHECK(read.entries[2].underWay());
  CHECK(read.entries[2].waitsFor == std::vector<int>{1, 3});
  CHECK(read.entries[2].startNs <= read.writtenNs);
  CHECK(read.writtenNs - read.entries[0].startNs < int64_t{3600} * 1000000000);
}

TEST_CASE("letters of a name stay, and bytes that are none, or too many, do not make the file unreadable") {
  const Folder folder;
  const FlightRecorder recorder(1);
  const std::string path = folder.path() / "file.json";
  const auto written = [&](const std::string& name) {
    REQUIRE(writeFlight(recorder, sourceOf(name), path.c_str()).ok());
    return flight::readRecording(path).name;
  };
  for (const std::string letter : {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK(written(letter) == letter);
  // Cut, without its second byte, longer than needed, half of a pair, beyond the last.
  for (const std::string none :
       {"\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5"})
    CHECK(written(none) == std::string(none.size(), '?'));
  CHECK(written("\xc3(") == "?(");
  const std::string controls = written(std::string(2000, '\x01'));
  CHECK(controls.size() > 10);
  CHECK(controls == std::string(controls.size(), '\x01'));
}

TEST_CASE("a file takes the place of plain files alone, and nobody's other file is written through a link") {
  const Folder folder;
  FlightRecorder recorder(2);
  const std::string victim = folder.write("victim", "precious");
  const std::string path = folder.write("file.json", "older");
  // Whatever is there under the name that the file has until it is whole.
  for (int number = 0; number < 200; ++number)
    std::filesystem::create_symlink(victim,
                                    path + "." + std::to_string(getpid()) + "-" + std::to_string(number) + ".part");
  REQUIRE(writeFlight(recorder, sourceOf("a"), path.c_str()).ok());
  CHECK(flight::readRecording(path).name == "a");
  CHECK(bytesOf(victim) == "precious");
  struct stat facts {};
  REQUIRE(stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);

  const std::string link = folder.path() / "link.json";
  std::filesystem::create_symlink(victim, link);
  const std::string pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& other : {link, pipe, folder.path().string()})
    CHECK(writeFlight(recorder, sourceOf("a"), other.c_str()).result() == sparsecollInvalidArgument);
  CHECK(bytesOf(victim) == "precious");
  const std::string nowhere = folder.path() / "nowhere" / "file.json";
  CHECK(writeFlight(recorder, sourceOf("a"), nowhere.c_str()).result() == sparsecollSystemError);
  CHECK(writeFlight(recorder, sourceOf("a"), std::string(1001, 'a').c_str()).result() == sparsecollInvalidArgument);
}

TEST_CASE("without room on the disk the earlier file stays, and nothing is left beside it") {
  const Folder folder;
  FlightRecorder recorder(2);
  recorder.begin(1, 0, nullptr);
  const std::string path = folder.path() / "file.json";
  REQUIRE(writeFlight(recorder, sourceOf("earlier"), path.c_str()).ok());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{300, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  const Status written = writeFlight(recorder, sourceOf("later"), path.c_str());
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  (void)std::signal(SIGXFSZ, handler);
  CHECK(written.result() == sparsecollSystemError);
  CHECK_THAT(written.failure().text.c_str(), Catch::Contains("file.json: File too large"));
  CHECK(flight::readRecording(path).name == "earlier");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("the environment says how much is kept and where files go, and what it cannot mean makes no communicator") {
  const Folder folder;
  for (const char* const good : {"", "0", "1", "65536"})
    CHECK(oneRank(variable::kFlightEntries, good) == sparsecollSuccess);
  for (const char* const wrong : {"x", "-1", "1.5", "65537", "64 "})
    CHECK(oneRank(variable::kFlightEntries, wrong) == sparsecollInvalidArgument);
  CHECK(oneRank(variable::kFlightFolder, folder.path()) == sparsecollSuccess);
  for (const std::string& wrong : {(folder.path() / "none").string(), folder.write("file", "").string(),
                                   folder.path().string() + std::string(800, '/')})
    CHECK(oneRank(variable::kFlightFolder, wrong) == sparsecollInvalidArgument);
}

TEST_CASE("a call writes the file where it is told to, or where the environment says, and says why it cannot") {
  const Folder folder;
  const std::string path = folder.path() / "mine.json";
  {
    const Ranks ranks(1);
    CHECK(sparsecollCommDumpFlightRecorder(ranks[0], path.c_str()) == sparsecollSuccess);
    CHECK(flight::readRecording(path).transport == "threads");
    CHECK(sparsecollCommDumpFlightRecorder(ranks[0], "") == sparsecollInvalidArgument);
    CHECK(sparsecollCommDumpFlightRecorder(ranks[0], nullptr) == sparsecollInvalidArgument);
    CHECK_THAT(sparsecollGetLastError(), Catch::Contains(variable::kFlightFolder));
  }
  const Variable where(variable::kFlightFolder, folder.path());
  {
    const Ranks ranks(1);
    CHECK(sparsecollCommDumpFlightRecorder(ranks[0], nullptr) == sparsecollSuccess);
    CHECK(flight::filesOf({folder.path()}).size() == 1);
  }
  const Variable off(variable::kFlightEntries, "0");
  const Ranks ranks(2);
  CHECK(sparsecollCommDumpFlightRecorder(ranks[0], path.c_str()) == sparsecollUnsupported);
  const Reducers reducers(ranks, 64, sparsecollFloat32, preset("topka", 0.1));
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t) {
          std::vector<float> vector(64, 1);
          return sparsecollReducerRun(reducers[rank], vector.data(), vector.data(), nullptr);
        }) == all(2, sparsecollSuccess));
  CHECK(onEach(ranks, [](int rank, sparsecollComm_t comm) {
          return rank == 0 ? sparsecollCommAbort(comm) : sparsecollSuccess;
        }) == all(2, sparsecollSuccess));
  CHECK(flight::filesOf({folder.path()}).size() == 1);
}

TEST_CASE("any thread writes files while all ranks step, each file is whole, and numbers go up") {
  const Folder folder;
  const Ranks ranks(3);
  const Reducers reducers(ranks, 5000, sparsecollFloat32, preset("topka", 0.01));
  REQUIRE(reducers.result(0) == sparsecollSuccess);
  std::atomic<bool> ended{false};
  std::string wrong;
  uint64_t files = 0;
  std::thread reader([&] {
    for (uint64_t last = 0; !ended || files < 3; ++files) {
      const std::string path = folder.path() / "live.json";
      if (sparsecollCommDumpFlightRecorder(ranks[1], path.c_str()) != sparsecollSuccess) wrong = "not written";
      const flight::Recording read = flight::readRecording(path);
      for (const flight::Entry& entry : read.entries) {
        if (entry.number <= last && &entry != &read.entries.front() && (&entry)[-1].number >= entry.number)
          wrong = "numbers go down";
        if (entry.call.empty() || entry.rounds > 8) wrong = "nonsense";
      }
      if (read.entries.empty()) wrong = "nothing";
      last = read.entries.empty() ? last : read.entries.back().number;
    }
  });
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t) {
    std::vector<float> vector(5000, static_cast<float>(rank + 1));
    sparsecollResult_t result = sparsecollSuccess;
    for (int step = 0; step < 300 && result == sparsecollSuccess; ++step)
      result = sparsecollReducerRun(reducers[rank], vector.data(), vector.data(), nullptr);
    return result;
  });
  ended = true;
  reader.join();
  CHECK(results == all(3, sparsecollSuccess));
  CHECK(wrong.empty());
  CHECK(files >= 3);
}

TEST_CASE("ranks that call different things, or do not come, are told by the files that are left") {
  const Folder folder;
  const Variable where(variable::kFlightFolder, folder.path());
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 300;
  const Ranks ranks(3, &config);
  const sparsecollParams_t params = preset("topka", 0.01);
  const Results mismatch = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    std::vector<float> vector(64);
    sparsecollReducer_t reducer = nullptr;
    if (rank == 1)
      return sparsecollAllReduce(vector.data(), vector.data(), 64, sparsecollFloat32, &params, comm, nullptr);
    return sparsecollReducerCreate(&reducer, 64, sparsecollFloat32, &params, nullptr, comm);
  });
  CHECK(mismatch == all(3, sparsecollMismatch));
  std::vector<std::string> notes;
  const auto join = [&] {
    std::vector<flight::Recording> read;
    for (const std::string& path : flight::filesOf({folder.path()})) read.push_back(flight::readRecording(path));
    return flight::groupsOf(std::move(read), notes);
  };
  std::vector<flight::Group> groups = join();
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].missing().empty());
  std::vector<flight::Finding> found = flight::findingsOf(groups[0]);
  REQUIRE(!found.empty());
  CHECK(found[0].kind == flight::Finding::Kind::kMismatch);
  CHECK(found[0].ranks == std::vector<int>{1});
  CHECK_THAT(found[0].text,
             Catch::Contains("rank 1 called AllReduce") && Catch::Contains("ranks 0, 2 called ReducerCreate (n 64"));

  const Reducers reducers(ranks, 64, sparsecollFloat32, params);
  REQUIRE(reducers.result(0) == sparsecollSuccess);
  const Results late = onEach(ranks, [&](int rank, sparsecollComm_t) {
    std::vector<float> vector(64, 1);
    return rank == 2 ? sparsecollSuccess : sparsecollReducerRun(reducers[rank], vector.data(), vector.data(), nullptr);
  });
  CHECK(late[2] == sparsecollSuccess);
  CHECK(late[0] != sparsecollSuccess);
  // Rank 2 did not come and has written nothing since.
  CHECK(sparsecollCommDumpFlightRecorder(ranks[2], nullptr) == sparsecollSuccess);
  groups = join();
  found = flight::findingsOf(groups[0]);
  const auto lag =
      std::find_if(found.begin(), found.end(), [](const auto& one) { return one.kind == flight::Finding::Kind::kLag; });
  REQUIRE(lag != found.end());
  CHECK(lag->ranks == std::vector<int>{2});
  CHECK_THAT(lag->text, Catch::StartsWith("rank 2 never began operation ") &&
                            Catch::Contains("ReducerRun of the reducer with tag 0 (preset topka, n 64, k 1)") &&
                            Catch::Contains("waited for rank 2 in round 1 of operation "));
}
