#include "tools/run/ranks.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>

namespace {
constexpr int kNotFound = 127;
constexpr auto kAfterTerm = std::chrono::seconds(2);
constexpr auto kAfterLast = std::chrono::seconds(2);      // for what is still to be read once all ranks have ended
constexpr auto kSettle = std::chrono::milliseconds(100);  // between the first failure that is seen and its report
constexpr auto kEndTakes = std::chrono::seconds(2);       // at most, from a closed pipe to the end of the process
constexpr size_t kPiece = 4096;                           // of a rank's output
constexpr size_t kLongestLine = 64 * 1024;                // longer ones are cut

// A rank whose peer is gone may end itself by SIGABRT or SIGPIPE. The other signals have a reason of their own.
bool killed(int how) { return WIFSIGNALED(how) && WTERMSIG(how) != SIGABRT && WTERMSIG(how) != SIGPIPE; }
int codeOf(int how) { return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how); }

// false, so that who could not do something can return it.
bool cannot(const char* what) {
  std::fprintf(stderr, "sparsecoll-run: %s: %s\n", what, std::strerror(errno));
  return false;
}

std::string endOf(int how) {
  if (!WIFSIGNALED(how)) return "ended with status " + std::to_string(WEXITSTATUS(how));
  return "was ended by signal " + std::to_string(WTERMSIG(how)) + " (" + strsignal(WTERMSIG(how)) + ")";
}
}  // namespace

RankProcesses::RankProcesses(const Options& options, std::string folder)
    : options_(options), commands_(options, std::move(folder)), endings_(epoll_create1(EPOLL_CLOEXEC)) {}

RankProcesses::~RankProcesses() {
  signalAll(SIGKILL);
  for (Rank& rank : ranks_) {
    if (rank.process > 0 && !rank.ended) waitpid(rank.process, nullptr, 0);
    for (const int fd : rank.output)
      if (fd >= 0) close(fd);
    if (rank.lifeline >= 0) close(rank.lifeline);
    if (rank.input >= 0) close(rank.input);
  }
  if (endings_ >= 0) close(endings_);
}

bool RankProcesses::start() {
  if (endings_ < 0) return cannot("epoll_create1");
  ranks_.resize(static_cast<size_t>(options_.ranks));
  for (int rank = 0; rank < options_.ranks; ++rank)
    if (!startRank(rank)) return false;
  return true;
}

bool RankProcesses::startRank(int number) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  int pipes[2][2] = {{-1, -1}, {-1, -1}};
  for (size_t stream = 0; options_.prefix && stream < 2; ++stream) {
    if (pipe2(pipes[stream], O_CLOEXEC) != 0) return cannot("pipe for the output of a rank");
    rank.output[stream] = pipes[stream][0];
  }
  const Command command = commands_.of(number);
  int input[2] = {-1, -1};
  if (command.remote && pipe2(input, O_CLOEXEC) != 0) return cannot("pipe to a rank");
  rank.input = input[1];
  int lifeline[2] = {-1, -1};
  if (!command.remote) {
    if (pipe2(lifeline, O_CLOEXEC) != 0) return cannot("pipe to a rank");
    rank.lifeline = lifeline[0];
    epoll_event closed{};
    closed.events = EPOLLHUP | EPOLLET;
    closed.data.u32 = static_cast<uint32_t>(number);
    if (epoll_ctl(endings_, EPOLL_CTL_ADD, rank.lifeline, &closed) != 0) return cannot("epoll_ctl");
  }
  const pid_t parent = getpid();
  rank.process = fork();
  if (rank.process == 0) {
    // Ranks must not outlive their launcher, however it ends.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotFound);
    if (lifeline[1] >= 0) fcntl(lifeline[1], F_SETFD, 0);  // stays open in the program
    become(command, input[0], pipes);
  }
  if (input[0] >= 0) close(input[0]);
  if (lifeline[1] >= 0) close(lifeline[1]);
  for (size_t stream = 0; options_.prefix && stream < 2; ++stream) close(pipes[stream][1]);
  return rank.process > 0 || cannot("fork");
}

void RankProcesses::become(const Command& command, int input, const int (&pipes)[2][2]) const {
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  if (input < 0) input = open("/dev/null", O_RDONLY);
  dup2(input, STDIN_FILENO);
  close(input);
  if (options_.prefix) {
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[1][1], STDERR_FILENO);
  }
  for (const auto& [name, value] : command.variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "sparsecoll-run: %s: %s\n", words[0], std::strerror(errno));
  _exit(kNotFound);
}

