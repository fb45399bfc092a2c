// How much each socket of a rank may hold of what has not reached the peer: what its link takes in a quarter of a
// millisecond, and twice what is on the way. By itself Linux lets it hold megabytes. From there on messages to one rank
// pass those to another as it happens, and queues of switches overflow: 1 MiB among four ranks at 1 Gbit/s took 15.7 ms
// instead of 14.0, at 100 Mbit/s 158 ms instead of 134, where 133.6 is what the link allows.
//
// All sockets have the same room, since a rank waits for the slowest of its peers.
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

class Room {
 public:
  // A connection. One inside this host is left as it is.
  void add(int socket);
  // The rank has sent so many bytes since the connections were made. Now and then this sets the room of all, and takes
  // what the drains say.
  void note(uint64_t sent, Rates& drains);
  // For a socket out of which so many bytes a second go, with so long a way there and back.
  static uint64_t wanted(double bytesPerSecond, uint64_t roundTripUs);

 private:
  void look();
  void set(double bytesPerSecond);

  std::vector<int> sockets_;
  uint64_t nextLook_ = 0;     // once so many bytes are sent
  Rates rates_;               // as Linux sees them
  uint64_t roundTripUs_ = 0;  // the longest
  uint64_t set_ = 0;          // 0: what Linux thinks best, as long as that was never too much
};

}  // namespace sparsecoll::tcp
