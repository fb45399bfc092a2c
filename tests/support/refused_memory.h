// operator new that refuses the i-th allocation, in any thread of the program that has refused_memory.cpp. Foreign
// libraries, which take memory by malloc, keep theirs.
#pragma once

#include <atomic>
#include <cstdint>

namespace sparsecoll::test {

// -1: none is refused; else so many go through, and then one does not.
extern std::atomic<int64_t> memoryLeft;

}  // namespace sparsecoll::test
