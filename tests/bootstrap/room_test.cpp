// How much sockets may hold (transports/tcp/room.h).
#include "transports/tcp/room.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"

using sparsecoll::tcp::Path;
using sparsecoll::tcp::Rates;
using sparsecoll::tcp::Room;

namespace {

constexpr uint64_t kKiB = 1u << 10;
constexpr uint64_t kMiB = 1u << 20;

// What rooms see of sockets here.
std::map<int, Path> paths;
int looks = 0;
Path pathHere(int socket) {
  ++looks;
  return paths[socket];
}

// Two sockets of a rank: one to another host, and one that stays here.
class Sockets {
 public:
  Sockets() {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    paths = {{pair[0], {true, 40e6, 50}}, {pair[1], {false, 0, 0}}};
  }
  ~Sockets() {
    for (const int socket : pair) close(socket);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  static int roomOf(int socket) {
    int value = 0;
    socklen_t length = sizeof value;
    REQUIRE(getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, &length) == 0);
    return value;
  }
  Path& path() { return paths[pair[0]]; }
  int pair[2] = {-1, -1};

#ifdef SO_BUF_LOCK
  // Whether somebody has set it, so that the system does not change it; nothing where the system does not tell.
  static int isSet(int socket, int otherwise) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &value, &length) == 0 ? value & 1 : otherwise;
  }
#else
  static int isSet(int, int otherwise) { return otherwise; }
#endif
};

}  // namespace

TEST_CASE("a room is a quarter of a millisecond and twice the way, within limits") {
  CHECK(Room::wanted(100e6, 50, 3, 0, false) == 35000);
  CHECK(Room::wanted(136e6, 0, 2, 0, false) == 34000);
  CHECK(Room::wanted(100e6, 0, 4, 0, false) == 32 * kKiB);
  CHECK(Room::wanted(100e6, 0, 4, 0, true) == 25000);
  CHECK(Room::wanted(1e6, 50, 3, 0, false) == 32 * kKiB);
  CHECK(Room::wanted(0, 0, 1, 0, false) == 32 * kKiB);
  CHECK(Room::wanted(0, 0, 1, 0, true) == 16 * kKiB);
  CHECK(Room::wanted(400e6, 1000, 1, 0, false) == 192 * kKiB);
}

TEST_CASE("many sockets hold less each, together no more than a queue takes") {
  CHECK(Room::wanted(1e6, 0, 8, 0, false) == 32 * kKiB);
  CHECK(Room::wanted(1e6, 0, 9, 0, false) == 256 * kKiB / 9);
  CHECK(Room::wanted(1e6, 0, 16, 0, false) == 16 * kKiB);
  CHECK(Room::wanted(1e6, 0, 100, 0, false) == 16 * kKiB);
  CHECK(Room::wanted(1e6, 0, 9, 0, true) == 16 * kKiB);
}

TEST_CASE("fast links and long ones have no room, and a limit ends where the link is clearly faster") {
  CHECK(Room::wanted(101e6, 50, 4, 0, false) == 0);
  CHECK(Room::wanted(1e6, 1001, 1, 0, false) == 0);
  CHECK(Room::wanted(101e6, 50, 4, 30000, false) != 0);
  CHECK(Room::wanted(151e6, 50, 4, 30000, false) == 0);
  CHECK(Room::wanted(1e6, 1001, 1, 30000, false) == 0);
}

TEST_CASE("a room stays unless the rate is another one by a half") {
  CHECK(Room::wanted(200e6, 0, 1, 50000, false) == 50000);
  CHECK(Room::wanted(290e6, 0, 1, 50000, false) == 50000);
  CHECK(Room::wanted(310e6, 0, 1, 50000, false) == 77500);
  CHECK(Room::wanted(140e6, 0, 1, 50000, false) == 50000);
  CHECK(Room::wanted(132e6, 0, 1, 50000, false) == 33000);
}

TEST_CASE("the median of rates is that of most bytes, whatever stalls and bursts there are") {
  for (const double rate : {2e3, 1e6, 4.2e7, 3e9, 1e12}) {
    CAPTURE(rate);
    Rates rates;
    rates.add(rate, 1000);
    CHECK(rates.median() == Approx(rate).epsilon(0.2));
    rates.add(10, 400);
    rates.add(1e13, 500);
    CHECK(rates.median() == Approx(rate).epsilon(0.2));
    CHECK(rates.weight() == 1900);
    rates.clear();
    CHECK(rates.weight() == 0);
  }
  Rates outside;
  outside.add(0, 1);
  CHECK(outside.median() > 0);
  outside.add(1.0 / 0.0, 3);
  CHECK(outside.median() > 1e12);
}

