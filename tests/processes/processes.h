// Ranks as processes of their own: forked, given an id by rank 0 through a pipe, watched, and their findings read from
// memory that all share. What a child finds out is looked at in the parent: a failed assertion in a child would be
// lost.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/group.h"
#include "tests/support/hash.h"

namespace sparsecoll::test {

inline constexpr int kMostProcesses = 8;

// What ranks meet over.
struct Way {
  sparsecollTransport_t engine = sparsecollTransportUcx;
  const char* ucxTransports = "";  // UCX_TLS; "": all that it finds

  std::string name() const { return std::string(sparsecollTransportName(engine)) + " " + ucxTransports; }
};

inline bool isHere(const Way& way) {
  int available = 0;
  return sparsecollBackendAvailable(sparsecollBackendHost, way.engine, &available) == sparsecollSuccess &&
         available != 0;
}
inline std::vector<Way> thoseHere(std::vector<Way> ways) {
  std::erase_if(ways, [](const Way& way) { return !isHere(way); });
  return ways;
}
// Those that this machine has: every engine once, and with all that it may go over.
inline std::vector<Way> engines() { return thoseHere({{sparsecollTransportUcx, ""}, {sparsecollTransportTcp, ""}}); }
inline std::vector<Way> ways() {
  return thoseHere({{sparsecollTransportUcx, ""}, {sparsecollTransportUcx, "tcp,self"}, {sparsecollTransportTcp, ""}});
}

inline double nowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// One rank's words to the parent.
struct Finding {
  std::atomic<int> stage;  // as far as it got
  int result;
  int peer;
  int made;  // CommInitRank's result
  double atMs;
  double initMs;
  uint64_t hashes[64];
  int64_t numbers[16];
  int64_t lost[64];       // for laws of conservation: what left a rank, entry by entry,
  int64_t delivered[64];  // and what came
  char text[256];
};

class Processes {
 public:
  using Body = std::function<void(int rank, Finding& finding)>;

