#include "transports/tcp/room.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace sparsecoll::tcp {

namespace {

constexpr double kStepsPerOctave = 3;
constexpr double kFirstOctave = 10;  // 1 kB/s

constexpr uint32_t kLongestSegment = 9000;  // between hosts; inside one it is longer

// Links that are faster, or longer, are left to Linux: there this thread would have to come by too often, or what may
// be on the way would be too little if the rate was taken for too low.
constexpr double kSlow = 400e6;      // bytes a second of all sockets
constexpr double kNotSlow = 600e6;   // where a limit ends
constexpr uint64_t kShortUs = 1000;  // there and back

constexpr double kTime = 0.25e-3;  // seconds
constexpr uint64_t kLeast = 16u << 10, kLeastOfFew = 32u << 10;
constexpr uint64_t kTogether = 512u << 10;  // a queue on the way takes so much, of all sockets
constexpr uint64_t kMost = 192u << 10;      // most systems let a program ask for no more
constexpr size_t kFew = 3, kFewOfBbr = 1;   // so many senders do not overflow the queue before their peer

// Before there is a limit: bytes of each socket between two looks, how many looks and rates it takes, and how many
// times longer it is to the next look at links that need none.
constexpr uint64_t kLookAfter = 64u << 10;
constexpr uint64_t kLooks = 8;
constexpr uint64_t kRates = 16;
constexpr uint64_t kPatience = 64;
// Afterwards: bytes that have to be drained.
constexpr uint64_t kDrained = 512u << 10;

}  // namespace

Path pathOf(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  if (length < offsetof(tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate) return {};  // an old kernel
  const bool known = info.tcpi_delivery_rate_app_limited == 0;
  char control[16] = {};  // TCP_CA_NAME_MAX
  length = sizeof control;
  (void)getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control, &length);
  return {info.tcpi_snd_mss <= kLongestSegment, known ? static_cast<double>(info.tcpi_delivery_rate) : 0,
          info.tcpi_min_rtt, std::string_view(control, sizeof control).starts_with("bbr")};
}

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

// BBR fills the link with less, and more only fills queues.
uint64_t Room::least(size_t sockets, bool bbr) {
  const uint64_t share = kTogether / 2 / std::max<size_t>(sockets, 1);
  return bbr ? kLeast : std::clamp(share, kLeast, kLeastOfFew);
}

uint64_t Room::wanted(double bytesPerSecond, uint64_t roundTripUs, size_t sockets, uint64_t now, bool bbr) {
  const double all = bytesPerSecond * static_cast<double>(sockets);
  if (roundTripUs > kShortUs || all > (now == 0 ? kSlow : kNotSlow)) return 0;
  const double bytes = bytesPerSecond * (2e-6 * static_cast<double>(roundTripUs) + kTime);
  const auto room =
      static_cast<uint64_t>(std::clamp(bytes, static_cast<double>(least(sockets, bbr)), static_cast<double>(kMost)));
  const bool alike = now != 0 && room <= now + now / 2 && room >= now - now / 3;
  return alike ? now : room;
}

bool Room::add(int socket) {
  const Path path = see_(socket);
  if (!path.leavesHost) return false;
  bbr_ = bbr_ || path.bbr;
  sockets_.push_back(socket);
  return true;
}

bool Room::note(uint64_t sent, Rates& drains) {
  if (sockets_.empty()) return false;
  if (set_ != 0) {
    // A socket that is not limited grows while it is full, and has more of the link while others have nothing to send.
    if (!isMuch_) drains.clear();
    if (drains.weight() < kDrained) return false;
    const bool changed = set(wanted(drains.median(), roundTripUs_, sockets_.size(), set_, bbr_));
    drains.clear();
    return changed;
  }
  if (sent < nextLook_) return false;
  look();
  nextLook_ = sent + kLookAfter * sockets_.size();
  if (looks_ < kLooks || rates_.weight() < kRates) return false;
  const bool changed = set(wanted(rates_.median(), roundTripUs_, sockets_.size(), 0, bbr_));
  if (set_ == 0) nextLook_ += kPatience * kLookAfter * sockets_.size();
  looks_ = 0;
  rates_.clear();
  drains.clear();
  return changed;
}

void Room::look() {
  ++looks_;
  for (const int socket : sockets_) {
    const Path path = see_(socket);
    if (path.bytesPerSecond == 0) continue;
    rates_.add(path.bytesPerSecond, 1);
    roundTripUs_ = std::max(roundTripUs_, path.roundTripUs);
  }
}

bool Room::expect(uint64_t leaving, uint64_t more, size_t frames) {
  const size_t peers = leaving > kTogether ? sockets_.size() : frames;  // what is leaving may be for all
  const bool areFew = frames != 0 && peers <= few();
  const bool isMuch = !areFew && leaving + more > kTogether;
  if (set_ == 0 || more == 0 || isMuch == isMuch_) return false;
  isMuch_ = isMuch;
  apply();
  return true;
}

bool Room::set(uint64_t room) {
  if (room == set_) return false;
  set_ = room;
  isMuch_ = isMuch_ || room == 0;
  apply();
  return true;
}

size_t Room::few() const { return bbr_ ? kFewOfBbr : kFew; }

// Linux doubles the value. It counts what it needs for itself, too, but of long writes that is little.
void Room::apply() const {
  const bool isLimited = set_ != 0 && isMuch_;
  [[maybe_unused]] const bool mayGrow = set_ == 0 || (!isMuch_ && sockets_.size() <= few());
  for (const int socket : sockets_) {
    const int value = static_cast<int>(isLimited ? set_ : kMost);
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, sizeof value);
#ifdef SO_BUF_LOCK
    const int none = 0;  // Linux chooses again, from 5.16 on
    if (mayGrow) (void)setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &none, sizeof none);
#endif
  }
}

}  // namespace sparsecoll::tcp
