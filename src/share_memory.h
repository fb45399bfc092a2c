// Ranks of one host read each other's memory where that may be, instead of sending messages.
#pragma once

#include "src/communicator.h"

namespace sparsecoll {

// Collective, once ranks have met over an engine that can. Those of a host that may share memory do, unless one of them
// cannot map another one's: that is no error, and the log tells why. Errors: what an operation's are, OutOfMemory.
Status shareMemory(Communicator& comm);

}  // namespace sparsecoll
