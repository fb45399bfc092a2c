// What anyone on the network can do to a listener: say nothing, say it slowly, say nonsense, come in crowds. Ranks meet
// all the same. Times are printed, and bounded only by the ranks' own deadline.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "tests/support/elements.h"
#include "transports/bootstrap/lobby.h"

namespace sparsecoll {
namespace {

using namespace test;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kLong = 60000;

double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double cpuMs() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-3;
}

// Intruders need somebody who listens.
void awaitListener() {
  for (int i = 0; i < 10000 && listeners().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("64 silent and 64 slow strangers do not keep ranks from meeting") {
  const Id id = makeId();
  const Invitation invitation = read(id);
  std::atomic<bool> over{false};
  std::vector<Status> results(4);
  std::thread zero([&] { results[0] = meetAndTalk(id, 0, 4, kLong); });
  awaitListener();
  std::vector<std::unique_ptr<Intruder>> crowd;
  for (int i = 0; i < 128; ++i) crowd.push_back(std::make_unique<Intruder>(invitation.address));
  std::thread slow([&] {
    const std::vector<std::byte> byte(1, std::byte{0x53});
    while (!over) {
      for (size_t i = 64; i < crowd.size(); ++i) (void)crowd[i]->say(byte);
      for (int i = 0; i < 100 && !over; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const double cpuBefore = cpuMs();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::printf("128 strangers, one rank waiting: %.1f ms of processor time in 500 ms\n", cpuMs() - cpuBefore);
  const auto start = Clock::now();
  std::vector<std::thread> others;
  for (int rank = 1; rank < 4; ++rank)
    others.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = meetAndTalk(id, rank, 4, kLong); });
  for (std::thread& other : others) other.join();
  zero.join();
  std::printf("then 4 ranks met in %.1f ms\n", msSince(start));
  over = true;
  slow.join();
  for (const Status& status : results) CHECK(std::string(status.failure().text.c_str()).empty());
}

TEST_CASE("a hello that is half done is not broken off by a crowd") {
  const Id id = makeId();
  const Invitation invitation = read(id);
  Status met;
  std::thread zero([&] { met = meetAndTalk(id, 0, 2, kLong); });
  awaitListener();
  Hello hello = Hello::asClient({invitation.key, invitation.job, Purpose::kRendezvous, 1, 2});
  Intruder honest(invitation.address);
  CHECK(honest.say(std::exchange(hello.outgoing(), {})));
  CHECK(hello.take(honest.hear(kServerHelloBytes, 10000)).ok());
  std::vector<std::unique_ptr<Intruder>> crowd;
  for (int i = 0; i < 192; ++i) crowd.push_back(std::make_unique<Intruder>(invitation.address));
  CHECK(crowd[0]->hear(1, 10000).empty());  // it has lost its place
  CHECK(crowd[0]->closed());
  CHECK(honest.say(hello.outgoing()));
  CHECK(honest.hear(1, 10000).size() == 1);  // a seat
  CHECK(honest.say(std::vector<std::byte>(64, std::byte{1})));
  zero.join();
  CHECK((met.result() == sparsecollAuthFailed || met.result() == sparsecollCorrupted));
}

TEST_CASE("more ranks meet than there are places for who has not proven itself") {
  constexpr int kRanks = 100;
  const Id id = makeId();
  std::atomic<int> ready{0};
  const auto results = onRanks(kRanks, [&](int rank) {
    ++ready;
    while (ready < kRanks) std::this_thread::yield();
    return meetAndTalk(id, rank, kRanks, kLong);
  });
  for (const Status& status : results) CHECK(std::string(status.failure().text.c_str()).empty());
}

TEST_CASE("a rank whose proof came too late calls again") {
  const Id id = makeId();
  const Invitation invitation = read(id);
  auto claimed = claim(invitation);
  REQUIRE(claimed.ok());
  REQUIRE(listen(claimed->port, 16).ok());
  Lobby lobby(std::move(claimed->port), {invitation.key, invitation.job, Purpose::kRendezvous, 0, 2});
  Status joined;
  std::thread one([&] { joined = meet(invitation, 1, 2, Deadline::in(kLong)).takeStatusOrOk(); });
  const Deadline deadline = Deadline::in(kLong);
  std::vector<Guest> seated;
  for (int calls = 0; calls < 2 && !deadline.expired();) {
    seated = lobby.serve();
    if (!seated.empty() && ++calls == 1) seated.clear();
    std::vector<pollfd> watched;
    lobby.watch(watched);
    if (calls < 2) (void)awaitAny(watched, Deadline::earlier(deadline, lobby.next()));
  }
  if (!seated.empty()) seated[0].link.send(FrameType::kVerdict, writeVerdict({sparsecollSuccess, -1, {}, {}}));
  one.join();
  CHECK(std::string(joined.failure().text.c_str()) == "");
  CHECK(seated.size() == 1);
}

TEST_CASE("strangers that talk nonsense are closed, and ranks meet") {
  const uint64_t seed = 20220919;
  CAPTURE(seed);
  const Id id = makeId();
  const Invitation invitation = read(id);
  std::vector<Status> results(2);
  std::thread zero([&] { results[0] = meetAndTalk(id, 0, 2, kLong); });
  awaitListener();
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    Intruder stranger(invitation.address);
    std::vector<std::byte> noise(random.below(600) + kClientHelloBytes);
    for (std::byte& b : noise) b = static_cast<std::byte>(random.next());
    (void)stranger.say(noise);
    if (i % 10 == 0) {
      CHECK(stranger.hear(1, 10000).empty());
      CHECK(stranger.closed());
    }
  }
  results[1] = meetAndTalk(id, 1, 2, kLong);
  zero.join();
  for (const Status& status : results) CHECK(status.ok());
}

TEST_CASE("a recorded hello gets an answer and no seat") {
  const Id id = makeId();
  const Invitation invitation = read(id);
  std::vector<Status> results(2);
  std::thread zero([&] { results[0] = meetAndTalk(id, 0, 2, kLong); });
  awaitListener();
  Hello honest = Hello::asClient({invitation.key, invitation.job, Purpose::kRendezvous, 1, 2});
  const std::vector<std::byte> recorded = honest.outgoing();
  for (int replay = 0; replay < 3; ++replay) {
    Intruder stranger(invitation.address);
    REQUIRE(stranger.say(recorded));
    CHECK(stranger.hear(kServerHelloBytes, 10000).size() == kServerHelloBytes);
    REQUIRE(stranger.say(std::vector<std::byte>(kMacBytes)));
    CHECK(stranger.hear(1, 10000).empty());
    CHECK(stranger.closed());
  }
  results[1] = meetAndTalk(id, 1, 2, kLong);
  zero.join();
  for (const Status& status : results) CHECK(status.ok());
}

TEST_CASE("whoever does not prove itself loses its place after two seconds") {
  const Id id = makeId();
  const Invitation invitation = read(id);
  std::vector<Status> results(2);
  std::thread zero([&] { results[0] = meetAndTalk(id, 0, 2, kLong); });
  awaitListener();
  Intruder silent(invitation.address);
  CHECK(silent.hear(1, 30000).empty());
  CHECK(silent.closed());
  results[1] = meetAndTalk(id, 1, 2, kLong);
  zero.join();
  for (const Status& status : results) CHECK(status.ok());
}

}  // namespace sparsecoll
