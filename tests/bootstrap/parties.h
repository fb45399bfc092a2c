// Ranks that meet by a unique id, one thread each, and what the process holds meanwhile.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/poll.h"
#include "transports/bootstrap/mesh.h"
#include "transports/bootstrap/star.h"

namespace sparsecoll::test {

using namespace sparsecoll::bootstrap;

using Id = std::array<uint8_t, SPARSECOLL_UNIQUE_ID_BYTES>;

inline Id makeId(uint64_t timeoutMs = 60000, sparsecollTransport_t engine = sparsecollTransportAuto) {
  Id id{};
  if (!invite(engine, nullptr, Deadline::in(timeoutMs), id).ok()) id[0] = 0;
  return id;
}

inline Invitation read(const Id& id) {
  auto made = readInvitation(id);
  return made.ok() ? *made : Invitation{};
}

// What body(rank) returned on every rank.
inline std::vector<Status> onRanks(int ranks, const std::function<Status(int)>& body) {
  std::vector<Status> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = body(rank); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Every rank says its number twice and hears all of them.
inline Status talk(Exchange& exchange, const Deadline& deadline) {
  for (int turn = 0; turn < 2; ++turn) {
    const std::string own(static_cast<size_t>(exchange.rank() + turn), static_cast<char>('a' + exchange.rank()));
    SC_TRY(const Parts all, exchange.allgather(bytesOf(own), deadline));
    for (size_t r = 0; r < all.size(); ++r)
      if (all[r] != std::vector<std::byte>(r + static_cast<size_t>(turn), static_cast<std::byte>('a' + r)))
        return fail(sparsecollInternalError, "rank {} was heard wrong", r);
  }
  return {};
}

inline Status meetAndTalk(const Id& id, int rank, int ranks, uint64_t timeoutMs) {
  const Deadline deadline = Deadline::in(timeoutMs);
  SC_TRY(const auto exchange, meet(read(id), rank, ranks, deadline));
  return talk(*exchange, deadline);
}

inline size_t openDescriptors() {
  size_t count = 0;
  DIR* const all = opendir("/proc/self/fd");
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

inline size_t threadsNow() {
  size_t count = 0;
  DIR* const all = opendir("/proc/self/task");
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

// Threads that were joined count until the kernel has taken them away.
template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 30000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

// Ports that this process listens at, in the kernel's own words: "local address:port" in hexadecimal. Each once: while
// other processes open and close sockets the kernel's table may say a line twice.
inline std::vector<std::string> listeners() {
  std::vector<std::string> inodes;
  DIR* const all = opendir("/proc/self/fd");
  while (const dirent* const one = readdir(all)) {
    char target[64] = {};
    const std::string path = std::string("/proc/self/fd/") + one->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) > 0) inodes.emplace_back(target);
  }
  closedir(all);
  std::vector<std::string> found;
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode, rest;
    std::getline(lines, rest);
    while (lines >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode) {
      std::getline(lines, rest);
      for (const std::string& mine : inodes)
        if (state == "0A" && mine == "socket:[" + inode + "]" && std::ranges::find(found, local) == found.end())
          found.push_back(local);
    }
  }
  return found;
}

// A connection that anyone may open.
class Intruder {
 public:
  explicit Intruder(const Address& to) {
    const SocketName name = to.name();
    fd_ = Fd(::socket(name.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    reached_ = ::connect(fd_.get(), name.get(), name.length) == 0;
  }
  bool reached() const { return reached_; }
  bool say(Bytes bytes) {
    bool closed = false;
    return bootstrap::send(fd_, bytes, closed) == bytes.size() && !closed;
  }
  // What comes within the time, at most `most` bytes; fewer once the other side has closed.
  std::vector<std::byte> hear(size_t most, uint64_t timeoutMs) {
    const Deadline deadline = Deadline::in(timeoutMs);
    std::vector<std::byte> heard(most);
    size_t at = 0;
    while (at < most && !closed_ && !deadline.expired()) {
      std::array<pollfd, 1> watched = {{{fd_.get(), POLLIN, 0}}};
      (void)awaitAny(watched, deadline);
      at += bootstrap::receive(fd_, std::span(heard).subspan(at), closed_);
    }
    heard.resize(at);
    return heard;
  }
  bool closed() const { return closed_; }

 private:
  Fd fd_;
  bool reached_ = false;
  bool closed_ = false;
};

}  // namespace sparsecoll::test
