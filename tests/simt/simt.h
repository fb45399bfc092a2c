// What a test may ask of the emulation and do to it. Everything but schedule() concerns the whole process.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/device/emulation.h"

namespace simt {

// For the calling OS thread, instead of what schedule() says for the process.
void scheduleThisThread(uint64_t seed);
void scheduleThisThreadLikeAll();

// Whether, under a random schedule, streams fall behind now and then before they write what others wait for.
void naps(bool wanted);
// While it lives, kernels run a while after they were launched, and copies of memory that devices reach, also where
// nothing is before them: as on a device.
void lag(bool wanted);
struct Lag {
  Lag() { lag(true); }
  ~Lag() { lag(false); }
  Lag(const Lag&) = delete;
  Lag& operator=(const Lag&) = delete;
};
// How long a block may do nothing but poll.
void patience(unsigned milliseconds);

// How many blocks of a grid run at once, on an OS thread each. Until it is set, the environment variable
// SPARSECOLL_SIMT_BLOCKS says it; 1 if there is none.
void blocksAtOnce(unsigned blocks);
uint64_t gridsAtOnce();  // so far, of those with more than one block

// A __syncthreads by its place in the source, or a fence.
struct BarrierPlace {
  const char* file;
  unsigned line;
};
// Notes from now on which barriers kernels come to. Kernels are launched by one OS thread alone meanwhile, and their
// blocks run one after another.
void watchBarriers();
std::vector<BarrierPlace> barriersMet();  // ends the watch
// Lets one of them be as if it were not there.
void leaveOut(const BarrierPlace& place);
// The same for fences.
void watchFences();
std::vector<BarrierPlace> fencesMet();
void leaveOutFence(const BarrierPlace& place);

// What another stream writes while a kernel runs: once kernels have looked `looks` more times at the word, with __ldcg
// or
// __ldcv, it has the value. One word at a time; nullptr: none.
void writeMeanwhile(uint32_t* word, uint64_t looks, uint32_t value);

// Looks at the arguments of every launch from now on; nullptr: nobody does. Where it says something, that is misuse,
// and nothing is launched.
void lookAtArguments(std::string (*look)(std::span<const Argument> arguments));

// Calls of the runtime so far, by name; "cudaMemcpyAsync of host memory" counts those of them that do not stay on
// devices.
uint64_t calls(const std::string& name);
std::map<std::string, uint64_t> calls();
void resetCalls();
// Lets a call fail: the one after `skip` more successful ones.
void failCall(const std::string& name, uint64_t skip, cudaError_t error);
// The same for allocations of device and pinned memory, whatever function asks.
void failAllocation(uint64_t skip);
// Whether that one is still to come.
bool allocationWillFail();
// Withdraws planted failures that did not happen.
void forgetFailures();

struct Memory {
  uint64_t allocations = 0;
  uint64_t bytes = 0;
  uint64_t pinnedBytes = 0;  // of bytes
};
Memory liveMemory();
// Streams, events, graphs and pools that were made and not destroyed.
uint64_t liveObjects();

void setDevices(int count);  // at most 8
// Hardware queues of a device that streams made from now on share, and what CUDA_DEVICE_MAX_CONNECTIONS says. At first
// what that variable says, or else 1 to 8, drawn by the seed SPARSECOLL_SIMT_QUEUES.
int connections();
void setConnections(int count);
// As many as drawn, but no fewer.
inline void needConnections(int least) {
  if (connections() < least) setConnections(least);
}
// Has as many as ranks need whose streams on one device wait for each other.
struct QueuesFor {
  explicit QueuesFor(int ranks) { needConnections(ranks + 2); }
};
// What devices can: pools of memory, and to reach each other's. Both at first.
void setPools(bool supported);
void setPeerAccess(bool possible);

struct Work {
  uint64_t kernels = 0, blocks = 0, threads = 0, switches = 0;
};
Work work();

}  // namespace simt
