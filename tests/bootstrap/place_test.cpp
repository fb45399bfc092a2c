// Ranks that meet at a host's ports, as launched jobs do: among other jobs, strangers and ports that are taken.
#include <sparsecoll/launch.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "transports/bootstrap/lobby.h"
#include "transports/bootstrap/place.h"
#include "transports/bootstrap/search.h"

namespace sparsecoll {
namespace {

using namespace test;

constexpr uint64_t kLong = 60000;
constexpr uint16_t kPorts = 6;

std::string textOf(const Status& status) { return status.failure().text.c_str(); }

Address loopbackAt(int port) { return Address::loopback().withPort(static_cast<uint16_t>(port)); }

// Ports in a row that nobody has, below those that the kernel hands out; tests beside this one look elsewhere.
Place freePlace(const char* host = "127.0.0.1", uint16_t ports = kPorts) {
  static uint16_t next = static_cast<uint16_t>(12000 + getpid() % 1000 * 8);
  for (;; next = static_cast<uint16_t>(next + ports)) {
    std::vector<Fd> held;
    for (uint16_t port = 0; port < ports; ++port)
      if (Opening one = openListener(Address::any(4).withPort(static_cast<uint16_t>(next + port)), 1);
          one.listener.open())
        held.push_back(std::move(one.listener));
    if (held.size() < ports) continue;
    const uint16_t first = next;
    next = static_cast<uint16_t>(next + ports);
    return {host, first, ports};
  }
}

struct Job {
  Place place;
  JobId id = jobOf("a job", 0, 0);
  Key key = openKey(id);

  Status run(int rank, int ranks, uint64_t timeoutMs) const {
    const Deadline deadline = Deadline::in(timeoutMs);
    SC_TRY(const auto exchange, meetAt(place, key, id, rank, ranks, deadline));
    return talk(*exchange, deadline);
  }
  void expectToMeet(int ranks) const {
    for (const Status& status : onRanks(ranks, [&](int rank) { return run(rank, ranks, kLong); }))
      CHECK(textOf(status).empty());
  }
};

Key anotherKey() {
  const std::array<std::byte, kKeyBytes> bytes{std::byte{7}};
  return Key(bytes);
}

// A file with these bytes and this mode.
class SecretFile {
 public:
  SecretFile(const std::string& bytes, mode_t mode) {
    const int fd = mkstemp(path_.data());
    written_ =
        fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) && fchmod(fd, mode) == 0;
    close(fd);
  }
  ~SecretFile() { std::remove(path_.c_str()); }
  const char* path() const { return written_ ? path_.c_str() : ""; }

 private:
  std::string path_ = "/tmp/sparsecoll-secret-XXXXXX";
  bool written_ = false;
};

}  // namespace

TEST_CASE("a place says its host and its ports, the last one too") {
  CHECK(Place{"node7", 5000, 1}.text().view() == "node7 port 5000");
  CHECK(Place{"node7,10.0.0.7", 5000, 16}.text().view() == "node7,10.0.0.7 ports 5000 to 5015");
}

TEST_CASE("ranks meet at a host's name and at its addresses, and nothing of it stays open") {
  const size_t before = openDescriptors();
  std::vector<const char*> hosts = {"localhost", "127.0.0.1"};
  if (bindTo(Address::any(6)).ok()) hosts.push_back("::1");
  for (const char* const host : hosts) {
    CAPTURE(host);
    Job{freePlace(host)}.expectToMeet(4);
  }
  CHECK(listeners().empty());
  CHECK(openDescriptors() == before);
}

TEST_CASE("an address of loopback opens no other, a name may be known elsewhere by another") {
  for (const auto& [host, expected] : {std::pair("127.0.0.1", true), std::pair("localhost", false)}) {
    CAPTURE(host);
    auto opened = listenAt(freePlace(host), 1);
    REQUIRE(opened.ok());
    auto at = localAddress(*opened);
    REQUIRE(at.ok());
    CHECK(at->isLoopback() == expected);
    CHECK(at->isAny() != expected);
  }
}

