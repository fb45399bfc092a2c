// A switch in user space: one TUN device in each host's namespace; every sender's link has a rate, every packet a delay
// and a chance to get lost. For what this kernel's queues cannot do (netem is often missing).
// usage: switch HOSTS RATE DELAY_US LOSS      RATE as tc writes it, or none; prints "up" when all devices are
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kMtu = 9000;        // with 1500 the system calls alone hold a gigabit back
constexpr size_t kOverhead = 38;  // what Ethernet adds to a packet on the wire
constexpr double kQueueBytes = 1 << 20;
constexpr int kBurst = 64;  // packets of one host before the next one's turn

[[noreturn]] void die(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

double bytesPerSecond(const std::string& rate) {
  if (rate == "none") return 0;
  char* unit = nullptr;
  const double number = std::strtod(rate.c_str(), &unit);
  for (const auto& [name, factor] : {std::pair{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}})
    if (std::strcmp(unit, name) == 0 && number > 0) return number * factor / 8;
  std::fprintf(stderr, "switch: no such rate: %s\n", rate.c_str());
  std::exit(2);
}

struct Packet {
  Clock::time_point due;
  uint64_t number;  // among packets that are due at once the first one leaves first
  size_t to;
  std::vector<char> bytes;
  bool operator>(const Packet& other) const { return std::tie(due, number) > std::tie(other.due, other.number); }
};

// A device in the namespace of host `number`, which counts from 1.
int openDevice(size_t number) {
  const std::string name = "host" + std::to_string(number);
  const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) die(name);
  close(space);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  std::strcpy(request.ifr_name, "eth0");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) die("/dev/net/tun");
  const std::string up = "ip addr add 10.77.0." + std::to_string(number) + "/24 dev eth0 && ip link set eth0 mtu " +
                         std::to_string(kMtu) + " txqueuelen 1000 up";
  if (std::system(up.c_str()) != 0) die("ip");
  return device;
}

class Switch {
 public:
  Switch(std::vector<int> devices, double rate, Seconds delay, double loss)
      : devices_(std::move(devices)), rate_(rate), delay_(delay), lost_(loss), free_(devices_.size(), Clock::now()) {}

  [[noreturn]] void run() {
    for (;;) {
      for (size_t from = 0; from < devices_.size(); ++from) takeFrom(from);
      deliver();
      sleep();
    }
  }

 private:
  // A link that is far behind is not read from, so the host's own queue fills, as that of a real card would.
  Clock::time_point opens(size_t from) const {
    if (rate_ == 0) return {};
    return free_[from] - std::chrono::duration_cast<Clock::duration>(Seconds(kQueueBytes / rate_));
  }

  void takeFrom(size_t from) {
    for (int i = 0; i < kBurst && Clock::now() >= opens(from); ++i) {
      const ssize_t length = read(devices_[from], packet_.data(), packet_.size());
      if (length < 20) return;
      if (packet_[0] >> 4 != 4) continue;                                     // IPv4 only
      const size_t to = static_cast<unsigned char>(packet_[19]) - size_t{1};  // the address ends in the host's number
      if (to >= devices_.size() || lost_(random_)) continue;
      const auto now = Clock::now();
      if (rate_ != 0) {
        const Seconds time((static_cast<double>(length) + kOverhead) / rate_);
        free_[from] = std::max(free_[from], now) + std::chrono::duration_cast<Clock::duration>(time);
      }
      const auto due = (rate_ != 0 ? free_[from] : now) + std::chrono::duration_cast<Clock::duration>(delay_);
      waiting_.push({due, count_++, to, {packet_.data(), packet_.data() + length}});
    }
  }

  void deliver() {
    for (; !waiting_.empty() && waiting_.top().due <= Clock::now(); waiting_.pop()) {
      const Packet& packet = waiting_.top();
      // A device that is down drops it, as it would on a wire.
      if (write(devices_[packet.to], packet.bytes.data(), packet.bytes.size()) < 0) continue;
    }
  }

  void sleep() {
    const auto now = Clock::now();
    auto until = now + std::chrono::milliseconds(50);
    if (!waiting_.empty()) until = std::min(until, waiting_.top().due);
    std::vector<pollfd> polled;
    for (size_t from = 0; from < devices_.size(); ++from) {
      const bool open = now >= opens(from);
      polled.push_back({devices_[from], static_cast<short>(open ? POLLIN : 0), 0});
      if (!open) until = std::min(until, opens(from));
    }
    if (until <= now) return;
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - now).count();
    const timespec time{left / 1'000'000'000, left % 1'000'000'000};
    ppoll(polled.data(), polled.size(), &time, nullptr);
  }

  std::vector<int> devices_;
  double rate_;
  Seconds delay_;
  std::bernoulli_distribution lost_;
  std::mt19937_64 random_;  // the same seed always: the same packets get lost
  std::vector<Clock::time_point> free_;
  std::priority_queue<Packet, std::vector<Packet>, std::greater<>> waiting_;
  uint64_t count_ = 0;
  std::array<char, 65536> packet_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 5) return std::fputs("usage: switch HOSTS RATE DELAY_US LOSS\n", stderr), 2;
  const size_t hosts = std::strtoul(words[1], nullptr, 10);
  const double rate = bytesPerSecond(words[2]);
  const Seconds delay(std::strtod(words[3], nullptr) * 1e-6);
  const double loss = std::strtod(words[4], nullptr);
  prctl(PR_SET_TIMERSLACK, 1000);
  std::vector<int> devices;
  for (size_t number = 1; number <= hosts; ++number) devices.push_back(openDevice(number));
  std::puts("up");
  std::fflush(stdout);
  Switch(std::move(devices), rate, delay, loss).run();
}
