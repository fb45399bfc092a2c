// How ranks that have no network between them yet tell each other what they need to make one.
#pragma once

#include <optional>
#include <vector>

#include "core/wait.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/crypto.h"

namespace sparsecoll::bootstrap {

using Parts = std::vector<std::vector<std::byte>>;

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // An address of this machine that the other ranks reach, port 0; nothing: not known.
  virtual std::optional<Address> reachedAt() const { return std::nullopt; }
  // Collective: every rank's part, by rank. Parts may differ in length. Errors: Timeout, PeerFailed, and why another
  // rank gave up.
  virtual Result<Parts> allgather(Bytes own, const Deadline& deadline) = 0;
  // Whether a rank is known to have ended.
  virtual bool isGone(int) const { return false; }
  // A rank without which the others begin anew, whatever it has sent before, so that who waits for them waits in vain;
  // -1: none is known.
  virtual int lost() const { return -1; }
  // Whether this rank has aborted what the exchange is part of.
  virtual bool isAborted() const { return false; }
  // This rank takes no part any more. Exchanges that cannot tell the others leave them to their deadlines.
  virtual void giveUp(const Failure&) {}
};

// "2, 5, 7", as far as there is room.
Text<128> listOf(std::span<const int> ranks);

}  // namespace sparsecoll::bootstrap
