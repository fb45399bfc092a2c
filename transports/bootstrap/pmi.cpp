#include "transports/bootstrap/pmi.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "core/poll.h"
#include "transports/bootstrap/crypto.h"
#include "transports/bootstrap/mpi_here.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr size_t kMostLineBytes = 8192;

// Of "cmd=get_result rc=0 value=...": the value of a name.
std::optional<std::string_view> valueOf(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  }
  return std::nullopt;
}

struct Step {
  const char* command;
  const char* arguments;
  const char* reply;
  bool ofRankZero;  // the others skip it
  bool named;       // the space of keys is named
};

// A barrier makes known what was put before.
constexpr std::array kSteps = {
    Step{"init", " pmi_version=1 pmi_subversion=1", "response_to_init", false, false},
    Step{"get_maxes", "", "maxes", false, false},
    Step{"get_my_kvsname", "", "my_kvsname", false, false},
    Step{"put", " key=sparsecoll value=", "put_result", true, true},
    Step{"barrier_in", "", "barrier_out", false, false},
    Step{"get", " key=sparsecoll", "get_result", false, true},
    Step{"finalize", "", "finalize_ack", false, false},
};

class Pmi final : public Launcher {
 public:
  explicit Pmi(int socket) : socket_(socket) {}

  ~Pmi() override {
    for (std::string* const one : {&said_, &heard_, &word_}) wipe(std::as_writable_bytes(std::span(*one)));
  }
  Pmi(const Pmi&) = delete;
  Pmi& operator=(const Pmi&) = delete;

  Result<std::string> spread(std::string_view word, int rank, const Deadline& deadline) override {
    if (!failed_.ok()) return Status(failed_.failure());
    if (word_.empty()) word_ = word;
    Status talked = talk(rank, deadline);
    if (talked.ok()) return word_;
    if (talked.result() != sparsecollTimeout) failed_ = Status(talked.failure());
    return talked;
  }

 private:
  Status talk(int rank, const Deadline& deadline) {
    for (; step_ < kSteps.size(); ++step_) {
      const Step& step = kSteps[step_];
      if (step.ofRankZero && rank != 0) continue;
      if (!asked_) SC_TRY(ask(step));
      SC_TRY(flush(step, deadline));
      SC_TRY(const std::string line, hear(step, deadline));
      SC_TRY(take(step, line));
      asked_ = false;
    }
    return {};
  }

  Status ask(const Step& step) {
    const bool put = step.ofRankZero;
    if (put && word_.size() > mostBytes_)
      return fail(sparsecollSystemError, "the launcher's PMI takes {} bytes, not the {} that ranks meet by", mostBytes_,
                  word_.size());
    said_ = std::string("cmd=") + step.command + (step.named ? " kvsname=" + space_ : "") + step.arguments +
            (put ? word_ : "") + "\n";
    asked_ = true;
    return {};
  }

  Status flush(const Step& step, const Deadline& deadline) {
    while (!said_.empty()) {
      const ssize_t sent = ::send(socket_, said_.data(), said_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) said_.erase(0, static_cast<size_t>(sent));
      if (sent < 0) SC_TRY(await(step, POLLOUT, deadline));
    }
    return {};
  }

  Result<std::string> hear(const Step& step, const Deadline& deadline) {
    for (;;) {
      if (const size_t end = heard_.find('\n'); end != std::string::npos) {
        std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return line;
      }
      if (heard_.size() > kMostLineBytes) return unexpected(step, std::string_view(heard_).substr(0, 40));
      char bytes[1024];
      const ssize_t got = ::recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
      if (got > 0) heard_.append(bytes, static_cast<size_t>(got));
      if (got == 0) return gone(step);
      if (got < 0) SC_TRY(await(step, POLLIN, deadline));
    }
  }

  // After a call that errno tells of.
  Status await(const Step& step, short events, const Deadline& deadline) {
    if (errno == EINTR) return {};
    if (errno != EAGAIN && errno != EWOULDBLOCK) return gone(step);
    std::array<pollfd, 1> watched = {{{socket_, events, 0}}};
    if (awaitAny(watched, deadline)) return {};
    const bool barrier = std::strcmp(step.command, "barrier_in") == 0;
    return fail(sparsecollTimeout, "the launcher's PMI has not answered {} in time{}", step.command,
                barrier ? ": not all ranks of the job have come" : "");
  }

  Status take(const Step& step, const std::string& line) {
    const auto result = valueOf(line, "rc");
    if (valueOf(line, "cmd") != step.reply) return unexpected(step, line);
    if (result && *result != "0")
      return fail(sparsecollSystemError, "the launcher's PMI refuses {}: {}", step.command, withoutValue(line));
    if (const auto most = valueOf(line, "vallen_max"))
      (void)std::from_chars(most->data(), most->data() + most->size(), mostBytes_);
    if (const auto space = valueOf(line, "kvsname"); space && space_.empty()) space_ = *space;
    if (const auto value = valueOf(line, "value")) word_ = *value;
    return {};
  }

  static Status gone(const Step& step) {
    if (&step == kSteps.data()) return unsupported("the launcher's PMI was ended by an earlier program of this rank");
    return fail(sparsecollSystemError, "the launcher has closed its PMI before it answered {}", step.command);
  }

  static Status unexpected(const Step& step, std::string_view line) {
    return fail(sparsecollSystemError, "the launcher's PMI answers {} with '{}'", step.command, withoutValue(line));
  }

  // A value may be the key.
  static std::string_view withoutValue(std::string_view line) { return line.substr(0, line.find(" value=")); }

  const int socket_;
  size_t step_ = 0;
  bool asked_ = false;
  std::string said_;   // what has not left yet
  std::string heard_;  // of a line that has not ended yet
  std::string space_;
  std::string word_;
  size_t mostBytes_ = 0;
  Status failed_;  // for good
};

// A descriptor of the program's own may have the number, where a parent has closed the launcher's.
bool isInherited(int socket) {
  int domain = 0;
  int type = 0;
  ucred maker{};
  socklen_t size = sizeof(int);
  socklen_t makerSize = sizeof maker;
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
         getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &maker, &makerSize) == 0 && maker.pid != getpid();
}

}  // namespace

Result<std::unique_ptr<Launcher>> pmiLauncher(int socket) {
  if (mpiHere() != MpiHere::kAbsent) return unsupported("the launcher's PMI is MPI's in this process");
  if (!isInherited(socket)) return unsupported("PMI_FD is {}, which is no socket of the launcher's", socket);
  return pmiOver(socket);
}

std::unique_ptr<Launcher> pmiOver(int socket) { return std::make_unique<Pmi>(socket); }

}  // namespace sparsecoll::bootstrap
