// The engine over TCP, which needs nothing but the system's sockets: a second connection between every two ranks, for
// data alone, proven with the same secret as the one by which they watch each other. It is our own so that a build with
// libsodium has an engine, whatever is installed; with libfabric 1.17 a receive from a dead process stayed open, and a
// send to a stopped one could not be cancelled.
#pragma once

#include <memory>

#include "core/status.h"
#include "transports/messenger.h"

namespace sparsecoll::tcp {

// Of what ranks say on their data connections. Any thread. Errors: Unsupported (no libsodium, so nobody can prove
// anything), SystemError.
Result<int> version();

// Errors: SystemError.
Result<std::unique_ptr<engine::Messenger>> makeMessenger();

}  // namespace sparsecoll::tcp
