// A proven connection between every two ranks.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transports/bootstrap/exchange.h"
#include "transports/bootstrap/link.h"

namespace sparsecoll::bootstrap {

// What a group of ranks is made from.
struct MeshSetup {
  Key key;
  JobId job{};
  std::string interfaceName;  // to listen at; empty: loopback where all ranks share a host, else where they are reached
  // What else this rank has to tell the others, once it is known whether all share a host, and where it will listen.
  std::function<Result<std::vector<std::byte>>(bool oneHost, const Address& at)> card;
};

struct Mesh {
  int rank = 0;
  int ranks = 1;
  Key key;
  JobId job{};
  Address at;               // where this rank listened, port 0
  std::vector<Link> links;  // by rank; the own one is not open
  Parts cards;              // by rank
};

// Collective over the ranks of a mesh: another connection between every two of them, proven in the same way, for bytes
// that no key protects from there on. By rank; the own one is not open. Errors: as makeMesh.
Result<std::vector<Fd>> makeDataConnections(Exchange& exchange, const Mesh& mesh, const Deadline& deadline);

// Collective over the exchange's ranks. No listener is left when it returns. Errors: the exchange's, Timeout (names the
// ranks that were not reached), PeerFailed, AuthFailed, InvalidArgument (interface), SystemError.
Result<Mesh> makeMesh(Exchange& exchange, const MeshSetup& setup, const Deadline& deadline);

// Why a rank of the mesh may not be reachable that was so far: PeerFailed if one has ended, Aborted if this one has.
// Waits a little for the news, which may come later than the loss. Ok: nothing is known.
Status whyUnreachable(const Exchange& exchange, const Mesh& mesh);

// A key and a job of the ranks' own, for exchanges that have none: what all of them drew, together. root: what they
// share already; without it whoever hears the exchange knows the key.
struct MeshSecret {
  Key key;
  JobId job{};
};
Result<MeshSecret> drawTogether(Exchange& exchange, const Deadline& deadline, const Key& root = Key());

}  // namespace sparsecoll::bootstrap
