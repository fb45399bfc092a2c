// Both ends of a data connection, or one of them in bytes of the test's own.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "transports/tcp/connection.h"

namespace sparsecoll::tcp {

using bootstrap::Fd;
using State = Request::State;

struct Ends {
  Fd a, b;
};

// bufferBytes: what the kernel holds between them, about.
inline Ends makeEnds(int bufferBytes = 0) {
  int made[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, made) == 0);
  for (const int fd : made)
    if (bufferBytes != 0) (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bufferBytes, sizeof bufferBytes);
  return {Fd(made[0]), Fd(made[1])};
}

struct Pair {
  explicit Pair(Ends ends) : a(std::move(ends.a), tally), b(std::move(ends.b), tally) {}

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Connection* const one : {&a, &b}) {
        moved = one->write() || moved;
        moved = one->read() || moved;
      }
    }
  }

  Tally tally;
  Connection a, b;
};

struct Message {
  explicit Message(size_t length, char first = 'a') : bytes(length) {
    for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(static_cast<size_t>(first) + i * 31 % 251);
  }

  Request& send(uint16_t tag) { return fill(tag, false); }
  Request& receive(uint16_t tag) {
    std::ranges::fill(bytes, std::byte{0});
    return fill(tag, true);
  }

  std::vector<std::byte> bytes;
  Request request;

 private:
  Request& fill(uint16_t tag, bool receives) {
    request = {};
    request.tag = tag;
    request.receives = receives;
    request.data = bytes.data();
    request.bytes = bytes.size();
    return request;
  }
};

// One end in bytes of the test's own.
struct Wire {
  Wire() {
    Ends ends = makeEnds();
    own = std::move(ends.a);
    connection = std::make_unique<Connection>(std::move(ends.b), tally);
  }
  void say(std::span<const std::byte> bytes) {
    REQUIRE(::send(own.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    (void)connection->read();
  }
  std::string hear() {
    char heard[4096];
    const ssize_t got = recv(own.get(), heard, sizeof heard, MSG_DONTWAIT);
    return {heard, got > 0 ? static_cast<size_t>(got) : 0};
  }

  Tally tally;
  Fd own;
  std::unique_ptr<Connection> connection;
};

inline HeadBytes headOf(uint16_t kind, uint16_t tag, uint64_t amount) {
  return writeHead({static_cast<HeadKind>(kind), tag, amount});
}

}  // namespace sparsecoll::tcp
