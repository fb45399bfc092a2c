// How fast this process's ranks may send, by the environment.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/status.h"

namespace sparsecoll {

// Bits per second; 0: as fast as they can, because the variable is not set. Errors: InvalidArgument.
Result<uint64_t> sendRate();

// Of the variable's text. Errors: InvalidArgument.
Result<uint64_t> readRate(std::string_view text);

}  // namespace sparsecoll
