// What ranks learn from rank 0 through a launcher's PMI, whose end the tests play; and rank 0's notice.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "transports/bootstrap/mpi_here.h"
#include "transports/bootstrap/notice.h"
#include "transports/bootstrap/pmi.h"
#include "transports/bootstrap/pmix.h"

namespace sparsecoll {
namespace {

using namespace test;

constexpr uint64_t kLong = 60000;

std::string textOf(const Status& status) { return status.failure().text.c_str(); }

// The ends of sockets, one a rank: [rank][0] the launcher's, [rank][1] the rank's.
struct Sockets {
  explicit Sockets(int ranks) : ends(static_cast<size_t>(ranks)) {
    for (auto& pair : ends) {
      int made[2] = {-1, -1};
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, made) == 0);
      pair = {Fd(made[0]), Fd(made[1])};
    }
  }
  int launchers(size_t rank) const { return ends[rank][0].get(); }
  int ranks(size_t rank) const { return ends[rank][1].get(); }

  std::vector<std::array<Fd, 2>> ends;
};

void say(int socket, const std::string& text) { (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

// A line without its end; empty: the rank has gone.
std::string hear(int socket) {
  std::string line;
  char letter = 0;
  while (::recv(socket, &letter, 1, 0) == 1 && letter != '\n') line += letter;
  return line;
}

// Serves all ranks as hydra does until they have ended their talk. A command that `instead` has an answer for gets
// that.
class Server {
 public:
  explicit Server(const Sockets& sockets, std::map<std::string, std::string> instead = {})
      : sockets_(sockets), instead_(std::move(instead)) {
    for (size_t rank = 0; rank < sockets.ends.size(); ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  }
  ~Server() {
    for (size_t rank = 0; rank < sockets_.ends.size(); ++rank) shutdown(sockets_.launchers(rank), SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      all_.wake();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  std::vector<std::string> heard(size_t rank) {
    const std::lock_guard lock(mutex_);
    return heard_[rank];
  }

 private:
  void serve(size_t rank) {
    const int socket = sockets_.launchers(rank);
    for (std::string line = hear(socket); !line.empty(); line = hear(socket)) {
      const std::string command = line.substr(4, line.find(' ') - 4);
      std::unique_lock lock(mutex_);
      heard_[rank].push_back(line);
      if (const auto other = instead_.find(command); other != instead_.end()) {
        say(socket, other->second);
        if (other->second.empty()) shutdown(socket, SHUT_RDWR);
        continue;
      }
      if (command == "init") say(socket, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
      if (command == "get_maxes") say(socket, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
      if (command == "get_my_kvsname") say(socket, "cmd=my_kvsname kvsname=kvs_7_0\n");
      if (command == "put") {
        value_ = line.substr(line.find(" value=") + 7);
        say(socket, "cmd=put_result rc=0 msg=success\n");
      }
      if (command == "barrier_in") {
        ++waiting_;
        all_.wait(lock, kForever, [&] { return over_ || waiting_ >= sockets_.ends.size(); });
        all_.wake();
        say(socket, "cmd=barrier_out rc=0\n");
      }
      if (command == "get") {  // in two pieces
        say(socket, "cmd=get_result rc=0 msg=success val");
        say(socket, "ue=" + value_ + "\n");
      }
      if (command == "finalize") {
        say(socket, "cmd=finalize_ack\n");
        return;
      }
    }
  }

  const Deadline kForever = Deadline::in(SPARSECOLL_NO_TIMEOUT);
  const Sockets& sockets_;
  const std::map<std::string, std::string> instead_;
  std::mutex mutex_;
  WaitPoint all_;
  size_t waiting_ = 0;
  bool over_ = false;
  std::string value_;
  std::map<size_t, std::vector<std::string>> heard_;
  std::vector<std::thread> threads_;
};

// What a rank gets that is alone with a launcher which answers so.
Status aloneWith(const std::map<std::string, std::string>& instead, const std::string& word = "word") {
  Sockets sockets(1);
  const Server server(sockets, instead);
  const auto rank = pmiOver(sockets.ranks(0));
  const Status first = rank->spread(word, 0, Deadline::in(kLong)).takeStatusOrOk();
  const Status again = rank->spread(word, 0, Deadline::in(kLong)).takeStatusOrOk();
  CHECK(textOf(again) == textOf(first));
  sockets.ends[0][1].close();
  return Status(first.failure());
}

// A word that is longer than what a socket takes at once, and a launcher that names another space of keys later.
void longWordComesWhole() {
  const Sockets sockets(1);
  const std::string word(1 << 19, 'w');
  std::vector<std::string> heard;
  {
    Server server(sockets, {{"get_maxes", "cmd=maxes vallen_max=2000000\n"},
                            {"put", "cmd=put_result kvsname=another rc=0\n"},
                            {"get", "cmd=get_result rc=0 value=short\n"}});
    const auto rank = pmiOver(sockets.ranks(0));
    auto told = rank->spread(word, 0, Deadline::in(kLong));
    REQUIRE(told.ok());
    CHECK(*told == "short");
    heard = server.heard(0);
  }
  REQUIRE(heard.size() == 7);
  CHECK((heard[3] == "cmd=put kvsname=kvs_7_0 key=sparsecoll value=" + word));
  CHECK(heard[5] == "cmd=get kvsname=kvs_7_0 key=sparsecoll");
}

}  // namespace

TEST_CASE("all ranks hear rank 0's word by PMI, and end their talk") {
  const Sockets sockets(3);
  Server server(sockets);
  const auto results = onRanks(3, [&](int rank) -> Status {
    const auto launcher = pmiOver(sockets.ranks(static_cast<size_t>(rank)));
    SC_TRY(const std::string heard, launcher->spread(rank == 0 ? "the/word" : "", rank, Deadline::in(kLong)));
    return heard == "the/word" ? Status() : fail(sparsecollInternalError, "heard {}", heard);
  });
  for (const Status& status : results) CHECK(textOf(status).empty());
  CHECK(server.heard(0) ==
        std::vector<std::string>{"cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_maxes", "cmd=get_my_kvsname",
                                 "cmd=put kvsname=kvs_7_0 key=sparsecoll value=the/word", "cmd=barrier_in",
                                 "cmd=get kvsname=kvs_7_0 key=sparsecoll", "cmd=finalize"});
  CHECK(server.heard(2).size() == 6);
  longWordComesWhole();
}

TEST_CASE("a rank that has waited long enough for the others by PMI can wait again") {
  const Sockets sockets(2);
  Server server(sockets);
  const auto zero = pmiOver(sockets.ranks(0));
  for (const char* const word : {"first", "second"}) {
    auto early = zero->spread(word, 0, Deadline::in(50));
    REQUIRE_FALSE(early.ok());
    const Status status = early.takeStatus();
    CHECK(status.result() == sparsecollTimeout);
    CHECK(textOf(status) ==
          "the launcher's PMI has not answered barrier_in in time: not all ranks of the job have come");
  }
  std::thread one([&] { (void)pmiOver(sockets.ranks(1))->spread("", 1, Deadline::in(kLong)); });
  auto heard = zero->spread("third", 0, Deadline::in(kLong));
  one.join();
  REQUIRE(heard.ok());
  CHECK(*heard == "first");
  CHECK(server.heard(0).size() == 7);
}

TEST_CASE("a launcher that is silent, gone, or breaks the rules of PMI is named with what it was asked") {
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{{"init", "cmd=response_to_init rc=-1\n"}}, "refuses init: cmd=response_to_init rc=-1"},
      {{{"get_maxes", ""}}, "has closed its PMI before it answered get_maxes"},
      {{{"get_my_kvsname", "cmd=maxes\n"}}, "answers get_my_kvsname with 'cmd=maxes'"},
      {{{"put", "cmd=put_result rc=-1 msg=full\n"}}, "refuses put"},
      {{{"barrier_in", std::string(10000, 'x')}}, "answers barrier_in with 'xxx"},
      {{{"get", "\n"}}, "answers get with ''"},
      {{{"finalize", ""}}, "has closed its PMI before it answered finalize"},
      {{{"get", "cmd=get_result rc=-1 value=secret\n"}}, "refuses get: cmd=get_result rc=-1"},
      {{{"finalize", "cmd=get_result rc=0 value=secret\n"}}, "answers finalize with 'cmd=get_result rc=0'"},
  };
  for (const auto& [instead, expected] : cases) {
    CAPTURE(expected);
    const Status status = aloneWith(instead);
    CHECK(status.result() == sparsecollSystemError);
    CHECK_THAT(textOf(status), Catch::Contains(expected) && !Catch::Contains("secret"));
  }
  const Status ended = aloneWith({{"init", ""}});
  CHECK(ended.result() == sparsecollUnsupported);
  CHECK_THAT(textOf(ended), Catch::Contains("ended by an earlier program"));
  CHECK_THAT(textOf(aloneWith({}, std::string(2000, 'w'))), Catch::Contains("takes 1024 bytes, not the 2000"));

  Sockets sockets(1);
  const auto rank = pmiOver(sockets.ranks(0));
  const Status late = rank->spread("word", 0, Deadline::in(50)).takeStatusOrOk();
  CHECK(late.result() == sparsecollTimeout);
  CHECK(textOf(late) == "the launcher's PMI has not answered init in time");
  sockets.ends[0][0].close();
  const Status gone = pmiOver(sockets.ranks(0))->spread("word", 0, Deadline::in(kLong)).takeStatusOrOk();
  CHECK(gone.result() == sparsecollUnsupported);
  CHECK_THAT(textOf(gone), Catch::Contains("ended by an earlier program"));
}

TEST_CASE("only a socket that another process has made is the launcher's") {
  const Sockets own(1);
  int datagrams[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams) == 0);
  const Fd other(datagrams[0]), another(datagrams[1]);
  const Fd port = [] {
    auto bound = bindTo(Address::loopback());
    return bound.ok() ? std::move(*bound) : Fd();
  }();
  for (const int socket : {own.ranks(0), port.get(), other.get(), 0, 9999}) {
    CAPTURE(socket);
    auto launcher = pmiLauncher(socket);
    REQUIRE_FALSE(launcher.ok());
    const Status status = launcher.takeStatus();
    CHECK(status.result() == sparsecollUnsupported);
    CHECK_THAT(textOf(status), Catch::Contains("no socket of the launcher's"));
  }
  const pid_t child = fork();
  if (child == 0) _exit(pmiLauncher(own.ranks(0)).ok() ? 0 : 1);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("what the launcher offers is left to an MPI that the program uses, however it was loaded") {
  CHECK(mpiHere() == MpiHere::kAbsent);
  void* const mpi = dlopen(SPARSECOLL_TEST_MPI, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(mpi != nullptr);
  CHECK(mpiHere() == MpiHere::kInitialised);
  CHECK_THAT(textOf(pmiLauncher(0).takeStatus()), Catch::Contains("the launcher's PMI is MPI's in this process"));
  CHECK_THAT(textOf(pmixLauncher("libnowhere.so").takeStatus()), Catch::Contains("MPI has a PMIx of its own"));
  void* const pmix = dlopen(SPARSECOLL_TEST_PMIX, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(pmix != nullptr);
  CHECK(pmixLauncher(SPARSECOLL_TEST_PMIX).ok());  // MPI's own
  for (const char* const state : {"loaded", "fails"}) {
    CAPTURE(state);
    REQUIRE(setenv("FAKE_MPI", state, 1) == 0);
    CHECK(mpiHere() == MpiHere::kLoaded);
  }
  REQUIRE(unsetenv("FAKE_MPI") == 0);
  dlclose(mpi);
  CHECK(mpiHere() == MpiHere::kAbsent);
  CHECK_THAT(textOf(pmixLauncher("libnowhere.so").takeStatus()), Catch::Contains("PMIx was not found: libnowhere.so"));

  // Only named like one.
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / ("libmpi_none_" + std::to_string(getpid()) + ".so");
  fs::copy_file(SPARSECOLL_TEST_PMIX, file);
  void* const none = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  fs::remove(file);
  REQUIRE(none != nullptr);
  CHECK(mpiHere() == MpiHere::kAbsent);
  dlclose(none);
}

TEST_CASE("a notice comes as it was written, and fits what launchers hand on") {
  auto made = makeNotice("", 0, 16);
  REQUIRE(made.ok());
  CHECK(made->place.firstPort > 0);
  made->place.host = "10.77.0.1,fe00::1:2";
  const std::string word = writeNotice(*made);
  auto read = readNotice(word);
  REQUIRE(read.ok());
  CHECK(read->place.host == made->place.host);
  CHECK(read->place.firstPort == made->place.firstPort);
  CHECK(read->place.ports == made->place.ports);
  CHECK(sameBytes(read->key.bytes(), made->key.bytes()));
  auto addresses = addressesOf(read->place);
  REQUIRE(addresses.ok());
  CHECK(addresses->size() == 2 * size_t{made->place.ports});

  auto other = makeNotice("127.0.0.1", 20000, 1);
  REQUIRE(other.ok());
  CHECK(other->place.text() == "127.0.0.1 port 20000");
  CHECK_FALSE(sameBytes(other->key.bytes(), made->key.bytes()));
  CHECK(makeNotice("no-such-card", 0, 16).takeStatus().result() == sparsecollInvalidArgument);

  Notice longest = *made;
  longest.place = {"", 65520, 16};
  for (int i = 0; i < 8; ++i)
    longest.place.host += std::string(i == 0 ? "" : ",") + "2001:0db8:1111:2222:3333:4444:5555:666" + char('0' + i);
  CHECK(writeNotice(longest).size() <= kMostNoticeBytes);
}

TEST_CASE("what is no notice is refused") {
  auto made = makeNotice("127.0.0.1", 20000, 16);
  REQUIRE(made.ok());
  const std::string word = writeNotice(*made);
  const auto refused = [](const std::string& text) {
    auto read = readNotice(text);
    return read.ok() ? sparsecollSuccess : read.takeStatus().result();
  };
  REQUIRE(refused(word) == sparsecollSuccess);
  for (size_t length = 0; length < word.size(); ++length) CHECK(refused(word.substr(0, length)) == sparsecollCorrupted);
  const std::string rest = word.substr(word.find('/'));
  CHECK(refused("9999" + rest) == sparsecollMismatch);
  const std::string key = word.substr(word.rfind('/'));
  const std::string version = word.substr(0, word.find('/'));
  for (const char* const place : {"//1/16", "/a/0/16", "/a/1/0", "/a/65530/16", "/a/70000/1", "/a/-1/1", "/a/1x/1"}) {
    CAPTURE(place);
    CHECK(refused(version + place + key) == sparsecollCorrupted);
  }
  CHECK(refused(word + "0") == sparsecollCorrupted);
  CHECK(refused(word.substr(0, word.size() - 1) + "g") == sparsecollCorrupted);
}

}  // namespace sparsecoll
