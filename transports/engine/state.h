// What a rank's engine consists of, shared by the transport and the windows that may outlive it.
#pragma once

#include <memory>
#include <mutex>

#include "core/memory.h"
#include "transports/engine.h"
#include "transports/engine/lanes.h"
#include "transports/engine/port.h"

namespace sparsecoll::engine {

struct State {
  State(const EngineSetup& from, const sparsecollEngine_t& table)
      : setup(from),
        slotBytes(slotBytesOf(from.kind, from.ranks)),
        port(table, from.pace, from.calls),
        lanes(port, from.rank, from.ranks, slotBytes, placesOf(from.kind)) {}

  const EngineSetup setup;
  const uint64_t slotBytes;  // of envelopes
  std::mutex mutex;          // guards what follows: whoever holds it may use the table
  Port port;
  Lanes lanes;
};

// Of frames' memory, see RetiringWindow.
struct WindowKeeper {
  std::shared_ptr<State> state;

  void expectRetirement() {
    const std::lock_guard lock(state->mutex);
    state->port.expectRetirement();
  }
  void retire(Buffer memory) noexcept {
    const std::lock_guard lock(state->mutex);
    state->port.retire(std::move(memory));
  }
};

}  // namespace sparsecoll::engine
