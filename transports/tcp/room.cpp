#include "transports/tcp/room.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>

namespace sparsecoll::tcp {

namespace {

constexpr double kStepsPerOctave = 3;
constexpr double kFirstOctave = 10;  // 1 kB/s

constexpr uint64_t kLeast = 16u << 10;
constexpr uint64_t kMost = 192u << 10;  // most systems let a program ask for no more
// A first room from here on is none: the link is fast enough for what Linux thinks, and waking up more often would cost
// more.
constexpr uint64_t kAmple = 48u << 10;
constexpr double kTime = 0.25e-3;           // seconds
constexpr uint32_t kLongestSegment = 9000;  // between hosts; inside one it is longer

// Before there is a room: bytes of each socket between two looks, how many rates one needs, and how many times longer
// it takes to the next look at links that need no room.
constexpr uint64_t kLookAfter = 64u << 10;
constexpr uint64_t kLooks = 16;
constexpr uint64_t kPatience = 64;
// Afterwards: bytes that have to be drained.
constexpr uint64_t kDrained = 512u << 10;

bool infoOf(int socket, tcp_info& info) {
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return length >= offsetof(tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate;  // not an old kernel
}

}  // namespace

void Rates::add(double rate, uint64_t weight) {
  const double step = kStepsPerOctave * (std::log2(std::max(rate, 1.0)) - kFirstOctave);
  weights_[static_cast<size_t>(std::clamp<double>(step, 0, kSteps - 1))] += weight;
  weight_ += weight;
}

double Rates::median() const {
  size_t step = 0;
  for (uint64_t below = weights_[0]; 2 * below < weight_; below += weights_[step]) ++step;
  return std::exp2((static_cast<double>(step) + 0.5) / kStepsPerOctave + kFirstOctave);
}

uint64_t Room::wanted(double bytesPerSecond, uint64_t roundTripUs) {
  const double bytes = bytesPerSecond * (2e-6 * static_cast<double>(roundTripUs) + kTime);
  return static_cast<uint64_t>(std::clamp<double>(bytes, kLeast, kMost));
}

void Room::add(int socket) {
  tcp_info info{};
  if (infoOf(socket, info) && info.tcpi_snd_mss <= kLongestSegment) sockets_.push_back(socket);
}

void Room::note(uint64_t sent, Rates& drains) {
  if (sockets_.empty()) return;
  if (set_ != 0) {
    if (drains.weight() < kDrained) return;
    set(drains.median());
    return drains.clear();
  }
  if (sent < nextLook_) return;
  look();
  uint64_t until = kLookAfter * sockets_.size();
  if (rates_.weight() >= kLooks) {
    set(rates_.median());
    rates_.clear();
    drains.clear();
    until *= kPatience;
  }
  nextLook_ = sent + until;
}

// A socket that was given too little to send says nothing of its link.
void Room::look() {
  for (const int socket : sockets_) {
    tcp_info info{};
    if (!infoOf(socket, info) || info.tcpi_delivery_rate == 0 || info.tcpi_delivery_rate_app_limited != 0) continue;
    rates_.add(static_cast<double>(info.tcpi_delivery_rate), 1);
    roundTripUs_ = std::max<uint64_t>(roundTripUs_, info.tcpi_min_rtt);
  }
}

void Room::set(double bytesPerSecond) {
  const uint64_t room = wanted(bytesPerSecond, roundTripUs_);
  const bool differs = set_ == 0 ? room < kAmple : room > set_ + set_ / 2 || room < set_ - set_ / 3;
  if (!differs) return;
  set_ = room;
  const int value = static_cast<int>(room);  // Linux takes twice as much, for what it needs itself
  for (const int socket : sockets_) (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, sizeof value);
}

}  // namespace sparsecoll::tcp
