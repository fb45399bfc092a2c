// Ranks of one host read each other's memory where that may be, instead of sending messages.
#pragma once

#include "src/communicator.h"

namespace sparsecoll {

// Collective, once ranks have met over an engine of messages. Those of a host share memory, or none of its ranks does:
// that is no error, and the log tells why. Errors: what an operation's are, OutOfMemory.
Status shareMemory(Communicator& comm);

}  // namespace sparsecoll
