#pragma once

#include <cstddef>

namespace sparsecoll::engine {

// A request of a table that is under way goes on with other memory, where what is to be sent lies, too.
using MoveRequest = void (*)(void* request, std::byte* to);

}  // namespace sparsecoll::engine
