// Lists with 16-bit indices inside their chunks.
#pragma once

#include "core/kernels.h"

namespace sparsecoll::host {

void packChunks(const ListView& list, uint64_t chunk, std::byte* frame, const FrameLayout& layout,
                sparsecollDataType_t type);
Status unpackChunks(const std::byte* frame, const FrameLayout& layout, uint64_t chunk, uint64_t perChunk,
                    sparsecollDataType_t type, const List& to);

}  // namespace sparsecoll::host