TEST_CASE("connections to other hosts are limited after some looks, follow their drains, and are let go") {
  Sockets sockets;
  Room room(pathHere);
  CHECK(room.add(sockets.pair[0]));
  CHECK_FALSE(room.add(sockets.pair[1]));
  const int before = Sockets::roomOf(sockets.pair[0]);
  REQUIRE(before > 100 * static_cast<int>(kKiB));
  Rates drains;
  uint64_t sent = 0;
  sockets.path().bytesPerSecond = 0;  // there was too little to send
  for (int look = 0; look < 50; ++look) room.note(sent += 64 * kKiB, drains);
  CHECK(Sockets::roomOf(sockets.pair[0]) == before);
  sockets.path().bytesPerSecond = 40e6;
  for (int look = 0; look < 15; ++look) room.note(sent += 64 * kKiB, drains);
  CHECK(Sockets::roomOf(sockets.pair[0]) == before);
  for (int look = 0; look < 2; ++look) room.note(sent += 64 * kKiB, drains);
  CHECK(Sockets::roomOf(sockets.pair[0]) == 2 * 32 * static_cast<int>(kKiB));
  CHECK(Sockets::isSet(sockets.pair[0], 1) == 1);
  drains.add(200e6, 100 * kKiB);
  room.note(sent, drains);
  CHECK(drains.weight() == 100 * kKiB);  // not enough
  drains.add(200e6, kMiB);
  room.note(sent, drains);
  CHECK(drains.weight() == 0);
  const int grown = Sockets::roomOf(sockets.pair[0]);
  CHECK(grown > 2 * 56000);
  CHECK(grown < 2 * 84000);
  drains.add(2e9, kMiB);
  room.note(sent, drains);
  CHECK(Sockets::roomOf(sockets.pair[0]) > 2 * grown);
  CHECK(Sockets::isSet(sockets.pair[0], 0) == 0);
  CHECK(Sockets::roomOf(sockets.pair[1]) == before);
}

TEST_CASE("where one socket of several uses BBR all hold half as much at least") {
  Sockets sockets;
  Room room(pathHere);
  sockets.path().bbr = true;
  paths[sockets.pair[1]] = {true, 40e6, 50, false};
  REQUIRE(room.add(sockets.pair[0]));
  REQUIRE(room.add(sockets.pair[1]));
  Rates drains;
  uint64_t sent = 0;
  for (; sent < 4 * kMiB; sent += 128 * kKiB) room.note(sent, drains);
  for (const int socket : sockets.pair) CHECK(Sockets::roomOf(socket) == 2 * 16 * static_cast<int>(kKiB));
  drains.add(70e6, kMiB);  // 24,500 bytes in the time
  room.note(sent, drains);
  CHECK(Sockets::roomOf(sockets.pair[0]) < 2 * 32 * static_cast<int>(kKiB));
}

TEST_CASE("on a slow link sockets are limited while much is to leave") {
  Sockets sockets;
  Room room(pathHere);
  REQUIRE(room.add(sockets.pair[0]));
  const int before = Sockets::roomOf(sockets.pair[0]);
  const int small = 2 * 32 * static_cast<int>(kKiB), large = 2 * 192 * static_cast<int>(kKiB);
  CHECK_FALSE(room.expect(0, 100 * kKiB, 0));
  CHECK(Sockets::roomOf(sockets.pair[0]) == before);  // nothing is known of the link
  Rates drains;
  uint64_t sent = 0;
  for (int look = 0; look < 20; ++look) room.note(sent += 64 * kKiB, drains);
  CHECK(Sockets::roomOf(sockets.pair[0]) == small);
  CHECK(room.expect(0, 512 * kKiB, 0));
  CHECK(Sockets::roomOf(sockets.pair[0]) == large);
  CHECK_FALSE(room.expect(0, 100 * kKiB, 0));
  CHECK(room.expect(0, 512 * kKiB + 1, 0));
  CHECK(Sockets::roomOf(sockets.pair[0]) == small);
  CHECK_FALSE(room.expect(0, 100 * kMiB, 0));
  CHECK(Sockets::isSet(sockets.pair[0], 1) == 1);
  drains.add(2e9, kMiB);  // the limit ends, and what was expected with it
  CHECK(room.note(sent, drains));
  CHECK_FALSE(room.limits());
  CHECK(Sockets::isSet(sockets.pair[0], 0) == 0);
  for (int look = 0; look < 20; ++look) room.note(sent += 64 * kMiB, drains);
  CHECK(room.limits());
  CHECK(Sockets::roomOf(sockets.pair[0]) == small);
}

