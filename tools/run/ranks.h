// The processes that sparsecoll-run has started, their output and their end.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "tools/run/options.h"

class RankProcesses {
 public:
  RankProcesses(const Options& options, std::string folder) : options_(options), folder_(std::move(folder)) {}
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  bool start();  // false: a process could not be started; those that were are ended
  bool running() const;
  void forward(int signal);
  // Collects processes that have ended, and sees to the others once one has failed.
  void attend();
  void watch(std::vector<pollfd>& into) const;
  void readOutput();
  int msToNextStep() const;  // -1: nothing is due
  int status() const { return status_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    pid_t process = -1;
    bool ended = false;
    int output[2] = {-1, -1};  // its standard output and error, where lines get a prefix
    std::string line[2];
  };

  bool startRank(int rank);
  [[noreturn]] void become(int rank, const int (&pipes)[2][2]) const;
  void ended(Rank& rank, int how);
  void readFrom(size_t rank, size_t stream);
  void print(size_t rank, size_t stream);
  void closeOutputs();
  bool allEnded() const;
  void signalAll(int signal);

  const Options& options_;
  const std::string folder_;
  std::vector<Rank> ranks_;
  int status_ = 0;
  bool failed_ = false;
  int stage_ = 0;  // what was done about the others: nothing, SIGTERM, SIGKILL
  Clock::time_point next_;
  Clock::time_point outputUntil_ = Clock::time_point::max();  // of processes that ranks have left behind
};
