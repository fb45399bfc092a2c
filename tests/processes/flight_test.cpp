// A rank that is stopped or killed in the middle of steps: the others leave files, and the joined text names it.
#include <csignal>
#include <cstdlib>
#include <set>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"
#include "tools/flight/join.h"

namespace sparsecoll::test {
namespace {

constexpr uint64_t kLength = 100000;
constexpr int kRanks = 4;

flight::Group joined(const Folder& folder) {
  std::vector<flight::Recording> read;
  for (const std::string& path : flight::filesOf({folder.path()})) read.push_back(flight::readRecording(path));
  std::vector<std::string> notes;
  const std::vector<flight::Group> groups = flight::groupsOf(std::move(read), notes);
  REQUIRE(groups.size() == 1);
  CHECK(notes.empty());
  return groups[0];
}

}  // namespace

TEST_CASE("after a rank was stopped or killed the others' files name it") {
  const Way way = GENERATE(from_range(engines()));
  const auto [signal, method] =
      GENERATE(table<int, const char*>({{SIGSTOP, "topka"}, {SIGSTOP, "dense"}, {SIGKILL, "topka"}}));
  CAPTURE(way.name(), signal, method);
  const Folder folder;
  setenv("SPARSECOLL_FLIGHT_DIR", folder.path().c_str(), 1);
  Processes processes(kRanks, way);
  processes.start([&, how = method](int rank, Finding& finding) {
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.opTimeoutMs = 3000;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    sparsecollParams_t params = stepsOf(how);
    params.tag = 4;
    (void)stepUntilFailure(finding, comm, params, kLength, 80);  // by then the ring has wrapped
    (void)sparsecollCommDestroy(comm);
  });
  unsetenv("SPARSECOLL_FLIGHT_DIR");
  REQUIRE(processes.awaitStage(3, 1));
  kill(processes.process(3), signal);
  (void)processes.awaitEnd(60000, {3});
  REQUIRE(!processes.anyHangs());

  const flight::Group group = joined(folder);
  std::set<int> here;
  for (int rank = 0; rank < 3; ++rank)
    if (processes.signalOf(rank) == 0) here.insert(rank);  // UCX ends a process now and then (docs/reliability.md)
  const std::vector<int> files = group.here();
  CHECK(std::set<int>(files.begin(), files.end()) == here);
  CHECK(group.transport == sparsecollTransportName(way.engine));
  for (const auto& [rank, recording] : group.of) {
    CAPTURE(rank);
    CHECK(recording.entries.size() == 64);
    REQUIRE(recording.failure);
    CHECK((recording.failure->result == "timeout" || recording.failure->result == "peer failed"));
  }
  if (here.size() < 3) return;
  const std::vector<flight::Finding> found = flight::findingsOf(group);
  std::string text;
  for (const flight::Finding& finding : found) text += finding.text + "\n";
  std::printf("%s", text.c_str());
  CAPTURE(text);
  REQUIRE(!found.empty());
  CHECK(found[0].kind == flight::Finding::Kind::kLag);
  CHECK(found[0].ranks == std::vector<int>{3});
  CHECK_THAT(found[0].text, Catch::StartsWith("rank 3 holds up operation ") &&
                                Catch::Contains("of the reducer with tag 4 (preset " + std::string(method)));
  CHECK_THAT(text, Catch::Contains("rank 3 left no file"));
}

}  // namespace sparsecoll::test
