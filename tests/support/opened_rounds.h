// Rank 0's rounds over a table of functions, opened, as a communicator has them.
#pragma once

#include <memory>
#include <utility>

#include "host/host_kernels.h"
#include "tests/support/catch.h"
#include "transports/engine/rounds.h"

namespace sparsecoll::engine {

class Opened {
 public:
  Opened(int ranks, const sparsecollEngine_t& table, std::unique_ptr<PeerWatch> watch = nullptr,
         const MessengerCalls& requests = {}, uint64_t abortTimeoutMs = 0)
      : state(setupOf(ranks, requests, abortTimeoutMs), table), rounds(state, std::move(watch)) {
    REQUIRE(rounds.open().ok());
  }
  ~Opened() {
    rounds.close();
    state.port.close(Deadline::in(60000));
  }

  State state;
  Rounds rounds;
  Operation operation;

  void begin() {
    operation.sequence = 1;
    rounds.begin(operation);
  }

 private:
  static EngineSetup setupOf(int ranks, const MessengerCalls& requests, uint64_t abortTimeoutMs) {
    EngineSetup setup;
    setup.abortTimeoutMs = abortTimeoutMs;
    setup.calls = requests;
    setup.ranks = ranks;
    setup.kernels = host::makeHostKernels();
    setup.budget = std::make_shared<MemoryBudget>(0);
    return setup;
  }
};

}  // namespace sparsecoll::engine
