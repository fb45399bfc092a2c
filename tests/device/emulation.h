// What tests of kernels ask of the emulation that they run in. On a device all orders are its own, and errors are those
// of its runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simt {

// In which order threads of a block, blocks of a grid and nodes of a graph run: seed 0 is round robin, any other seed
// a random order of its own. Until it is set, the environment variable SPARSECOLL_SIMT_SEED says it.
void schedule(uint64_t seed);  // for the process

enum class Misuse {
  mixedCollectives,  // lanes of one warp met at different operations, or with different masks
  mixedBarriers,     // threads of one block met at different variants of __syncthreads
  deadlock,          // nobody can run, or everybody only polls for too long
  absentLane,        // a shuffle read from a lane that has left or never was
  sharedOverrun,     // dynamic shared memory was written outside of what the launch asked for
  trap,              // __trap
  badCall            // a launch from within a kernel, a width of a shuffle that is none; any error of a real runtime
};
struct Error {
  Misuse misuse;
  std::string message;
};
// After the first one, calls that wait or launch fail with cudaErrorLaunchFailure, until it is cleared.
std::vector<Error> errors();
void clearErrors();

}  // namespace simt
