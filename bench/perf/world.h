// Ranks in processes of their own, one in each: what a measurement needs of them besides communicators. Rank 0 reports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/perf/element.h"
#include "sparsecoll/sparsecoll.h"

namespace bench {

inline constexpr const char* kThreadsName = "threads";
inline constexpr const char* kAutoName = "auto";

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // All processes call these in the same order.
  virtual void sync() = 0;
  // Every process's bytes, in rank order, to all.
  virtual void gather(const void* own, uint64_t bytes, void* all) = 0;
  virtual sparsecollComm_t connect() = 0;
  // What sums dense vectors here without this library; "" if nothing does.
  virtual std::string nativeSum() const { return ""; }
  virtual void sum(const void* in, void* out, uint64_t n, const ElementType& type) = 0;
  // Ends all processes.
  [[noreturn]] virtual void fail(int code) = 0;

  // The sum over the processes.
  uint64_t total(uint64_t own);
  // A vector with an element for each rank, of which each process has its own.
  template <class T>
  void share(std::vector<T>& perRank) {
    const T own = perRank[static_cast<size_t>(rank())];
    gather(&own, sizeof own, perRank.data());
  }

  // Each rank's host: its name, and a number that ranks have in common whose clocks are one. All processes call it.
  struct Place {
    std::string host;
    int clock = 0;
  };
  const std::vector<Place>& places();

 private:
  std::vector<Place> places_;
};

// Whether this process is one of several that were started together.
bool wasLaunched();

// A way to have ranks: --transport NAME. Joining is collective over the processes that were started together.
struct Launcher {
  std::string name;
  std::string usage;
  int32_t transport;                                  // sparsecollTransport_t that they are to use
  std::unique_ptr<World> (*join)(int32_t transport);  // nullptr: ranks are threads of this process
};

std::vector<Launcher> launchers();
// Throws UsageError.
const Launcher& launcherOf(const std::string& name);

#ifdef SPARSECOLL_PERF_MPI
std::unique_ptr<World> joinMpi(int32_t transport);
#endif
std::unique_ptr<World> joinLaunched(int32_t transport);

}  // namespace bench