// A rank's sockets to so many other hosts, which are limited.
class LimitedSockets {
 public:
  explicit LimitedSockets(int count, bool bbr = false) {
    paths.clear();
    for (int one = 0; one < count; ++one) {
      const int made = socket(AF_UNIX, SOCK_STREAM, 0);
      REQUIRE(made >= 0);
      sockets_.push_back(made);
      paths[made] = {true, 40e6, 50, bbr};
      REQUIRE(room.add(made));
    }
    for (; sent < 4 * kMiB * static_cast<uint64_t>(count); sent += 64 * kKiB * static_cast<uint64_t>(count))
      room.note(sent, drains);
    REQUIRE(are(bbr ? 16 : 32));
  }
  ~LimitedSockets() {
    for (const int socket : sockets_) close(socket);
  }
  LimitedSockets(const LimitedSockets&) = delete;
  LimitedSockets& operator=(const LimitedSockets&) = delete;
  // Whether each has that room, which Linux doubles.
  bool are(int kibibytes) const {
    return std::ranges::all_of(
        sockets_, [&](int socket) { return Sockets::roomOf(socket) == 2 * kibibytes * static_cast<int>(kKiB); });
  }

  // Whether Linux lets each grow (0) or not, as far as it tells.
  bool areSet(int wanted) const {
    return std::ranges::all_of(sockets_, [&](int socket) { return Sockets::isSet(socket, wanted) == wanted; });
  }

  Room room{pathHere};
  Rates drains;
  uint64_t sent = 0;

 private:
  std::vector<int> sockets_;
};

TEST_CASE("up to three frames leave sockets more room, however long they are") {
  LimitedSockets sockets(7);
  CHECK_FALSE(sockets.room.expect(0, 100 * kMiB, 7));
  CHECK_FALSE(sockets.room.expect(0, 100 * kMiB, 4));
  CHECK_FALSE(sockets.room.expect(0, 100 * kMiB, 0));  // no frames, or others use the link, too
  CHECK(sockets.are(32));
  CHECK(sockets.areSet(1));
  CHECK(sockets.room.expect(512 * kKiB, 100 * kMiB, 3));
  CHECK(sockets.are(192));
  CHECK(sockets.areSet(1));  // seven sockets do not grow by themselves
  CHECK_FALSE(sockets.room.expect(0, 100 * kMiB, 1));
  CHECK(sockets.room.expect(512 * kKiB + 1, 100 * kMiB, 3));  // much is still leaving, maybe to all
  CHECK(sockets.are(32));
  CHECK_FALSE(sockets.room.expect(512 * kKiB, 1, 0));
}

TEST_CASE("what is still leaving for few does not limit few frames") {
  LimitedSockets sockets(3);
  CHECK(sockets.room.expect(100 * kMiB, 100 * kMiB, 2));
  CHECK(sockets.are(192));
  CHECK(sockets.areSet(0));
  sockets.drains.add(2e9, kMiB);  // one of several drains faster while others have nothing to send
  CHECK_FALSE(sockets.room.note(sockets.sent, sockets.drains));
  CHECK(sockets.drains.weight() == 0);
  CHECK(sockets.room.limits());
  CHECK(sockets.room.expect(512 * kKiB, 1, 0));
  CHECK(sockets.are(32));
  CHECK(sockets.areSet(1));
}

TEST_CASE("sockets of four peers do not grow by themselves, those of three do") {
  for (const int peers : {3, 4}) {
    LimitedSockets sockets(peers);
    CHECK(sockets.room.expect(0, 100 * kMiB, 3));
    CHECK(sockets.are(192));
    CHECK(sockets.areSet(peers == 3 ? 0 : 1));
  }
}