TEST_CASE("ranks pass over ports that are silent, talk nonsense, close, or have another key") {
  const Job job{freePlace()};
  const int first = job.place.firstPort;
  const Opening silent = openListener(loopbackAt(first), 16);
  Opening noisy = openListener(loopbackAt(first + 1), 16);
  Opening closing = openListener(loopbackAt(first + 2), 16);
  Opening foreign = openListener(loopbackAt(first + 3), 16);
  std::atomic<bool> over{false};
  std::thread strangers([&] {
    Lobby lobby(std::move(foreign.listener), {anotherKey(), job.id, Purpose::kRendezvous, 0, 4});
    std::vector<Fd> guests;
    while (!over) {
      Fd guest;
      bool closed = false;
      if (accept(noisy.listener, guest) == Arrival::kCame) {
        (void)bootstrap::send(guest, std::vector<std::byte>(kServerHelloBytes, std::byte{0x5a}), closed);
        guests.push_back(std::move(guest));
      }
      (void)accept(closing.listener, guest);
      (void)lobby.serve();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  job.expectToMeet(4);
  over = true;
  strangers.join();
}

TEST_CASE("a rank says so where who answers in rank 0's place has another version of the library") {
  const Job job{freePlace("127.0.0.1", 1)};
  const Opening other = openListener(loopbackAt(job.place.firstPort), 16);
  REQUIRE(other.listener.open());
  std::vector<std::byte> hello(kServerHelloBytes);
  const uint8_t head[] = {'S', 'P', 'H', '1', kWireVersion + 1, 0};
  std::ranges::copy(std::as_bytes(std::span(head)), hello.begin());
  std::atomic<bool> over{false};
  std::thread another([&] {
    std::vector<Fd> guests;
    while (!over) {
      Fd guest;
      bool closed = false;
      if (accept(other.listener, guest) == Arrival::kCame) {
        (void)bootstrap::send(guest, hello, closed);
        guests.push_back(std::move(guest));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const Status refused = job.run(1, 2, kLong);
  over = true;
  another.join();
  CHECK(refused.result() == sparsecollMismatch);
  CHECK_THAT(textOf(refused), Catch::Contains("the peer speaks version " + std::to_string(kWireVersion + 1)));
}

TEST_CASE("two jobs meet at the same ports, each for itself") {
  const Place place = freePlace();
  const Job jobs[] = {{place, jobOf("one", 0, 0)}, {place, jobOf("another", 0, 0)}};
  const auto results = onRanks(6, [&](int number) { return jobs[number % 2].run(number / 2, 3, kLong); });
  for (const Status& status : results) CHECK(textOf(status).empty());
}

TEST_CASE("a rank from before a restart, or of another communicator, is not let in") {
  const Place place = freePlace();
  const Job now{place, jobOf("a job", 1, 0)};
  for (const JobId& id : {jobOf("a job", 0, 0), jobOf("a job", 1, 1)}) {
    const Job stale{place, id};
    const auto results =
        onRanks(4, [&](int rank) { return rank == 3 ? stale.run(2, 3, 600) : now.run(rank, 3, kLong); });
    for (int rank = 0; rank < 3; ++rank) CHECK(textOf(results[static_cast<size_t>(rank)]).empty());
    CHECK(results[3].result() == sparsecollTimeout);
    CHECK_THAT(textOf(results[3]), Catch::Contains("rank 0 was not reached at 127.0.0.1 ports"));
  }
}

TEST_CASE("a rank with another secret learns it, and rank 0 names whom it misses") {
  Job job{freePlace()};
  Job wrong = job;
  wrong.key = anotherKey();
  const auto results = onRanks(
      3, [&](int rank) { return rank == 2 ? wrong.run(rank, 3, 600) : job.run(rank, 3, rank == 0 ? 1200 : kLong); });
  CHECK(results[2].result() == sparsecollAuthFailed);
  for (const int rank : {0, 1}) {
    CHECK(results[static_cast<size_t>(rank)].result() == sparsecollTimeout);
    CHECK_THAT(textOf(results[static_cast<size_t>(rank)]), Catch::Contains("rank(s) 2 have not come"));
  }
}

TEST_CASE("of two that claim a rank the first one has it") {
  const Job job{freePlace()};
  std::atomic<int> refused{0};
  const auto results = onRanks(4, [&](int number) {
    // The last rank waits for the refusal: once all are there, nobody answers any more.
    while (number == 2 && refused == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Status status = job.run(number == 3 ? 1 : number, 3, kLong);
    if (status.result() == sparsecollInvalidUsage) ++refused;
    return status;
  });
  CHECK(refused == 1);
  CHECK(results[0].ok());
  CHECK(results[2].ok());
}

TEST_CASE("rank 0 may come late, and a rank that does not come is named by all") {
  const Job job{freePlace()};
  const auto late = onRanks(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    return job.run(rank, 3, kLong);
  });
  for (const Status& status : late) CHECK(textOf(status).empty());
  const auto missing =
      onRanks(4, [&](int rank) { return rank == 2 ? Status() : job.run(rank, 4, rank == 0 ? 600 : kLong); });
  for (const int rank : {0, 1, 3}) {
    CHECK(missing[static_cast<size_t>(rank)].result() == sparsecollTimeout);
    CHECK_THAT(textOf(missing[static_cast<size_t>(rank)]), Catch::Contains("rank(s) 2 have not come"));
  }
  const Status alone = job.run(1, 2, 200);
  CHECK(alone.result() == sparsecollTimeout);
  CHECK(alone.failure().peer == 0);
}

TEST_CASE("rank 0 says so where all ports are taken") {
  const Job job{freePlace("127.0.0.1", 2)};
  const Opening taken[] = {openListener(loopbackAt(job.place.firstPort), 1),
                           openListener(loopbackAt(job.place.firstPort + 1), 1)};
  const Status status = job.run(0, 2, kLong);
  CHECK(status.result() == sparsecollSystemError);
  CHECK_THAT(textOf(status), Catch::Contains("rank 0 cannot listen at 127.0.0.1 ports"));
}

TEST_CASE("a host that has no address yet is looked up again") {
  const std::string nobody(300, 'a');  // no name server is asked
  auto some = addressesOf({nobody + ",127.0.0.1", 20000, 1});
  REQUIRE(some.ok());
  CHECK(*some == std::vector<Address>{loopbackAt(20000)});
  auto none = addressesOf({nobody, 20000, 1});
  REQUIRE_FALSE(none.ok());
  CHECK_THAT(textOf(none.takeStatus()), Catch::StartsWith(nobody.substr(0, 100)));

  const Job job{freePlace()};
  std::atomic<int> asked{0};
  Status met = fail(sparsecollInternalError, "not yet");
  std::thread zero([&] { met = job.run(0, 3, kLong); });
  Search search({job.key, job.id, Purpose::kRendezvous, 1, 3}, "a host", [&]() -> Result<std::vector<Address>> {
    if (asked++ == 0) return fail(sparsecollSystemError, "it has no address");
    return addressesOf(job.place);
  });
  auto first = search.run(Deadline::in(50));
  REQUIRE_FALSE(first.ok());
  CHECK_THAT(textOf(first.takeStatus()), Catch::Contains("it has no address"));
  CHECK(search.run(Deadline::in(kLong)).ok());  // and goes at once, while rank 0 still waits for rank 2
  const auto others = onRanks(3, [&](int rank) { return rank == 0 ? Status() : job.run(rank, 3, kLong); });
  zero.join();
  CHECK(textOf(met).empty());
  for (const Status& status : others) CHECK(textOf(status).empty());
}

TEST_CASE("a secret is read from a file of this user's alone, and belongs to one job") {
  const JobId job = jobOf("a job", 0, 0);
  const SecretFile good("0123456789abcdef", 0600), same("0123456789abcdef", 0440), other("0123456789abcdeg", 0400);
  const auto keyBy = [](const SecretFile& file, const JobId& id) {
    auto secret = secretFromFile(file.path());
    REQUIRE(secret.ok());
    const Key key = keyOf(*secret, id);
    return std::vector<std::byte>(key.bytes().begin(), key.bytes().end());
  };
  CHECK(keyBy(good, job) == keyBy(same, job));
  CHECK(keyBy(good, job) != keyBy(other, job));
  CHECK(keyBy(good, job) != keyBy(good, jobOf("a job", 1, 0)));
  const auto resultOf = [](const char* path) { return secretFromFile(path).takeStatusOrOk().result(); };
  CHECK(resultOf(SecretFile("0123456789abcdef", 0644).path()) == sparsecollInvalidArgument);
  CHECK(resultOf(SecretFile("0123456789abcdef", 0620).path()) == sparsecollInvalidArgument);
  CHECK(resultOf(SecretFile("0123456789abcde", 0600).path()) == sparsecollInvalidArgument);
  CHECK(resultOf(SecretFile(std::string(4096, 'x'), 0600).path()) == sparsecollSuccess);
  CHECK(resultOf(SecretFile(std::string(4097, 'x'), 0600).path()) == sparsecollInvalidArgument);
  CHECK(resultOf("/no/such/file") == sparsecollInvalidArgument);
  CHECK(resultOf("/tmp") == sparsecollInvalidArgument);
}

TEST_CASE("the first host of a Slurm list") {
  const std::pair<const char*, const char*> lists[] = {
      {"node7", "node7"}, {"node[001-004,7],gpu3", "node001"},
      {"a1,b2", "a1"},    {"rack[1-2]n[08-10]-x", "rack1n08-x"},
      {"", ""},           {"broken[3", "broken3"},
  };
  for (const auto& [list, first] : lists) {
    char host[32];
    sparsecollLaunchFirstHost(list, host, sizeof host);
    CHECK(std::string(host) == first);
  }
  char small[4];
  sparsecollLaunchFirstHost("abcdef", small, sizeof small);
  CHECK(std::string(small) == "abc");
}

}  // namespace sparsecoll
