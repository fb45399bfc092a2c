#pragma once

#include <cstddef>
#include <cstdint>

#include "core/wait.h"

namespace sparsecoll::engine {

// What the library's own messengers do beside what a table can.
struct MessengerCalls {
  // A request that is under way goes on with other memory, where what is to be sent lies, too. nullptr: requests keep
  // their memory, which is never the caller's then.
  void (*move)(void* request, std::byte* to) = nullptr;
  // Whether anything of a send has left. nullptr: nobody can tell.
  bool (*hasBegun)(const void* request) = nullptr;
  // Whether messages to the peer leave this host, and that about so many bytes of such are about to be sent; frames: in
  // how many messages, each to another peer, which wait for nothing; 0: in others. nullptr: the messenger has no use for
  // it. user: the table's.
  bool (*leavesHost)(const void* user, int peer) = nullptr;
  void (*expect)(void* user, uint64_t bytes, size_t frames) = nullptr;
  // That what is sent next may wait for what is sent to the same peer after it. nullptr: each leaves at once.
  void (*joinNext)(void* user) = nullptr;
  // Whether progress sleeps until something comes.
  bool sleeps = false;
  // That the table is about to be released: what was sent last has until then to leave. nullptr: release does not wait.
  void (*closeBy)(void* user, const Deadline& latest) = nullptr;
};

}  // namespace sparsecoll::engine
