// What threads of a block do together. The place of every call is kept, so that a deadlock can say who waits where.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace simt {

enum class Meet : uint8_t {
  syncthreads,
  syncthreadsOr,
  syncthreadsAnd,
  syncthreadsCount,
  syncwarp,
  ballot,
  any,
  all,
  shuffle,
  shuffleUp,
  shuffleDown,
  shuffleXor,
  reduceAdd,
  reduceMin,
  reduceMax,
  reduceMinSigned,
  reduceMaxSigned,
  reduceAnd,
  reduceOr,
  reduceXor,
  matchAny
};
#ifdef __cpp_lib_source_location
using Place = std::source_location;
#else  // Clang before 16
class Place {
 public:
  static constexpr Place current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  constexpr Place() = default;
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }

 private:
  constexpr Place(const char* file, unsigned line) : file_(file), line_(line) {}
  const char* file_ = "";
  unsigned line_ = 0;
};
#endif

int meetBlock(Meet meet, int value, Place place);
uint64_t meetWarp(Meet meet, uint32_t mask, uint64_t value, uint32_t operand, Place place);
// Lets other threads of the block run; at once, or only if the schedule is a random one and feels like it.
void pause(unsigned nanoseconds);
void perhapsSwitch();
// Before a store that other streams wait for: lets them get ahead, under a random schedule.
void perhapsNap();
// Whom a fence is for: threads of the same block, or others as well.
enum class Scope : uint8_t { block, others };
void fence(Scope scope, Place place);
// Around an atomic, for the race checker, where blocks run at once.
enum class Access : uint8_t { load, store, update };
void beginAtomic();
void endAtomic(const void* address, Access access);
[[noreturn]] void trap(Place place);

template <class T>
T shuffle(Meet meet, uint32_t mask, T value, uint32_t lanes, int width, Place place) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles move 4 or 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const uint32_t operand = (lanes & 31u) | static_cast<uint32_t>(width) << 8;
  return std::bit_cast<T>(static_cast<Bits>(meetWarp(meet, mask, std::bit_cast<Bits>(value), operand, place)));
}

}  // namespace simt

inline void __syncthreads(simt::Place place = simt::Place::current()) {
  simt::meetBlock(simt::Meet::syncthreads, 0, place);
}
inline int __syncthreads_or(int predicate, simt::Place place = simt::Place::current()) {
  return simt::meetBlock(simt::Meet::syncthreadsOr, predicate, place);
}
inline int __syncthreads_and(int predicate, simt::Place place = simt::Place::current()) {
  return simt::meetBlock(simt::Meet::syncthreadsAnd, predicate, place);
}
inline int __syncthreads_count(int predicate, simt::Place place = simt::Place::current()) {
  return simt::meetBlock(simt::Meet::syncthreadsCount, predicate, place);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, simt::Place place = simt::Place::current()) {
  simt::meetWarp(simt::Meet::syncwarp, mask, 0, 0, place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, simt::Place place = simt::Place::current()) {
  return static_cast<unsigned>(simt::meetWarp(simt::Meet::ballot, mask, predicate != 0, 0, place));
}
inline int __any_sync(unsigned mask, int predicate, simt::Place place = simt::Place::current()) {
  return static_cast<int>(simt::meetWarp(simt::Meet::any, mask, predicate != 0, 0, place));
}
inline int __all_sync(unsigned mask, int predicate, simt::Place place = simt::Place::current()) {
  return static_cast<int>(simt::meetWarp(simt::Meet::all, mask, predicate != 0, 0, place));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, simt::Place place = simt::Place::current()) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return static_cast<unsigned>(simt::meetWarp(simt::Meet::matchAny, mask, std::bit_cast<Bits>(value), 0, place));
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, simt::Place place = simt::Place::current()) {
  return simt::shuffle(simt::Meet::shuffle, mask, value, static_cast<uint32_t>(lane), width, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, simt::Place place = simt::Place::current()) {
  return simt::shuffle(simt::Meet::shuffleUp, mask, value, by, width, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, simt::Place place = simt::Place::current()) {
  return simt::shuffle(simt::Meet::shuffleDown, mask, value, by, width, place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, simt::Place place = simt::Place::current()) {
  return simt::shuffle(simt::Meet::shuffleXor, mask, value, static_cast<uint32_t>(bits), width, place);
}

#define SIMT_REDUCE(name, T, meet)                                                                             \
  inline T name(unsigned mask, T value, simt::Place place = simt::Place::current()) {                          \
    return static_cast<T>(                                                                                     \
        simt::meetWarp(simt::Meet::meet, mask, static_cast<uint64_t>(static_cast<int64_t>(value)), 0, place)); \
  }
SIMT_REDUCE(__reduce_add_sync, unsigned, reduceAdd)
SIMT_REDUCE(__reduce_add_sync, int, reduceAdd)
SIMT_REDUCE(__reduce_min_sync, unsigned, reduceMin)
SIMT_REDUCE(__reduce_min_sync, int, reduceMinSigned)
SIMT_REDUCE(__reduce_max_sync, unsigned, reduceMax)
SIMT_REDUCE(__reduce_max_sync, int, reduceMaxSigned)
SIMT_REDUCE(__reduce_and_sync, unsigned, reduceAnd)
SIMT_REDUCE(__reduce_or_sync, unsigned, reduceOr)
SIMT_REDUCE(__reduce_xor_sync, unsigned, reduceXor)
#undef SIMT_REDUCE

inline void __threadfence(simt::Place place = simt::Place::current()) { simt::fence(simt::Scope::others, place); }
inline void __threadfence_block(simt::Place place = simt::Place::current()) { simt::fence(simt::Scope::block, place); }
inline void __threadfence_system(simt::Place place = simt::Place::current()) {
  simt::fence(simt::Scope::others, place);
}
inline void __nanosleep(unsigned nanoseconds) { simt::pause(nanoseconds); }
[[noreturn]] inline void __trap(simt::Place place = simt::Place::current()) { simt::trap(place); }

// A launch waits for everything before it anyway.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