bool RankProcesses::running() const {
  return !allEnded() || readsOutput() || !unwritten_[0].empty() || !unwritten_[1].empty();
}

bool RankProcesses::readsOutput() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.output[0] >= 0 || rank.output[1] >= 0; });
}

bool RankProcesses::allEnded() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

// On another host the rank is told by its name; here only what connects to it could be reached.
void RankProcesses::signal(const Rank& rank, int number) const {
  const std::string name = rank.input >= 0 && number != SIGKILL ? std::string(sigabbrev_np(number)) + "\n" : "";
  if (!name.empty() && ::write(rank.input, name.data(), name.size()) == static_cast<ssize_t>(name.size())) return;
  if (kill(-rank.process, number) != 0) kill(rank.process, number);
}

void RankProcesses::signalAll(int signal) {
  for (const Rank& rank : ranks_)
    if (rank.process > 0 && !rank.ended) this->signal(rank, signal);
}

void RankProcesses::forward(int signal) {
  told_ = told_ || signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
  signalled_ = signalled_ || told_;
  signalAll(signal);
}

// Edge-triggered events come in the order in which they happened, however late they are read.
void RankProcesses::noteEnding() {
  epoll_event closed[16];
  for (int found; (found = epoll_wait(endings_, closed, 16, 0)) > 0;)
    for (int i = 0; i < found; ++i) {
      Rank& rank = ranks_[closed[i].data.u32];
      if (rank.ending || rank.ended) continue;
      rank.ending = true;
      rank.order = ++begun_;
      rank.began = Clock::now();
    }
}

void RankProcesses::ended(Rank& rank, int how) {
  rank.ended = true;
  rank.how = how;
  if (rank.input >= 0) close(rank.input);
  rank.input = -1;
  rank.afterOurs = signalled_;
  // A helper of the rank may hold the pipe still, and a program that closes all it has inherited has said nothing.
  if (!rank.ending || Clock::now() - rank.began > kEndTakes) {
    rank.ending = false;
    rank.order = ++begun_;
  }
  if (how == 0 || failed_) return;
  failed_ = true;
  failedAt_ = Clock::now();
  next_ = failedAt_ + std::chrono::seconds(options_.graceSeconds);
}

// It has begun to end, but how is not known yet.
bool RankProcesses::mayHaveBeenFirst(const Rank& rank) const {
  return rank.ending && !rank.ended && Clock::now() - rank.began <= kEndTakes;
}

// Which rank failed first: one that somebody else's signal ended, else the one that began to end first.
void RankProcesses::decide() {
  if (!failed_ || first_ != nullptr) return;
  const bool open = Clock::now() < failedAt_ + kSettle ||
                    std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return mayHaveBeenFirst(rank); });
  if (open && !allEnded()) return;
  const auto standing = [](const Rank& rank) { return std::make_tuple(rank.afterOurs, !killed(rank.how), rank.order); };
  for (const Rank& rank : ranks_)
    if (rank.ended && rank.how != 0 && (first_ == nullptr || standing(rank) < standing(*first_))) first_ = &rank;
  status_ = codeOf(first_->how);
  const std::string said =
      "sparsecoll-run: rank " + std::to_string(first_ - ranks_.data()) + " " + endOf(first_->how) + "\n";
  if (options_.prefix)
    unwritten_[1].append(said);  // behind the ranks' lines, and without waiting for who reads them
  else
    std::fputs(said.c_str(), stderr);
}

void RankProcesses::reportOthers() const {
  if (first_ == nullptr) return;
  std::map<std::string, std::string> groups;  // from an end to the ranks that ended so
  for (const Rank& rank : ranks_) {
    if (&rank == first_ || rank.how == 0) continue;
    std::string& numbers = groups[endOf(rank.how)];
    if (!numbers.empty()) numbers += ',';
    numbers += std::to_string(&rank - ranks_.data());
  }
  for (const auto& [end, numbers] : groups)
    std::fprintf(stderr, "sparsecoll-run: after it, %s %s: %s\n",
                 numbers.find(',') == std::string::npos ? "rank" : "ranks", numbers.c_str(), end.c_str());
}

