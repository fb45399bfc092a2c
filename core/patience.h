// Waiting for what can only be asked: look again at once for a moment, then let other threads run in between, then
// sleep. Sleeps grow with the time that nothing has happened, so they never make a wait longer by more than a part of
// it, and ranks that share a core leave it to the one that has something to do.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/wait.h"

namespace sparsecoll {

class Patience {
 public:
  explicit Patience(const Deadline& deadline) : deadline_(deadline) {}

  // Something has happened.
  void renew() { looks_ = 0; }
  // To be called between two looks. false: the deadline has passed. latest: no sleep goes on past it.
  bool rest(std::chrono::steady_clock::time_point latest = std::chrono::steady_clock::time_point::max());

 private:
  const Deadline deadline_;
  uint32_t looks_ = 0;  // since something has happened
  std::chrono::steady_clock::time_point idleSince_;
};

}  // namespace sparsecoll
