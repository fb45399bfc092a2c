// How much each socket of a rank may hold of what has not reached the peer. On a slow and short link it is little: what
// the link takes in half a millisecond, at least 64 KiB. Where more than eight sockets share 512 KiB it may be less,
// and with BBR, but not less than 32 KiB. By itself Linux lets a socket hold megabytes. From there on it is chance to
// which rank bytes go first, and queues of switches overflow (docs/decisions/0062, 0071). Where all that a rank sends
// at once is so little that queues hold it, or is a few frames, each socket may hold 384 KiB, and those of a rank with
// few peers what Linux lets them (docs/decisions/0074).
//
// All sockets have the same room: a rank sends to all peers at once, and needs something from each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparsecoll::tcp {

// Rates, each seen with a weight.
class Rates {
 public:
  void add(double rate, uint64_t weight);
  uint64_t weight() const { return weight_; }
  // Half of the weight lies below, within a fifth. Moments when nothing went, and when much went at once, do not move
  // it.
  double median() const;
  void clear() { *this = {}; }

 private:
  static constexpr size_t kSteps = 96;
  std::array<uint64_t, kSteps> weights_{};
  uint64_t weight_ = 0;
};

// What the system knows of a connection.
struct Path {
  bool leavesHost = false;
  double bytesPerSecond = 0;  // at which the peer has received; 0: not known, or there was too little to send
  uint64_t roundTripUs = 0;   // the shortest
  bool bbr = false;           // its congestion control is BBR
};
Path pathOf(int socket);

class Room {
 public:
  explicit Room(Path (*see)(int socket) = pathOf) : see_(see) {}

  // A connection. Returns false if it stays inside this host, whose connections are left as they are.
  bool add(int socket);
  // The rank has sent so many bytes to other hosts. Now and then this sets the room of all sockets, and takes what the
  // drains say. Returns whether it is another one.
  bool note(uint64_t sent, Rates& drains);
  bool limits() const { return set_ != 0; }
  // So many bytes are still leaving, and so many more are about to, in so many frames; 0: in other messages, or others
  // use the link, too. Where nothing is about to leave all stays as it is. Returns whether what sockets hold changes.
  bool expect(uint64_t leaving, uint64_t more, size_t frames);

  // SO_SNDBUF for each of so many sockets, through each of which so many bytes a second go, if it is `now`; 0: what
  // Linux thinks best.
  static uint64_t wanted(double bytesPerSecond, uint64_t roundTripUs, size_t sockets, uint64_t now, bool bbr);

 private:
  // That on a slow link, whatever its rate.
  static uint64_t least(size_t sockets, bool bbr);
  void look();
  bool set(uint64_t room);
  void apply() const;
  size_t few() const;

  Path (*const see_)(int socket);
  std::vector<int> sockets_;
  uint64_t nextLook_ = 0;     // once so many bytes are sent
  uint64_t looks_ = 0;        // since the latest decision
  Rates rates_;               // that they found
  uint64_t roundTripUs_ = 0;  // the longest
  bool bbr_ = false;          // some socket uses it
  uint64_t set_ = 0;          // 0: what Linux thinks best
  bool isMuch_ = true;        // what is to leave, and not in a few frames: sockets are kept to set_
};

}  // namespace sparsecoll::tcp
