// Memory that a device reads and writes by the host's pointers. Once it is there everything that the program allocates
// lies in it, so that tests written for the emulation hand a real device what they would hand that.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sparsecoll::test {

// Once, before other threads. Returns "" or why there is none; then everything stays in ordinary memory.
const char* startReachableMemory(size_t bytes);
// nullptr if there is no room.
void* takeReachable(size_t bytes, size_t alignment);
void giveBackReachable(void* memory);
bool isReachable(const void* memory);

// The first pointer among a launch's arguments to what the host has and a device does not reach: the stack of a thread
// that the test has started, static data, memory of other allocators. "" where there is none. A device that comes upon
// it does not work any more in this process, and does not say which one it was. What no kernel reads may look like one.
std::string unreachableIn(std::span<const std::span<const std::byte>> arguments);

}  // namespace sparsecoll::test
