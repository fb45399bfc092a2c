// The processes that sparsecoll-run has started, their output and their end.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "tools/run/command.h"

class RankProcesses {
 public:
  RankProcesses(const Options& options, std::string folder);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  bool start();  // false: a process could not be started; those that were are ended
  bool running() const;
  void forward(int signal);
  // Once all have ended: says how the others ended, if one failed.
  void reportOthers() const;
  // Collects processes that have ended, and sees to the others once one has failed.
  void attend();
  void watch(std::vector<pollfd>& into) const;
  void passOutputOn();
  int msToNextStep() const;  // -1: nothing is due
  int status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    pid_t process = -1;
    bool ended = false;
    int how = 0;             // as waitpid says it
    bool afterOurs = false;  // it ended after this launcher had sent it a signal
    // A pipe that a rank of this host holds open. The kernel closes it when the rank begins to end, before it closes
    // what the rank opened later, its connections: no other rank learns of the end earlier.
    int lifeline = -1;
    bool ending = false;  // the pipe is closed
    int order = 0;        // among the ranks that began to end
    Clock::time_point began;
    int input = -1;            // of one on another host: what it is told, see Command::remote
    int output[2] = {-1, -1};  // its standard output and error, where lines get a prefix
    std::string line[2];
  };

  bool startRank(int rank);
  [[noreturn]] void become(const Command& command, int input, const int (&pipes)[2][2]) const;
  void signal(const Rank& rank, int number) const;
  void noteEnding();
  void ended(Rank& rank, int how);
  void decide();
  bool mayHaveBeenFirst(const Rank& rank) const;
  void readFrom(size_t rank, size_t stream, size_t most);
  void endOutput(size_t rank, size_t stream);
  void print(size_t rank, size_t stream);
  void write(size_t stream);
  void closeOutputs();
  bool allEnded() const;
  bool readsOutput() const;  // some process holds a pipe of it
  void signalAll(int signal);

  const Options& options_;
  const Commands commands_;
  std::vector<Rank> ranks_;
  std::string unwritten_[2];  // lines for this program's own output and error
  int endings_ = -1;          // epoll over the pipes, which tells in which order they were closed
  int begun_ = 0;             // ranks that began to end
  int status_ = 0;
  bool failed_ = false;
  bool told_ = false;            // to end, by a signal
  bool signalled_ = false;       // this launcher has sent signals
  const Rank* first_ = nullptr;  // the failure that is reported
  Clock::time_point failedAt_;
  int stage_ = 0;  // what was done about the others: nothing, SIGTERM, SIGKILL
  Clock::time_point next_;
  Clock::time_point outputUntil_ = Clock::time_point::max();  // of processes that ranks have left behind
};
