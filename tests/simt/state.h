// What all OS threads share: the schedule, misuse found so far, counters.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "tests/simt/simt.h"
#include "tests/support/memory_exempt.h"

namespace simt {

// 0: round robin. Every launch of an OS thread gets its own sequence.
uint64_t seedOfNextLaunch();
void report(Misuse misuse, std::string message);
bool broken();
unsigned patienceMilliseconds();
bool napsAreWanted();
bool lagIsWanted();
constexpr auto kLag = std::chrono::microseconds(500);  // what kernels and copies wait at least, then
// Hardware queues of a device, as CUDA_DEVICE_MAX_CONNECTIONS says; and what draws the one of a stream.
int connections();
uint64_t connectionsSeed();
// Waits that are under way are given up. Those that begin now are not.
void giveUpWaits();
uint64_t waitsGivenUp();
void count(const Work& done);

// Counts the calls of one function of the runtime.
class Counter {
 public:
  explicit Counter(const char* name);
  // Counts one; what it returns is planted, or success.
  cudaError_t enter();

 private:
  friend struct Counters;
  const char* name_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> failAt_{UINT64_MAX};
  std::atomic<cudaError_t> planted_{cudaSuccess};
};

// Keeps an error for cudaGetLastError and hands it on.
cudaError_t finish(cudaError_t error);
cudaError_t takeLast(bool keep);

bool allocationFails();
void countObject(int64_t change);

}  // namespace simt

// Memory that a test refuses to the library is not refused to the emulation.
#define SIMT_ENTER()                                                             \
  const ::sparsecoll::test::memory::Exempt simtExempt;                           \
  static ::simt::Counter simtCounter(__func__);                                  \
  if (const cudaError_t planted = simtCounter.enter(); planted != cudaSuccess) { \
    return ::simt::finish(planted);                                              \
  }                                                                              \
  static_assert(true)
