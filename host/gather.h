// acc's values at the entries of lists.
#pragma once

#include <span>

#include "core/kernels.h"

namespace sparsecoll::host {

Status gather(const void* acc, sparsecollDataType_t type, uint64_t n, std::span<const ListView> lists,
              std::span<const List> to);

}  // namespace sparsecoll::host