  explicit Processes(int ranks, const Way& way = {}) : ranks_(ranks), way_(way) {
    findings_ = static_cast<Finding*>(
        mmap(nullptr, sizeof(Finding) * kMostProcesses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (int rank = 0; rank < kMostProcesses; ++rank) {
      findings_[rank].result = findings_[rank].made = -1;
      findings_[rank].peer = -2;
    }
    for (auto& ends : pipes_)
      if (pipe(ends.data()) != 0) std::abort();
  }
  ~Processes() {
    for (const pid_t child : children_)
      if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
      }
    for (const auto& ends : pipes_)
      for (const int fd : ends) close(fd);
    munmap(findings_, sizeof(Finding) * kMostProcesses);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  Finding& operator[](int rank) { return findings_[rank]; }
  pid_t process(int rank) const { return children_[static_cast<size_t>(rank)]; }

  void start(const Body& body) {
    std::fflush(nullptr);
    RankThreads::ofProcess().dismiss();
    for (int rank = 0; rank < ranks_; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        setenv("UCX_LOG_LEVEL", "fatal", 1);
        if (way_.ucxTransports[0] != '\0') setenv("UCX_TLS", way_.ucxTransports, 1);
        body(rank, findings_[rank]);
        std::fflush(nullptr);
        _exit(0);
      }
      children_[static_cast<size_t>(rank)] = child;
    }
  }

  // Rank 0's id, in a child.
  sparsecollUniqueId_t idFor(int rank, const sparsecollConfig_t& config) {
    sparsecollUniqueId_t id{};
    if (rank == 0) {
      findings_[rank].made = sparsecollGetUniqueId(&id, &config);
      for (int peer = 1; peer < ranks_; ++peer)
        if (write(pipes_[static_cast<size_t>(peer)][1], &id, sizeof id) != sizeof id) _exit(1);
    } else if (read(pipes_[static_cast<size_t>(rank)][0], &id, sizeof id) != sizeof id) {
      _exit(1);
    }
    return id;
  }

  // The communicator of a child's rank, by an id of rank 0's.
  sparsecollComm_t join(int rank, const sparsecollConfig_t* config = nullptr) {
    sparsecollConfig_t own = SPARSECOLL_INIT(sparsecollConfig_t);
    own.transport = way_.engine;
    Finding& finding = findings_[rank];
    const sparsecollConfig_t* const used = config != nullptr ? config : &own;
    const sparsecollUniqueId_t id = idFor(rank, *used);
    const double start = nowMs();
    sparsecollComm_t comm = nullptr;
    finding.made = sparsecollCommInitRank(&comm, ranks_, &id, rank, SPARSECOLL_HOST, used);
    finding.initMs = nowMs() - start;
    if (finding.made != sparsecollSuccess)
      std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
    return comm;
  }

  // Whether the rank gets that far within the time. A child that ended before never will, and the test says how it did.
  bool awaitStage(int rank, int stage, double timeoutMs = 60000) {
    const Finding& finding = findings_[rank];
    bool alive = true;
    for (const double end = nowMs() + timeoutMs; finding.stage < stage && alive && nowMs() < end; usleep(200))
      alive = runs(rank);
    if (finding.stage >= stage) return true;
    UNSCOPED_INFO("rank " << rank << (alive ? " is late" : " ended") << " at stage " << finding.stage << ", result "
                          << finding.result << ": " << finding.text);
    return false;
  }
  // Whether all children (but those in `not`) ended by themselves within the time; one that does not is killed.
  bool awaitEnd(double timeoutMs, std::vector<int> others = {}) {
    bool good = true;
    const double end = nowMs() + timeoutMs;
    for (int rank = 0; rank < ranks_; ++rank) {
      bool expected = true;
      for (const int other : others) expected = expected && other != rank;
      pid_t& child = children_[static_cast<size_t>(rank)];
      if (!expected || child <= 0) continue;
      int how = 0;
      pid_t ended = 0;
      while ((ended = waitpid(child, &how, WNOHANG)) == 0 && nowMs() < end) usleep(500);
      if (ended == child) {
        child = 0;
        good = good && WIFEXITED(how) && WEXITSTATUS(how) == 0;
        if (WIFSIGNALED(how)) {
          std::printf("rank %d was ended by signal %d\n", rank, WTERMSIG(how));
          signals_[static_cast<size_t>(rank)] = WTERMSIG(how);
        }
      } else {
        std::printf("rank %d hangs, at stage %d\n", rank, findings_[rank].stage.load());
        hangs_ = true;
        good = false;
      }
    }
    std::fflush(stdout);
    return good;
  }
  // After awaitEnd: the signal that ended a rank; 0: none did.
  int signalOf(int rank) const { return signals_[static_cast<size_t>(rank)]; }
  bool anyHangs() const { return hangs_; }

 private:
  // Whether a child has not ended yet; of other processes it is taken for granted.
  bool runs(int rank) const {
    siginfo_t ended{};
    const auto child = static_cast<id_t>(process(rank));
    return waitid(P_PID, child, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0;
  }

  const int ranks_;
  const Way way_;
  Finding* findings_;
  std::array<std::array<int, 2>, kMostProcesses> pipes_{};
  std::array<pid_t, kMostProcesses> children_{};
  std::array<int, kMostProcesses> signals_{};
  bool hangs_ = false;
};

inline void note(Finding& finding, sparsecollComm_t comm, sparsecollResult_t result) {
  finding.atMs = nowMs();
  finding.result = result;
  const sparsecollFailure_t failure = failureOf(comm);
  finding.peer = failure.peer;
  std::snprintf(finding.text, sizeof finding.text, "%s", failure.text);
}

inline sparsecollParams_t stepsOf(const char* method) {
  return preset(method, std::string(method) == "dense" ? 0 : 0.01);
}

// In place, until a step fails. The finding's stage is 1 once so many have not.
inline sparsecollResult_t stepUntilFailure(Finding& finding, sparsecollComm_t comm, const sparsecollParams_t& params,
                                           uint64_t n, int stepsOfStage = 3) {
  sparsecollReducer_t reducer = nullptr;
  sparsecollResult_t result = sparsecollReducerCreate(&reducer, n, sparsecollFloat32, &params, nullptr, comm);
  std::vector<float> gradient(n, 1.0f);
  for (int step = 1; result == sparsecollSuccess; ++step) {
    gradient[static_cast<size_t>(step) % n] = static_cast<float>(step % 100);
    result = sparsecollReducerRun(reducer, gradient.data(), gradient.data(), nullptr);
    if (step == stepsOfStage) finding.stage = 1;
  }
  note(finding, comm, result);
  (void)sparsecollReducerDestroy(reducer);
  return result;
}

// Of the ranks that are left: each has ended with what is expected, or because another one had, and names the lost one.
// How many with what is expected.
inline int endedBy(Processes& processes, int ranks, int lost, sparsecollResult_t expected) {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == lost) continue;
    const Finding& finding = processes[rank];
    CAPTURE(rank, finding.text);
    CHECK((finding.result == expected || finding.result == sparsecollPeerFailed));
    CHECK(finding.peer == lost);
    if (finding.result == expected) ++count;
  }
  return count;
}

}  // namespace sparsecoll::test
