// A ring all-reduce over plain TCP and nothing else: what a link allows on this machine, to measure the engines
// against. One stream each way, forwarded as it arrives, so that no round waits for a whole chunk; sleeps in poll()
// when there is nothing to do. usage: ring RANK ADDRESS ADDRESS... ELEMENTS REPEATS      one process per rank, rank 0
// prints
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr uint16_t kPort = 29500;
constexpr size_t kPiece = 128 * 1024;  // bytes a call: as much as a core's cache likes
constexpr int kPatienceMs = 30'000;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in at(const char* address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(kPort);
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) die(address);
  return to;
}

int ready(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFL, O_NONBLOCK);
  return socket;
}

int connectTo(const char* address) {
  const sockaddr_in to = at(address);
  for (int tries = 0; tries < 300; ++tries) {  // the other one may not listen yet
    const int out = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(out, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return ready(out);
    close(out);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  die("connect");
}

// Whether packets leave as the hosts' script has promised.
bool isControlled(int socket) {
  const char* const wanted = std::getenv("HOSTS_CONTROL");
  char control[16] = {};  // TCP_CA_NAME_MAX
  socklen_t length = sizeof control;
  getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control, &length);
  return wanted == nullptr || std::string_view(control, strnlen(control, sizeof control)) == wanted;
}

class Ring {
 public:
  Ring(size_t rank, size_t ranks, size_t elements, int in, int out)
      : rank_(rank), ranks_(ranks), chunk_(elements / ranks * sizeof(float)), in_(in), out_(out) {}

  // The stream of a rank: its own chunk, then what came in, summed; after P - 1 chunks of that, sums to be passed on.
  void allReduce(std::vector<float>& data) {
    const size_t total = 2 * (ranks_ - 1) * chunk_;
    size_t sent = 0, got = 0;
    auto* const bytes = reinterpret_cast<char*>(data.data());
    while (sent < total || got < total) {
      bool moved = false;
      if (const size_t may = std::min(total, chunk_ + got); sent < may) {
        // This rank's chunk first, then its predecessor's, and so on round the ring.
        const size_t length = std::min({may - sent, chunk_ - sent % chunk_, kPiece});
        const ssize_t done = send(out_, bytes + place(rank_, sent), length, MSG_NOSIGNAL);
        if (done > 0) sent += static_cast<size_t>(done), moved = true;
        if (done < 0 && errno != EAGAIN) die("send");
      }
      if (got < total) moved |= receive(bytes, got);
      if (!moved) wait(sent < std::min(total, chunk_ + got), got < total);
    }
  }

 private:
  size_t place(size_t from, size_t offset) const {
    const size_t step = offset / chunk_;
    return (from + 2 * ranks_ - step) % ranks_ * chunk_ + offset % chunk_;
  }

  bool receive(char* bytes, size_t& got) {
    const bool sums = got < (ranks_ - 1) * chunk_;
    char* const to = bytes + place(rank_ + ranks_ - 1, got);
    const size_t length = std::min(chunk_ - got % chunk_, kPiece) - odd_;
    const ssize_t done = recv(in_, sums ? piece_ + odd_ : to, length, 0);
    if (done == 0 || (done < 0 && errno != EAGAIN)) die("recv");
    if (done < 0) return false;
    if (!sums) {
      got += static_cast<size_t>(done);
      return true;
    }
    // A float may arrive in two parts: only whole ones are added.
    const size_t here = odd_ + static_cast<size_t>(done), whole = here / sizeof(float) * sizeof(float);
    auto* const sum = reinterpret_cast<float*>(to);
    for (size_t i = 0; i < whole / sizeof(float); ++i) {
      float value;
      std::memcpy(&value, piece_ + i * sizeof(float), sizeof value);
      sum[i] += value;
    }
    odd_ = here - whole;
    std::memmove(piece_, piece_ + whole, odd_);
    got += whole;
    return true;
  }

  void wait(bool toSend, bool toReceive) const {
    pollfd both[2] = {{out_, static_cast<short>(toSend ? POLLOUT : 0), 0},
                      {in_, static_cast<short>(toReceive ? POLLIN : 0), 0}};
    if (poll(both, 2, kPatienceMs) <= 0) die("poll");
  }

  size_t rank_, ranks_, chunk_;
  int in_, out_;
  size_t odd_ = 0;
  alignas(64) char piece_[kPiece];
};

}  // namespace

int main(int count, char** words) {
  if (count < 6) return std::fputs("usage: ring RANK ADDRESS ADDRESS... ELEMENTS REPEATS\n", stderr), 2;
  const size_t ranks = static_cast<size_t>(count) - 4, rank = std::strtoul(words[1], nullptr, 10);
  const size_t wished = std::strtoul(words[count - 2], nullptr, 10),
               repeats = std::strtoul(words[count - 1], nullptr, 10);
  const size_t elements = (wished + ranks - 1) / ranks * ranks;

  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in here = at(words[2 + rank]);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0 || listen(listener, 1) != 0)
    die("listen");
  const int out = connectTo(words[2 + (rank + 1) % ranks]);
  const int in = ready(accept(listener, nullptr, nullptr));
  if (!isControlled(in) || !isControlled(out)) return std::fputs("ring: another congestion control\n", stderr), 1;

  static std::vector<float> data(elements);
  static Ring ring(rank, ranks, elements, in, out), start(rank, ranks, ranks, in, out);
  std::vector<float> token(ranks);
  size_t wrong = 0;
  std::vector<double> times;
  for (size_t run = 0; run < repeats + 1; ++run) {  // the first one warms up
    for (size_t i = 0; i < elements; ++i) data[i] = static_cast<float>((i * 7 + rank * 3 + run) % 64);
    start.allReduce(token);  // nobody's turn begins before all are there
    const auto begin = std::chrono::steady_clock::now();
    ring.allReduce(data);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (run > 0) times.push_back(took.count());
    for (size_t i = 0; i < elements; ++i) {
      float sum = 0;
      for (size_t r = 0; r < ranks; ++r) sum += static_cast<float>((i * 7 + r * 3 + run) % 64);
      wrong += data[i] != sum ? 1 : 0;
    }
  }
  std::sort(times.begin(), times.end());
  if (rank == 0)
    std::printf("%.1f ms median, %.1f best, %zu wrong\n", times[times.size() / 2] * 1e3, times[0] * 1e3, wrong);
  return wrong == 0 ? 0 : 1;
}
