// The engine over UCX: shared memory, TCP, InfiniBand, whatever libucp finds between the ranks. libucp is opened when
// it is first asked for; a build without its headers has the functions, too: they refuse.
#pragma once

#include <memory>

#include "core/status.h"
#include "core/wait.h"
#include "transports/messenger.h"

namespace sparsecoll::ucx {

// Of the UCX that can be used: 11300 is 1.13.0. Any thread. Errors: Unsupported (there is none, and why).
Result<int> version();

// oneHost: all ranks are on this one. Then they use its memory and nothing else, unless UCX_TLS says otherwise.
// Else its sockets are of the interface with this address, unless UCX_NET_DEVICES names others.
// Errors: Unsupported (no UCX, or one that is too old), SystemError, Timeout (a thread stays behind in UCX).
Result<std::unique_ptr<engine::Messenger>> makeMessenger(bool oneHost, const bootstrap::Address& at,
                                                         const Deadline& deadline);

}  // namespace sparsecoll::ucx
