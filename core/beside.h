// Calls of other libraries that may never return: a thread makes them that can be left behind.
#pragma once

#include <functional>

#include "core/wait.h"

namespace sparsecoll {

// Whether body, which throws nothing, has ended by the deadline. Else it goes on by itself, so all that it uses has to
// live as long. Throws std::bad_alloc and std::system_error where it could not begin.
bool runBeside(std::function<void()> body, const Deadline& deadline);

}  // namespace sparsecoll
