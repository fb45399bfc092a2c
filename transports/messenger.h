// One rank's messages to the others, as an engine of the library's carries them: UCX (ucx.h) or sockets (tcp.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "transports/bootstrap/mesh.h"
#include "transports/engine/messenger_calls.h"
#include "transports/pace.h"

namespace sparsecoll::engine {

// Longest wait, once a table is released, for what was sent last to leave.
constexpr uint64_t kMostCloseMs = 10000;

class Messenger {
 public:
  virtual ~Messenger() = default;
  // What the other ranks have to know before they connect.
  virtual std::vector<std::byte> card() const { return {}; }
  // Collective over the exchange's ranks, which have their control connections already. Errors: the exchange's,
  // Timeout, PeerFailed, AuthFailed, SystemError (no way to a rank).
  virtual Status connect(bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh, const Deadline& deadline) = 0;
  // Before the table is used: progress must not sleep past the pace's times.
  virtual void wakeFor(std::shared_ptr<const Pace>) {}
  // The same: nor while this is set.
  virtual void keepAwake(std::shared_ptr<const std::atomic<bool>> awake) = 0;
  virtual MessengerCalls calls() const { return {}; }
  // The messages as a table of functions; whose release deletes this.
  virtual sparsecollEngine_t table() = 0;
};

}  // namespace sparsecoll::engine
