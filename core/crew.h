// Crews: rules (core/rule.h) whose work is shared by the threads of one block on a device and done by one thread on the
// host, with the same bits. A rule for a crew is a function marked SC_BOTH that all members run from its beginning to
// its end. What they read from the control block and compute from it, all compute alike; work over many items goes
// through each, sum, count and order, and every change of memory through each and alone. All members have to come by
// all of these calls: whether one is made may only depend on what all know.
//
// The arithmetic is that of kCrew lanes, however many members there are: item i is added to lane i mod kCrew in rising
// order of i, and the lanes are added pairwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>

#include "core/rule.h"

namespace sparsecoll {

inline constexpr uint32_t kCrew = 256;       // lanes, and threads of a block
inline constexpr uint32_t kCrewTable = 96;   // places of a table in the memory that a crew shares
inline constexpr uint32_t kMostSummed = 24;  // bytes of what is added up at once

struct CrewMemory {
  alignas(8) std::byte lanes[kCrew * kMostSummed];
  uint64_t tables[3][kCrewTable];  // for the rule's own use
  double numbers[kCrewTable];
};

class Crew {
 public:
  // One thread that does it all.
  SC_BOTH explicit Crew(CrewMemory& memory) : memory_(&memory), first_(0), step_(1) {}
  // Member `first` of `step`.
  SC_BOTH Crew(CrewMemory& memory, uint32_t first, uint32_t step) : memory_(&memory), first_(first), step_(step) {}

  SC_BOTH CrewMemory& memory() const { return *memory_; }

  // work(i) for every i below count, in any order. What it wrote is seen by all from then on.
  template <class Work>
  SC_BOTH void each(uint64_t count, const Work& work) const {
    for (uint64_t i = first_; i < count; i += step_) work(i);
    meet();
  }

  // One member does this while the others wait; all have read what they had to.
  template <class Work>
  SC_BOTH void alone(const Work& work) const {
    meet();
    if (first_ == 0) work();
    meet();
  }

  // term(begin) + ... + term(end - 1) in the fixed order, of something that has += and starts at T().
  template <class T, class Term>
  SC_BOTH T sum(uint64_t begin, uint64_t end, const Term& term) const {
    static_assert(sizeof(T) <= kMostSummed && std::is_trivially_copyable_v<T>);
    T* const lanes = reinterpret_cast<T*>(memory_->lanes);
    for (uint64_t lane = first_; lane < kCrew; lane += step_) {
      T own{};
      for (uint64_t i = begin + lane; i < end; i += kCrew) own += term(i);
      lanes[lane] = own;
    }
    meet();
    for (uint64_t half = kCrew / 2; half != 0; half /= 2) {
      for (uint64_t lane = first_; lane < half; lane += step_) lanes[lane] += lanes[lane + half];
      meet();
    }
    const T all = lanes[0];
    meet();
    return all;
  }

  // table[place(i)] grows by 1 for every i below count; a place past the table's length counts nowhere.
  template <class Place>
  SC_BOTH void count(std::span<uint64_t> table, uint64_t count, const Place& place) const {
    each(table.size(), [&](uint64_t i) { table[i] = 0; });
    for (uint64_t i = first_; i < count; i += step_) {
      const uint64_t at = place(i);
      if (at < table.size()) addOne(table[at]);
    }
    meet();
  }

  // The numbers below order.size(), sorted; of two different ones exactly one comes before the other.
  template <class Before>
  SC_BOTH void order(std::span<uint32_t> order, const Before& before) const {
#if !defined(__CUDA_ARCH__)
    if (step_ == 1) {
      std::iota(order.begin(), order.end(), 0u);
      std::sort(order.begin(), order.end(), before);
      return;
    }
#endif
    // A thread has no stack for a sort that calls itself, and comparing everything with everything needs no meetings.
    const auto length = static_cast<uint32_t>(order.size());
    each(length, [&](uint64_t i) {
      const auto mine = static_cast<uint32_t>(i);
      uint32_t place = 0;
      for (uint32_t other = 0; other < length; ++other) place += other != mine && before(other, mine) ? 1 : 0;
      order[place] = mine;
    });
  }

 private:
  SC_BOTH void meet() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#elif defined(SPARSECOLL_SIMT)
    if (step_ != 1) __syncthreads();
#endif
  }

  SC_BOTH void addOne(uint64_t& counter) const {
#if defined(__CUDA_ARCH__)
    atomicAdd(reinterpret_cast<unsigned long long*>(&counter), 1ull);
#elif defined(SPARSECOLL_SIMT)
    if (step_ != 1)
      atomicAdd(reinterpret_cast<unsigned long long*>(&counter), 1ull);
    else
      ++counter;
#else
    ++counter;
#endif
  }

  CrewMemory* memory_;
  uint32_t first_, step_;
};

template <void (*kUpdate)(Control&, const Crew&)>
void runAlone(Control& control) {
  CrewMemory memory;
  kUpdate(control, Crew(memory));
}

#if SC_DEVICE_CODE
template <void (*kUpdate)(Control&, const Crew&)>
__global__ void __launch_bounds__(kCrew, 1) runCrew(Control* control) {
  __shared__ CrewMemory memory;
  kUpdate(*control, Crew(memory, threadIdx.x, kCrew));
}
template <void (*kUpdate)(Control&, const Crew&)>
constexpr Rule ruleOf(const char* name) {
  (void)&Listed<runCrew<kUpdate>>::is;
  return {name, runAlone<kUpdate>, runCrew<kUpdate>, kCrew};
}
#else
template <void (*kUpdate)(Control&, const Crew&)>
constexpr Rule ruleOf(const char* name) {
  return {name, runAlone<kUpdate>, nullptr, kCrew};
}
#endif

}  // namespace sparsecoll
