#pragma once

#include <cstddef>
#include <cstdint>

namespace sparsecoll::engine {

// What the library's own messengers do with requests of their tables, beside what a table can.
struct RequestCalls {
  // A request that is under way goes on with other memory, where what is to be sent lies, too. nullptr: requests keep
  // their memory, which is never the caller's then.
  void (*move)(void* request, std::byte* to) = nullptr;
  // Whether anything of a send has left. nullptr: nobody can tell.
  bool (*hasBegun)(const void* request) = nullptr;
  // About so many bytes are about to be sent. nullptr: the engine has no use for it.
  void (*expect)(void* user, uint64_t bytes) = nullptr;
};

}  // namespace sparsecoll::engine