TEST_CASE("a round in which a rank sends nothing changes nothing of what is still leaving") {
  LimitedSockets sockets(3);
  CHECK_FALSE(sockets.room.expect(0, 0, 0));
  CHECK(sockets.are(32));
  CHECK(sockets.room.expect(0, 100 * kMiB, 1));
  CHECK_FALSE(sockets.room.expect(100 * kMiB, 0, 0));
  CHECK(sockets.are(192));
}

TEST_CASE("under BBR only what goes to one peer alone leaves sockets more room") {
  LimitedSockets sockets(2, true);
  CHECK_FALSE(sockets.room.expect(0, 100 * kMiB, 2));
  CHECK_FALSE(sockets.room.expect(512 * kKiB + 1, 1, 1));
  CHECK(sockets.are(16));
  CHECK(sockets.room.expect(512 * kKiB, 100 * kMiB, 1));
  CHECK(sockets.are(192));
  CHECK(sockets.areSet(1));
  LimitedSockets only(1, true);
  CHECK(only.room.expect(100 * kMiB, 100 * kMiB, 1));
  CHECK(only.are(192));
  CHECK(only.areSet(0));
}

TEST_CASE("what a room's only socket drains counts while it is limited") {
  LimitedSockets sockets(1);
  CHECK(sockets.room.expect(100 * kMiB, 100 * kMiB, 1));
  sockets.drains.add(200e6, kMiB);
  CHECK_FALSE(sockets.room.note(sockets.sent, sockets.drains));
  CHECK(sockets.drains.weight() == 0);
  CHECK(sockets.room.expect(0, 100 * kMiB, 0));
  CHECK(sockets.are(32));
  sockets.drains.add(200e6, kMiB);
  CHECK(sockets.room.note(sockets.sent, sockets.drains));
  CHECK_FALSE(sockets.are(32));
}

TEST_CASE("connections that stay inside a host, and those to fast ones, are left as they are") {
  Sockets sockets;
  Room inside(pathHere), fast(pathHere);
  CHECK_FALSE(inside.add(sockets.pair[1]));
  sockets.path().bytesPerSecond = 500e6;
  CHECK(fast.add(sockets.pair[0]));
  const int before = Sockets::roomOf(sockets.pair[0]);
  Rates drains;
  for (uint64_t sent = 0; sent < 100 * kMiB; sent += kMiB) {
    drains.add(1e6, kMiB);
    inside.note(sent, drains);
    fast.note(sent, drains);
  }
  for (const int socket : sockets.pair) CHECK(Sockets::roomOf(socket) == before);
}

TEST_CASE("a room looks after 64 KiB a socket, and where there is to be none after 64 times as much") {
  Sockets sockets;
  paths[sockets.pair[1]] = {true, 3e9, 50};
  sockets.path().bytesPerSecond = 3e9;
  Room room(pathHere);
  CHECK(room.add(sockets.pair[0]));
  CHECK(room.add(sockets.pair[1]));
  Rates drains;
  const auto looksAt = [&](uint64_t sent) {
    looks = 0;
    room.note(sent, drains);
    return looks;
  };
  uint64_t sent = 0;
  for (int look = 0; look < 8; ++look, sent += 128 * kKiB) {
    CHECK(looksAt(sent) == 2);
    CHECK(looksAt(sent + 128 * kKiB - 1) == 0);
  }
  sent += 64 * 128 * kKiB;
  CHECK(looksAt(sent - 1) == 0);
  CHECK(looksAt(sent) == 2);
}

TEST_CASE("the system knows a connection inside this host") {
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK_FALSE(sparsecoll::tcp::pathOf(pair[0]).leavesHost);
  for (const int socket : pair) close(socket);
  CHECK_FALSE(sparsecoll::tcp::pathOf(-1).leavesHost);
}

TEST_CASE("the system knows whether a connection's congestion control is BBR") {
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(made >= 0);
  const auto use = [&](std::string_view name) {
    return setsockopt(made, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
  };
  const bool usesReno = use("reno");
  const bool isReno = !sparsecoll::tcp::pathOf(made).bbr;
  std::string here;  // to name another one as root would load it
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_available_congestion_control"), here);
  const bool usesBbr = here.find("bbr") != std::string::npos && use("bbr");
  const bool isBbr = sparsecoll::tcp::pathOf(made).bbr;
  close(made);
  if (!usesReno || !usesBbr) return (void)std::puts("skipped: this system lets not everybody use Reno and BBR");
  CHECK(isReno);
  CHECK(isBbr);
}
