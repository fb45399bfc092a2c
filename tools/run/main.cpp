// sparsecoll-run: starts the ranks of a job on this machine or on several hosts, passes signals on to them, and ends
// the rest when one fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sparsecoll/sparsecoll.h"
#include "tools/run/options.h"
#include "tools/run/ranks.h"

namespace {

constexpr int kUsageError = 3;
constexpr int kSystemFailure = 126;
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// What hands the id on lies in a folder that only this user can enter.
class PrivateFolder {
 public:
  PrivateFolder() {
    const char* const base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/sparsecoll-run-XXXXXX";
    made_ = mkdtemp(path_.data()) != nullptr;
    if (!made_) std::fprintf(stderr, "sparsecoll-run: %s: %s\n", path_.c_str(), std::strerror(errno));
  }
  ~PrivateFolder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

// What this program was started to ignore, as nohup starts it, is for its ranks to ignore, too.
bool ignored(int signal) {
  struct sigaction how {};
  return sigaction(signal, nullptr, &how) == 0 && how.sa_handler == SIG_IGN;
}

// Signals come through a descriptor, so that nothing happens between looking and sleeping.
int openSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  std::signal(SIGCHLD, SIG_DFL);  // a parent may have had it ignored, and then nobody learns how a rank has ended
  for (const int signal : kForwarded)
    if (!ignored(signal)) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a rank may end while it is told something
  return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

int run(const Options& options) {
  const PrivateFolder folder;
  if (!folder.made()) return kSystemFailure;
  const int signals = openSignals();
  if (signals < 0) {
    std::perror("sparsecoll-run: signalfd");
    return kSystemFailure;
  }
  RankProcesses ranks(options, folder.path());
  if (!ranks.start()) return kSystemFailure;
  std::vector<pollfd> watched;
  while (ranks.running()) {
    watched.assign(1, {signals, POLLIN, 0});
    ranks.watch(watched);
    (void)poll(watched.data(), watched.size(), ranks.msToNextStep());
    signalfd_siginfo came{};
    while (read(signals, &came, sizeof came) == static_cast<ssize_t>(sizeof came))
      if (came.ssi_signo != SIGCHLD) ranks.forward(static_cast<int>(came.ssi_signo));
    ranks.passOutputOn();
    ranks.attend();
  }
  ranks.reportOthers();
  close(signals);
  return ranks.status();
}

}  // namespace

int main(int argc, char** argv) {
  // What is opened later must not take the place of a stream that was closed.
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = open("/dev/null", O_RDWR);
  if (opened >= 0) close(opened);  // which ranks would inherit
  Options options;
  const std::string wrong = readOptions(argc, argv, options);
  if (wrong == "help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (wrong == "version") {
    constexpr int code = SPARSECOLL_VERSION_CODE;
    std::printf("sparsecoll-run %d.%d.%d\n", code / 10000, code / 100 % 100, code % 100);
    return 0;
  }
  if (!wrong.empty()) {
    std::fprintf(stderr, "sparsecoll-run: %s\nsparsecoll-run --help says more\n", wrong.c_str());
    return kUsageError;
  }
  return run(options);
}
