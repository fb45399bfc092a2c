// Waiting for descriptors: the waiting primitive for what other processes do.
#pragma once

#include <poll.h>

#include <span>

#include "core/wait.h"

namespace sparsecoll {

// Sleeps until one of the descriptors is ready: true; false at the deadline. Signals do not end it.
bool awaitAny(std::span<pollfd> watched, const Deadline& deadline);

}  // namespace sparsecoll
