// Ranges that tracing tools show (NVTX). Where the toolkit has no NVTX, and where no tool listens, they cost nothing.
#pragma once

namespace sparsecoll::cuda {

// Opens and closes a range of the calling thread; they nest.
void pushRange(const char* name);
void popRange();

}  // namespace sparsecoll::cuda
