// What keeps ranks of several processes from meeting: a rank's own settings, which it may correct and call again, one
// that stops, descriptors that are used up.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/processes/shared_board.h"
#include "tests/support/folder.h"

namespace sparsecoll::test {
namespace {

constexpr double kLongMs = 60000;

sparsecollConfig_t over(const Way& way, uint64_t initTimeoutMs) {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = way.engine;
  config.initTimeoutMs = initTimeoutMs;
  return config;
}

void note(Finding& finding, sparsecollResult_t made) {
  finding.made = made;
  if (made != sparsecollSuccess) std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
}

// The first call is made with the mistake, the second without.
struct Mistake {
  const char* name;
  int rank;
  std::function<void(sparsecollConfig_t&)> make;
  std::function<void()> correct;
};

}  // namespace

TEST_CASE("a call whose own settings are wrong is corrected and repeated while the others wait") {
  const Way way{sparsecollTransportTcp};
  if (!isHere(way)) return;
  const bool byLauncher = GENERATE(true, false);
  const Folder folder;
  const std::string secret = folder.write("secret", "0123456789abcdef");
  const Mistake mistakes[] = {
      {"no such interface", 0, [](sparsecollConfig_t& config) { config.interfaceName = "nope0"; }, [] {}},
      {"every address", 0, [](sparsecollConfig_t& config) { config.interfaceName = "0.0.0.0"; }, [] {}},
      {"no such interface", 1, [](sparsecollConfig_t& config) { config.interfaceName = "nope0"; }, [] {}},
      {"every address of IPv6", 1, [](sparsecollConfig_t& config) { config.interfaceName = "::"; }, [] {}},
      {"no such engine", 1, [](sparsecollConfig_t&) { setenv("SPARSECOLL_DISABLE_ENGINES", "nccl, ucx", 1); },
       [] { unsetenv("SPARSECOLL_DISABLE_ENGINES"); }},
      {"a secret that others read", 1, [&](sparsecollConfig_t&) { (void)chmod(secret.c_str(), 0644); },
       [&] { (void)chmod(secret.c_str(), 0600); }},
  };
  for (const Mistake& mistake : mistakes) {
    const bool bySecret = mistake.name == std::string("a secret that others read");
    if (bySecret && !byLauncher) continue;
    if (!byLauncher && mistake.rank == 0) continue;  // GetUniqueId says so, and nothing has been used
    CAPTURE(byLauncher, mistake.name, mistake.rank);
    REQUIRE(chmod(secret.c_str(), 0600) == 0);
    const Folder meeting;
    Processes processes(2, way);
    processes.start([&](int rank, Finding& finding) {
      const sparsecollConfig_t right = over(way, 30000);
      sparsecollConfig_t wrong = right;
      if (rank == mistake.rank) mistake.make(wrong);
      sparsecollComm_t comm = nullptr;
      if (!byLauncher) {
        if (rank == mistake.rank) {  // the id is the same for both calls
          sparsecollUniqueId_t id = processes.idFor(rank, right);
          finding.result = sparsecollCommInitRank(&comm, 2, &id, rank, SPARSECOLL_HOST, &wrong);
          mistake.correct();
          note(finding, sparsecollCommInitRank(&comm, 2, &id, rank, SPARSECOLL_HOST, &right));
        } else {
          comm = processes.join(rank, &right);
        }
      } else {
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", "2", 1);
        if (bySecret) {
          setenv("MASTER_ADDR", "127.0.0.1", 1);
          setenv("MASTER_PORT", "29871", 1);
          setenv("SPARSECOLL_SECRET_FILE", secret.c_str(), 1);
          if (rank != mistake.rank) processes.awaitStage(mistake.rank, 1);  // the file is right again
        } else {
          setenv("SPARSECOLL_LAUNCH_DIR", meeting.path().c_str(), 1);
        }
        if (rank == mistake.rank) {
          finding.result = sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, &wrong);
          mistake.correct();
          finding.stage = 1;
        }
        note(finding, sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, &right));
      }
      if (comm != nullptr) (void)sparsecollCommDestroy(comm);
    });
    CHECK(processes.awaitEnd(kLongMs));
    CHECK(processes[mistake.rank].result == sparsecollInvalidArgument);
    for (int rank = 0; rank < 2; ++rank) {
      CAPTURE(rank, processes[rank].text);
      CHECK(processes[rank].made == sparsecollSuccess);
    }
  }
}

TEST_CASE("ranks that would hold silence for a loss after different times make no communicator, and are told why") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(3, way);
  processes.start([&](int rank, Finding&) {
    if (rank == 1) setenv("SPARSECOLL_SILENCE_MS", "300", 1);
    (void)processes.join(rank);
  });
  CHECK(processes.awaitEnd(kLongMs));
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].made == sparsecollMismatch);
    CHECK(std::string(processes[rank].text).find("silenceMs: 30000 on rank 0, 300 on rank 1") != std::string::npos);
  }
}

TEST_CASE("a rank that stops while ranks meet is waited for as long as they may meet, and no longer") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  SharedBoard board;
  Processes processes(2, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollConfig_t config = over(way, 5000);
    config.abortTimeoutMs = 10 * static_cast<uint64_t>(kLongMs);  // which is for memory, and for no rank
    if (rank == 1)
      config.logFn = [](void*, sparsecollLogLevel_t, const char*, const char* text) {
        if (std::strstr(text, "ready") != nullptr) (void)raise(SIGSTOP);
      };
    sparsecollComm_t comm = nullptr;
    note(finding, board.meet(&comm, rank, 2, config));
  });
  CHECK(processes.awaitEnd(kLongMs, {1}));
  CAPTURE(processes[0].text);
  CHECK((processes[0].made == sparsecollTimeout || processes[0].made == sparsecollPeerFailed));
}

TEST_CASE("without descriptors a rank says so") {
  const Way way{sparsecollTransportTcp};
  if (!isHere(way)) return;
  const int lacking = GENERATE(0, 1);
  bool toldOfThem = false;
  for (int spare = 0; spare < 9; ++spare) {
    SharedBoard board;
    Processes processes(2, way);
    processes.start([&](int rank, Finding& finding) {
      if (rank == lacking) {
        const int lowest = open("/dev/null", O_RDONLY);
        close(lowest);
        const rlimit few{static_cast<rlim_t>(lowest + spare), static_cast<rlim_t>(lowest + spare)};
        if (setrlimit(RLIMIT_NOFILE, &few) != 0) return;
      }
      sparsecollComm_t comm = nullptr;
      // Who calls fails at once; who is called cannot tell a crowd of strangers from its own limit.
      const uint64_t patienceMs = lacking == 1 ? 10 * static_cast<uint64_t>(kLongMs) : 4000;
      note(finding, board.meet(&comm, rank, 2, over(way, patienceMs)));
      if (comm != nullptr) (void)sparsecollCommDestroy(comm);
    });
    const Finding& finding = processes[lacking];
    CAPTURE(lacking, spare);
    CHECK(processes.awaitEnd(kLongMs, {1 - lacking}));  // which may wait for a part of its own all-gather
    CAPTURE(finding.text);
    if (finding.made == sparsecollSuccess) continue;
    CHECK((finding.made == sparsecollSystemError || lacking == 0));
    const auto says = [&](const char* words) { return std::strstr(finding.text, words) != nullptr; };
    const bool tells = says("open files") || says("descriptors");
    CHECK((tells || lacking == 0));  // who waits may wait for a rank that is slow
    toldOfThem = toldOfThem || tells;
  }
  CHECK(toldOfThem);
}

}  // namespace sparsecoll::test
