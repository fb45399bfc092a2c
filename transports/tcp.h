// The engine over TCP, which needs nothing but the system's sockets: a second connection between every two ranks, for
// data alone, proven with the same secret as the one by which they watch each other.
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
