// Waiting for many descriptors at once, which an epoll descriptor knows.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstddef>
#include <span>

#include "core/wait.h"

namespace sparsecoll {

// Sleeps until some of the descriptors are ready, at most to the deadline, rounded up to a millisecond; how many of the
// events were filled in. A signal may end it early, with none.
size_t awaitEvents(int epoll, std::span<epoll_event> events, const Deadline& deadline);

// Waits until an event can be taken, at most so long, which is less than a second. Unlike awaitEvents it does not round
// up to milliseconds.
void awaitAnyEvent(int epoll, std::chrono::nanoseconds most);

}  // namespace sparsecoll
