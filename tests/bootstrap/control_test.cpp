// Ranks that watch each other: who leaves, aborts, dies or falls silent, whom the others blame, and what stays open.
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "transports/bootstrap/survivors.h"
#include "transports/ucx.h"

// UCX 1.13 forgets some bytes of an endpoint that it could not make.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() { return "leak:libuct"; }

namespace sparsecoll {
namespace {

using namespace test;
using engine::PeerState;

constexpr uint64_t kLong = 60000;

Result<std::shared_ptr<Control>> makeControl(const Id& id, int rank, int ranks, const ControlTimes& times = {}) {
  const Deadline deadline = Deadline::in(kLong);
  const Invitation invitation = read(id);
  SC_TRY(const auto exchange, meet(invitation, rank, ranks, deadline));
  const std::string card = "card of " + std::to_string(rank);
  const auto show = [&](bool, const Address&) -> Result<std::vector<std::byte>> {
    const Bytes bytes = bytesOf(card);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  SC_TRY(Mesh mesh, makeMesh(*exchange, {invitation.key, invitation.job, "", show}, deadline));
  return Control::make(std::move(mesh), times);
}

// A process that is one of the ranks until it is killed.
class Child {
 public:
  // start: what it does once it has met the others.
  template <class Start>
  Child(const Id& id, int rank, int ranks, const ControlTimes& times, Start start) {
    REQUIRE(pipe(ready_) == 0);
    process_ = fork();
    if (process_ != 0) return;
    auto control = makeControl(id, rank, ranks, times);
    if (control.ok()) start(**control);
    const char good = control.ok() ? 'y' : 'n';
    if (::write(ready_[1], &good, 1) == 1) ::pause();
    _exit(0);
  }
  ~Child() {
    signal(SIGKILL);
    waitpid(process_, nullptr, 0);
    ::close(ready_[0]);
    ::close(ready_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits until it has, or has not, met the others.
  bool hasMet() const {
    char good = 'n';
    return ::read(ready_[0], &good, 1) == 1 && good == 'y';
  }
  void signal(int number) const { kill(process_, number); }

 private:
  int ready_[2] = {-1, -1};
  pid_t process_ = -1;
};

using Controls = std::vector<std::shared_ptr<Control>>;

Controls makeControls(int ranks, const ControlTimes& times = {}) {
  const Id id = makeId();
  Controls controls(static_cast<size_t>(ranks));
  const auto results = onRanks(ranks, [&](int rank) -> Status {
    SC_TRY(controls[static_cast<size_t>(rank)], makeControl(id, rank, ranks, times));
    return {};
  });
  for (const Status& status : results) REQUIRE(std::string(status.failure().text.c_str()).empty());
  return controls;
}

}  // namespace

TEST_CASE(
    "a mesh has a connection for every pair and everyone's card, and no listener, descriptor or thread is left of it") {
  std::thread([] {}).join();  // ThreadSanitizer's own thread begins with the first one
  const size_t descriptors = openDescriptors();
  const size_t threads = threadsNow();
  for (const int ranks : {1, 2, 5}) {
    Controls controls = makeControls(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& one = *controls[static_cast<size_t>(rank)];
      CHECK(one.at().isLoopback());
      for (int peer = 0; peer < ranks; ++peer) {
        const std::string card = "card of " + std::to_string(peer);
        CHECK(std::ranges::equal(one.cards()[static_cast<size_t>(peer)], bytesOf(card)));
        CHECK(one.stateOf(peer) == PeerState::kHere);
        CHECK(one.reaches(peer) == (peer != rank));
      }
    }
    CHECK(listeners().empty());
  }
  CHECK(openDescriptors() == descriptors);
  CHECK(eventually([&] { return threadsNow() <= threads; }));
}

TEST_CASE("a rank that destroys its communicator has left, one that aborts has aborted, and is not taken for lost") {
  Controls controls = makeControls(3);
  controls[2]->announce(true);
  CHECK(eventually([&] { return controls[0]->stateOf(2) == PeerState::kAborted; }));
  CHECK(controls[0]->blameOf(2) == 2);
  CHECK(controls[0]->goneRank().result() == sparsecollAborted);
  CHECK(controls[0]->goneRank().failure().peer == 2);
  CHECK_FALSE(controls[0]->hasLeft(2));
  controls[2]->announce(false);
  CHECK(eventually([&] { return controls[0]->hasLeft(2); }));
  CHECK(controls[0]->reaches(2));
  controls[1].reset();
  CHECK(eventually([&] { return controls[0]->stateOf(1) == PeerState::kLeft; }));
  CHECK(controls[0]->goneRank().failure().peer == 2);
  CHECK(eventually([&] { return !controls[0]->reaches(1); }));
  controls[2].reset();
  CHECK(eventually([&] { return !controls[0]->reaches(2); }));
  CHECK(controls[0]->stateOf(1) == PeerState::kLeft);
  CHECK(controls[0]->stateOf(2) == PeerState::kAborted);
  CHECK(controls[0]->goneRank().result() == sparsecollPeerFailed);
  CHECK(controls[0]->goneRank().failure().peer == 2);
}

TEST_CASE("of ranks that are gone those that left are told of last, and are no failure") {
  Controls controls = makeControls(2);
  CHECK(controls[0]->goneRank().failure().peer == -1);
  controls[1].reset();
  CHECK(eventually([&] { return controls[0]->stateOf(1) == PeerState::kLeft; }));
  const Status gone = controls[0]->goneRank();
  CHECK(gone.ok());
  CHECK(gone.failure().peer == 1);
  CHECK(std::string(gone.failure().text.c_str()) == "rank 1 destroyed its communicator");
}

TEST_CASE("a rank whose process is killed is lost to all, at once, and whoever gives up because of it is not blamed") {
  const Id id = makeId();
  const Child child(id, 2, 3, {}, [](Control&) {});
  Controls controls(2);
  const auto results = onRanks(2, [&](int rank) -> Status {
    SC_TRY(controls[static_cast<size_t>(rank)], makeControl(id, rank, 3));
    return {};
  });
  for (const Status& status : results) REQUIRE(status.ok());
  REQUIRE(child.hasMet());
  CHECK(controls[0]->goneRank().ok());
  child.signal(SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  CHECK(eventually([&] { return controls[0]->stateOf(2) == PeerState::kLost; }));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::printf("a killed rank was lost after %.1f ms\n", ms);
  controls[0]->announce(true);
  CHECK(eventually([&] { return controls[1]->stateOf(0) == PeerState::kAborted; }));
  CHECK(controls[1]->blameOf(0) == 2);
  CHECK_THAT(std::string(controls[1]->reasonOf(0).c_str()), Catch::Contains("because of rank 2"));
  CHECK(eventually([&] { return controls[1]->stateOf(2) == PeerState::kLost; }));
  for (const auto& one : controls) {
    CHECK(one->goneRank().result() == sparsecollPeerFailed);
    CHECK(one->goneRank().failure().peer == 2);
  }
}

TEST_CASE("a rank that has aborted and is killed then is gone for those who go on") {
  const Id id = makeId();
  const Child child(id, 1, 2, {}, [](Control& control) { control.announce(true); });
  auto control = makeControl(id, 0, 2);
  REQUIRE(control.ok());
  REQUIRE(child.hasMet());
  CHECK(eventually([&] { return (*control)->stateOf(1) == PeerState::kAborted; }));
  const MembersExchange exchange(*control, {0, 1}, 1, Aborts::kMeanNothing);
  CHECK_FALSE(exchange.isGone(1));
  child.signal(SIGKILL);
  CHECK(eventually([&] { return exchange.isGone(1); }));
  CHECK((*control)->stateOf(1) == PeerState::kAborted);
}

TEST_CASE("a rank that is stopped is lost once it has been silent for too long, and not before") {
  const Id id = makeId();
  const ControlTimes times{50, 1000};
  const Child child(id, 1, 2, times, [](Control&) {});
  auto control = makeControl(id, 0, 2, times);
  REQUIRE(control.ok());
  REQUIRE(child.hasMet());
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  CHECK((*control)->stateOf(1) == PeerState::kHere);  // its heartbeats come
  child.signal(SIGSTOP);
  CHECK(eventually([&] { return (*control)->stateOf(1) == PeerState::kLost; }));
  CHECK_THAT(std::string((*control)->reasonOf(1).c_str()), Catch::Contains("silent"));
}

TEST_CASE("a forked process keeps none of its parent's connections open, whatever their numbers") {
  const int least = GENERATE(0, 70, 200);
  CAPTURE(least);
  std::vector<int> taken = {-1};
  while (taken.back() + 1 < least) {
    taken.push_back(dup(STDERR_FILENO));
    REQUIRE(taken.back() >= 0);
  }
  const Opening door = openListener(Address::loopback(), 1);
  REQUIRE(door.listener.open());
  const Address at = *localAddress(door.listener);
  auto here = socketFor(at);
  REQUIRE(here.ok());
  REQUIRE(connectTo(*here, at).ok());
  REQUIRE(here->get() >= least);
  Fd there;
  CHECK(eventually([&] { return there.open() || accept(door.listener, there) == Arrival::kCame; }));
  const pid_t child = fork();
  if (child == 0) {
    ::pause();
    _exit(0);
  }
  here->close();
  bool closed = false;
  std::byte byte;
  CHECK(eventually([&] { return receive(there, std::span(&byte, 1), closed) == 0 && closed; }));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int fd : taken)
    if (fd >= 0) ::close(fd);
}

TEST_CASE("in a forked process a communicator says nothing and ends nothing") {
  Controls controls = makeControls(2);
  const pid_t child = fork();
  if (child == 0) {
    const bool knows = controls[0]->forked() && !controls[0]->reaches(1);
    controls[0]->blame(1);
    controls[0]->write(1, FrameType::kPart, bytesOf("of the child"));
    controls[0]->announce(true);
    controls[0].reset();
    _exit(knows ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK_FALSE(controls[1]->await(Deadline::in(50), [&] { return !controls[1]->mail(0).empty(); }));
  CHECK(controls[1]->stateOf(0) == PeerState::kHere);
  CHECK(controls[0]->reaches(1));
  controls[0]->announce(true);
  CHECK(eventually([&] { return controls[1]->stateOf(0) == PeerState::kAborted; }));
  CHECK(controls[1]->blameOf(0) == 0);
}

namespace {

// Of rank 0 of two; peer gets the other end.
Mesh meshOfTwo(Link& peer) {
  int ends[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Mesh mesh;
  mesh.ranks = 2;
  mesh.links.resize(2);
  mesh.cards.resize(2);
  mesh.links[1] = Link(Fd(ends[0]), 1, {});
  peer = Link(Fd(ends[1]), 0, {});
  return mesh;
}

// Rank 0 of two, whose peer a test plays.
struct Played {
  Played() {
    Mesh mesh = meshOfTwo(peer);
    socket = peer.socket().get();
    auto made = Control::make(std::move(mesh), {});
    REQUIRE(made.ok());
    control = *made;
  }
  std::string whyLost() const {
    if (!eventually([&] { return control->stateOf(1) != PeerState::kHere; })) return "it is here";
    return control->stateOf(1) == PeerState::kLost ? control->reasonOf(1).c_str() : "it is not lost";
  }

  int socket;
  Link peer;
  std::shared_ptr<Control> control;
};

}  // namespace

TEST_CASE("what a peer must not say ends its connection, with what it was") {
  struct Row {
    FrameType type;
    int32_t about;
    const char* why;
  };
  for (const Row& row :
       {Row{FrameType::kLost, -2, "it speaks of rank -2"}, Row{FrameType::kLost, 2, "it speaks of rank 2"},
        Row{FrameType::kAborted, 2, "it speaks of rank 2"}, Row{FrameType::kLost, -1, "a frame of no use here"},
        Row{FrameType::kOffer, 1, "a frame of no use here"}, Row{FrameType::kLost, 0, "it has lost this rank"}}) {
    Played played;
    played.peer.send(row.type, std::as_bytes(std::span(&row.about, 1)));
    CHECK(played.whyLost() == std::string("rank 1: ") + row.why);
  }
  {
    Played played;
    const std::string garbage(100, 'x');
    REQUIRE(::write(played.socket, garbage.data(), garbage.size()) == 100);
    CHECK_THAT(played.whyLost(), Catch::StartsWith("rank 1: "));
  }
  Played talkative;
  const Deadline deadline = Deadline::in(kLong);
  while (talkative.control->stateOf(1) == PeerState::kHere && !deadline.expired()) {
    if (!talkative.peer.pending()) talkative.peer.send(FrameType::kPart, bytesOf("a letter"));
    talkative.peer.flush();
  }
  CHECK(talkative.whyLost() == "rank 1: letters that nobody reads");
}

TEST_CASE("what a peer has said at once, longer than a frame may be, comes frame by frame") {
  Link peer;
  Mesh mesh = meshOfTwo(peer);
  const std::vector<std::byte> letter(kMostPayloadBytes / 2);
  constexpr size_t kLetters = 5;
  for (size_t sent = 0; sent < kLetters; ++sent) peer.send(FrameType::kPart, letter);
  auto made = Control::make(std::move(mesh), {});
  REQUIRE(made.ok());
  Control& control = **made;
  const auto came = [&] {
    peer.flush();
    return control.await(Deadline::in(20), [&] { return control.mail(1).size() == kLetters; });
  };
  CHECK(eventually(came));
  CHECK(control.await(Deadline::in(0), [&] { return control.mail(1).back().payload == letter; }));
}

TEST_CASE("a peer that gives up because of itself, or of this rank, is the one that is blamed") {
  for (const int32_t about : {-1, 0, 1}) {
    Played played;
    played.peer.send(FrameType::kAborted, std::as_bytes(std::span(&about, 1)));
    CHECK(eventually([&] { return played.control->stateOf(1) == PeerState::kAborted; }));
    CHECK(played.control->blameOf(1) == 1);
  }
  const Played alive;
  CHECK(Watch(alive.control).blameOf(1) == 1);  // whatever it is blamed for, nothing has been heard of it
}

TEST_CASE("a rank whose connection is found closed by a write is heard to the end, and then is lost") {
  for (const bool leaves : {true, false}) {
    CAPTURE(leaves);
    Link peer;
    Mesh mesh = meshOfTwo(peer);
    if (leaves) peer.send(FrameType::kLeft, {});
    peer.close();
    mesh.links[1].send(FrameType::kHeartbeat, {});
    CHECK_FALSE(mesh.links[1].pending());
    auto made = Control::make(std::move(mesh), {});
    REQUIRE(made.ok());
    const Control& control = **made;
    CHECK(eventually([&] { return control.stateOf(1) == (leaves ? PeerState::kLeft : PeerState::kLost); }));
    CHECK(eventually([&] { return !control.reaches(1); }));
  }
}

TEST_CASE("signals of the process are never taken by the thread that watches") {
  const auto takers = [] {
    std::string mask, word;
    DIR* const all = opendir("/proc/self/task");
    size_t without = 0;
    while (const dirent* const one = readdir(all)) {
      std::ifstream lines(std::string("/proc/self/task/") + one->d_name + "/status");
      while (lines >> word)
        if (word == "SigBlk:" && lines >> mask && (std::stoull(mask, nullptr, 16) >> (SIGTERM - 1) & 1) == 0) ++without;
    }
    closedir(all);
    return without;
  };
  const size_t before = takers();
  Controls controls = makeControls(2);
  CHECK(eventually([&] { return takers() <= before; }));
  CHECK(threadsNow() > before);
}

TEST_CASE("ranks that split a communicator wait for nobody once one of them has aborted it, survivors do") {
  for (const Aborts aborts : {Aborts::kEnd, Aborts::kMeanNothing}) {
    const bool ends = aborts == Aborts::kEnd;
    Controls controls = makeControls(3);
    const auto gather = [&](size_t rank, uint64_t waitMs) {
      MembersExchange exchange(controls[rank], {0, 1, 2}, 1, aborts);
      return exchange.allgather(bytesOf("part"), Deadline::in(waitMs)).takeStatusOrOk();
    };
    controls[2]->announce(true);
    REQUIRE(eventually([&] { return controls[0]->stateOf(2) == PeerState::kAborted; }));
    const Status other = gather(0, ends ? kLong : 50);
    CHECK(other.result() == (ends ? sparsecollPeerFailed : sparsecollTimeout));
    CHECK(other.failure().peer == (ends ? 2 : 1));
    CHECK(gather(2, ends ? kLong : 50).result() == (ends ? sparsecollAborted : sparsecollTimeout));
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      controls[1]->announce(true);
    });
    MembersExchange alone(controls[1], {0, 1}, 2, aborts);
    CHECK(alone.allgather({}, Deadline::in(ends ? kLong : 100)).takeStatusOrOk().result() ==
          (ends ? sparsecollAborted : sparsecollTimeout));
    aborter.join();
  }
}

TEST_CASE("letters arrive in order, and a writer to who is gone does no harm") {
  Controls controls = makeControls(2);
  for (int i = 0; i < 500; ++i) controls[0]->write(1, FrameType::kPart, bytesOf(std::to_string(i)));
  CHECK(controls[1]->await(Deadline::in(kLong), [&] { return controls[1]->mail(0).size() == 500; }));
  for (size_t i = 0; i < 500; ++i)
    CHECK(std::ranges::equal(controls[1]->mail(0)[i].payload, bytesOf(std::to_string(i))));
  controls[1].reset();
  CHECK(eventually([&] { return !controls[0]->reaches(1); }));
  controls[0]->write(1, FrameType::kPart, bytesOf("nobody"));
  controls[0]->announce(true);
}

TEST_CASE("a rank whose memory is gone before UCX has opened it has failed if its connection ends, too") {
  if (!ucx::version().ok()) {
    std::puts("skipped: no UCX");
    return;
  }
  const bool ends = GENERATE(true, false);
  CAPTURE(ends);
  const Id id = makeId();
  std::atomic<bool> closed{false}, over{false};
  const std::vector<Status> ended = onRanks(2, [&](int rank) -> Status {
    const Deadline deadline = Deadline::in(kLong);
    const Invitation invitation = read(id);
    SC_TRY(const auto exchange, meet(invitation, rank, 2, deadline));
    std::unique_ptr<engine::Messenger> messenger;
    const auto open = [&](bool oneHost, const Address& at) -> Result<std::vector<std::byte>> {
      SC_TRY(messenger, ucx::makeMessenger(oneHost, at, deadline));
      return messenger->card();
    };
    SC_TRY(Mesh mesh, makeMesh(*exchange, {invitation.key, invitation.job, "", open}, deadline));
    if (rank == 0) {
      eventually([&] { return closed.load(); });
      const Status connected = messenger->connect(*exchange, mesh, deadline);
      over = true;
      return connected;
    }
    messenger.reset();
    closed = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (ends) mesh.links.clear();
    eventually([&] { return over.load(); });
    return {};
  });
  CHECK(ended[1].ok());
  INFO(ended[0].failure().text.c_str());
  CHECK(ended[0].result() == (ends ? sparsecollPeerFailed : sparsecollSystemError));
  CHECK(ended[0].failure().peer == (ends ? 1 : -1));
}

TEST_CASE("of survivors that have not called in time those that are gone are none") {
  const Controls controls = makeControls(3);
  RollCall roll(0, {false, true, false}, 1, 0);
  auto agreed = agreeOnSurvivors(*controls[0], roll, Deadline::in(50));
  REQUIRE_FALSE(agreed.ok());
  const Status left = agreed.takeStatus();
  CHECK(left.result() == sparsecollTimeout);
  CHECK(left.failure().peer == 2);
  CHECK_THAT(std::string(left.failure().text.c_str()), Catch::StartsWith("rank(s) 2 have not"));
}

}  // namespace sparsecoll
