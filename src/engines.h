// The engines that ranks of several processes meet over, and how they agree on one.
//
// Each rank says in one all-gather what it was told to use and what it can use. All see the same, so all choose the
// same: the engine that some rank names, else the first in this order that every rank can use. A rank without the
// chosen engine would else keep all waiting to their deadlines.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "core/wait.h"
#include "transports/bootstrap/exchange.h"

namespace sparsecoll {

// As messages call it: "NCCL".
const char* engineName(sparsecollTransport_t engine);

// Best first.
inline constexpr std::array kMeetingEngines = {sparsecollTransportNccl, sparsecollTransportUcx, sparsecollTransportTcp};

// What a process has of an engine.
struct Ability {
  int version = 0;  // the engine's own
  Text<112> lack;   // why it cannot be used; empty: it can
};

// What a rank says when ranks meet.
struct Candidate {
  uint32_t version = SPARSECOLL_VERSION_CODE;
  sparsecollTransport_t named = sparsecollTransportAuto;
  bool onDevice = false;
  uint64_t host = 0;                                      // equal for ranks of one host
  Text<32> deviceName;                                    // equal for ranks of one device of a host; empty: not known
  std::array<Ability, kMeetingEngines.size()> abilities;  // as kMeetingEngines
};

// This process's. Errors: InvalidArgument (SPARSECOLL_DISABLE_ENGINES has a word that is no engine's).
Result<Ability> abilityHere(sparsecollTransport_t engine, bool onDevice);
// device: SPARSECOLL_HOST or an ordinal.
Result<Candidate> candidateHere(sparsecollTransport_t named, int device);

// Whether the engine moves vectors that are there. Errors: InvalidArgument.
Status checkMemory(sparsecollTransport_t engine, bool onDevice);

struct Choice {
  sparsecollTransport_t engine = sparsecollTransportAuto;
  Text<128> reason;
};

// By rank. Errors: Mismatch (version, backend, transport), Unsupported (nothing that all can use).
Result<Choice> choose(std::span<const Candidate> candidates);

// Collective over the exchange's ranks: the same on all of them. Errors: those, and the exchange's.
Result<Choice> agreeOnEngine(bootstrap::Exchange& exchange, const Candidate& own, const Deadline& deadline);

}  // namespace sparsecoll
