// Memory that a device reads and writes by the host's pointers. Once it is there everything that the program allocates
// lies in it, so that tests written for the emulation hand a real device what they would hand that.
#pragma once

#include <cstddef>

namespace sparsecoll::test {

// Once, before other threads. Returns "" or why there is none; then everything stays in ordinary memory.
const char* startReachableMemory(size_t bytes);
// nullptr if there is no room.
void* takeReachable(size_t bytes, size_t alignment);
void giveBackReachable(void* memory);
bool isReachable(const void* memory);

}  // namespace sparsecoll::test