void RankProcesses::attend() {
  noteEnding();
  for (Rank& rank : ranks_) {
    int how = 0;
    if (rank.ended || waitpid(rank.process, &how, WNOHANG) != rank.process) continue;
    noteEnding();  // its pipe was closed before it could be collected
    ended(rank, how);
  }
  decide();
  if (allEnded()) {
    // A process that a rank has started may outlive it, with its output in hand.
    if (outputUntil_ == Clock::time_point::max()) outputUntil_ = Clock::now() + kAfterLast;
    if (Clock::now() < outputUntil_) return;
    closeOutputs();
    for (size_t stream = 0; stream < 2; ++stream) {
      write(stream);
      if (told_) unwritten_[stream].clear();  // nobody takes it
    }
    return;
  }
  if (first_ == nullptr || stage_ == 2 || Clock::now() < next_) return;
  signalled_ = true;
  signalAll(stage_ == 0 ? SIGTERM : SIGKILL);
  ++stage_;
  next_ = Clock::now() + kAfterTerm;
}

int RankProcesses::msToNextStep() const {
  const bool last = outputUntil_ != Clock::time_point::max();
  if (last && !readsOutput() && !told_) return -1;
  if (!last && failed_ && first_ == nullptr) return 20;
  if (!last && (!failed_ || stage_ == 2)) return -1;
  const auto next = last ? outputUntil_ : next_;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left + 1, 0, 60000));
}

// Nothing more is read of a stream whose lines nobody takes: then the ranks wait, and not this program, which signals
// have to reach.
void RankProcesses::watch(std::vector<pollfd>& into) const {
  for (size_t stream = 0; stream < 2; ++stream) {
    if (!unwritten_[stream].empty()) {
      into.push_back({stream == 0 ? STDOUT_FILENO : STDERR_FILENO, POLLOUT, 0});
      continue;
    }
    for (const Rank& rank : ranks_)
      if (rank.output[stream] >= 0) into.push_back({rank.output[stream], POLLIN, 0});
  }
}

void RankProcesses::passOutputOn() {
  for (size_t stream = 0; stream < 2; ++stream)
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      write(stream);
      if (unwritten_[stream].empty()) readFrom(rank, stream, kPiece);
      write(stream);
    }
}

// A pipe that poll calls writable takes PIPE_BUF bytes at once.
void RankProcesses::write(size_t stream) {
  std::string& lines = unwritten_[stream];
  size_t written = 0;
  while (written < lines.size()) {
    pollfd ready = {stream == 0 ? STDOUT_FILENO : STDERR_FILENO, POLLOUT, 0};
    if (poll(&ready, 1, 0) != 1) break;
    const ssize_t took = ::write(ready.fd, lines.data() + written, std::min<size_t>(PIPE_BUF, lines.size() - written));
    if (took < 0 && (errno == EINTR || errno == EAGAIN)) break;
    written = took < 0 ? lines.size() : written + static_cast<size_t>(took);  // nobody can read it any more
  }
  lines.erase(0, written);
}

// Whole lines only, so that ranks do not write into each other's.
void RankProcesses::readFrom(size_t number, size_t stream, size_t most) {
  Rank& rank = ranks_[number];
  pollfd ready = {rank.output[stream], POLLIN, 0};
  if (ready.fd < 0 || poll(&ready, 1, 0) != 1) return;
  char piece[kPiece];
  const ssize_t got = read(ready.fd, piece, std::min(most, sizeof piece));
  if (got == 0) endOutput(number, stream);
  std::string& line = rank.line[stream];
  for (const char* at = piece; at < piece + got; ++at) {
    line += *at;
    if (*at != '\n' && line.size() < kLongestLine) continue;
    if (*at != '\n') line += '\n';
    print(number, stream);
  }
}

void RankProcesses::endOutput(size_t number, size_t stream) {
  Rank& rank = ranks_[number];
  close(rank.output[stream]);
  rank.output[stream] = -1;
  std::string& line = rank.line[stream];
  if (line.empty()) return;
  line += '\n';
  print(number, stream);
}

void RankProcesses::print(size_t number, size_t stream) {
  std::string& line = ranks_[number].line[stream];
  unwritten_[stream].append("[").append(std::to_string(number)).append("] ").append(line);
  line.clear();
}

// With what is in the pipes by now: who holds them may write for ever.
void RankProcesses::closeOutputs() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    for (size_t stream = 0; stream < 2; ++stream) {
      const int fd = ranks_[rank].output[stream];
      if (fd < 0) continue;
      int left = 0;
      if (ioctl(fd, FIONREAD, &left) != 0) left = 0;
      for (; left > 0 && ranks_[rank].output[stream] >= 0; left -= static_cast<int>(kPiece))
        readFrom(rank, stream, static_cast<size_t>(left));
      if (ranks_[rank].output[stream] >= 0) endOutput(rank, stream);
    }
}
