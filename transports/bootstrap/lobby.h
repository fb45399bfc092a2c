// A listener and the connections that have not proven themselves yet. Whoever is silent, slow or wrong loses its place;
// nobody waits for anybody here. A client that has sent its proof does not know yet whether that came in time: only a
// frame of the server's tells it.
#pragma once

#include <list>
#include <vector>

#include "transports/bootstrap/link.h"

namespace sparsecoll::bootstrap {

inline constexpr size_t kMostStrangers = 64;
inline constexpr uint64_t kHelloMs = 2000;

struct Guest {
  Claim claim;
  Link link;  // its peer is what the claim says
};

class Lobby {
 public:
  Lobby() = default;
  Lobby(Fd listener, Identity self) : listener_(std::move(listener)), self_(std::move(self)) {}

  bool open() const { return listener_.open(); }
  void close();

  void watch(std::vector<pollfd>& into) const;
  // By when serve() is to be called, whether or not something is ready.
  Deadline next() const;
  // Whether there was no descriptor for whoever came last.
  bool turnedAway() const { return turnedAway_; }
  // Admits who has come, and goes on with who is there. Those that have proven themselves come back.
  std::vector<Guest> serve();

 private:
  void admit();
  std::list<Stranger>::iterator idlest();
  void advance(std::vector<Guest>& proven);

  Fd listener_;
  Identity self_;
  std::list<Stranger> strangers_;     // oldest first
  Deadline rests_ = Deadline::in(0);  // no descriptors were left: nobody is admitted until then
  bool turnedAway_ = false;           // and nobody has been admitted since
};

}  // namespace sparsecoll::bootstrap
