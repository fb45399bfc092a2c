// Lists that need no search: drawn indices, and indices inside chunks.
#pragma once

#include "core/kernels.h"

namespace sparsecoll::host {

void draw(const CutArgs& args);
void packChunks(const ListView& list, uint64_t chunk, std::byte* frame, const FrameLayout& layout,
                sparsecollDataType_t type);
Status unpackChunks(const std::byte* frame, const FrameLayout& layout, uint64_t chunk, uint64_t perChunk,
                    sparsecollDataType_t type, const List& to);

}  // namespace sparsecoll::host
