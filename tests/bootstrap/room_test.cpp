// How much sockets may hold (transports/tcp/room.h).
#include "transports/tcp/room.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using sparsecoll::tcp::Rates;
using sparsecoll::tcp::Room;

namespace {

// A connection inside this host; packets: the longest, 0 for what the host takes.
class Pair {
 public:
  explicit Pair(int packets) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener, at, length) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, at, &length) == 0);
    from = socket(AF_INET, SOCK_STREAM, 0);
    if (packets != 0) REQUIRE(setsockopt(from, IPPROTO_TCP, TCP_MAXSEG, &packets, sizeof packets) == 0);
    REQUIRE(connect(from, at, length) == 0);
    to = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Pair() {
    close(from);
    close(to);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int room() const {
    int value = 0;
    socklen_t length = sizeof value;
    REQUIRE(getsockopt(from, SOL_SOCKET, SO_SNDBUF, &value, &length) == 0);
    return value;
  }

  int from = -1, to = -1;
};

}  // namespace

TEST_CASE("a room is a quarter of a millisecond and twice the way, within limits") {
  CHECK(Room::wanted(100e6, 50) == 35000);
  CHECK(Room::wanted(100e6, 0) == 25000);
  CHECK(Room::wanted(1e6, 50) == 16384);
  CHECK(Room::wanted(0, 0) == 16384);
  CHECK(Room::wanted(10e9, 50) == 196608);
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
  outside.add(1e300, 3);
  CHECK(outside.median() > 1e12);
}

TEST_CASE("a connection inside a host is left as it is") {
  const Pair pair(0);
  Room room;
  room.add(pair.from);
  const int before = pair.room();
  Rates drains;
  for (uint64_t sent = 0; sent < 100u << 20; sent += 1u << 20) {
    drains.add(1e6, 1u << 20);
    room.note(sent, drains);
  }
  CHECK(pair.room() == before);
}

// What reads slowly is a slow link.
TEST_CASE("the room of a slow link is small, and grows with the link") {
  const Pair pair(1448);
  Room room;
  room.add(pair.from);
  std::vector<char> bytes(256u << 10);
  uint64_t sent = 0;
  const int before = pair.room();
  Rates drains;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (pair.room() >= before && std::chrono::steady_clock::now() < end) {
    for (ssize_t some; (some = send(pair.from, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;)
      sent += static_cast<uint64_t>(some);
    room.note(sent, drains);
    (void)!recv(pair.to, bytes.data(), 32u << 10, MSG_DONTWAIT);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (pair.room() >= before) {
    std::cout << "skipped: this kernel does not tell how fast a connection is\n";
    return;
  }
  CHECK(pair.room() < 2 * (48 << 10));
  drains.add(200e6, 1u << 20);
  room.note(sent, drains);
  CHECK(drains.weight() == 0);
  CHECK(pair.room() >= 2 * (48 << 10));
  CHECK(pair.room() < 2 * (72 << 10));
  drains.add(300, 1u << 20);
  room.note(sent, drains);
  CHECK(pair.room() == 2 * (16 << 10));
}
