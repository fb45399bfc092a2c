// Atomics and loads and stores with a cache hint. The atomics are real and relaxed, as on the device: OS threads that
// launch at the same time may share buffers, and a missing fence stays a race. There are none for floating point: their
// result would depend on the order.
#pragma once

#include <atomic>
#include <type_traits>

#include <simt_threads.h>

namespace simt {

// Stands around an atomic: what it writes and what is known of it go together.
class Watch {
 public:
#if defined(__SANITIZE_THREAD__)
  Watch(const void* address, Access access) : address_(address), access_(access) { beginAtomic(); }
  ~Watch() { endAtomic(address_, access_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void wasLoad() { access_ = Access::load; }

 private:
  const void* address_;
  Access access_;
#else
  Watch(const void*, Access) {}
  void wasLoad() {}
#endif
};

template <class T, class F>
T update(T* address, F next) {
  const Watch watch(address, Access::update);
  std::atomic_ref<T> cell(*address);
  T old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
  return old;
}

template <class T>
T exchange(T* address, T expected, T value) {
  Watch watch(address, Access::update);
  if (!std::atomic_ref<T>(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed))
    watch.wasLoad();
  return expected;
}

template <class T>
inline constexpr bool kOneAccess = std::is_arithmetic_v<T> && sizeof(T) <= 8;

template <class T>
T load(const T* address) {
  return *address;
}
template <class T>
void store(T* address, T value) {
  *address = value;
}

// Hints that pass by the L1 cache: what one polls with. Words are read in one piece, and may be written meanwhile
// (simt::writeMeanwhile).
inline std::atomic<const void*> writtenMeanwhile{nullptr};
void lookAtWritten();

template <class T>
T loadThrough(const T* address) {
  perhapsSwitch();
  if (writtenMeanwhile.load(std::memory_order_relaxed) == address) [[unlikely]]
    lookAtWritten();
  if constexpr (kOneAccess<T>) {
    const Watch watch(address, Access::load);
    return std::atomic_ref<T>(*const_cast<T*>(address)).load(std::memory_order_relaxed);
  } else {
    return *address;
  }
}
template <class T>
void storeThrough(T* address, T value) {
  perhapsSwitch();
  if constexpr (kOneAccess<T>) {
    const Watch watch(address, Access::store);
    std::atomic_ref<T>(*address).store(value, std::memory_order_relaxed);
  } else {
    *address = value;
  }
}

// What is meant for other streams to see.
template <class T>
void storeAcross(T* address, T value) {
  perhapsNap();
  storeThrough(address, value);
}

}  // namespace simt

#define SIMT_LOAD(name, how)   \
  template <class T>           \
  T name(const T* address) {   \
    return simt::how(address); \
  }
#define SIMT_STORE(name, how)                            \
  template <class T>                                     \
  void name(T* address, std::type_identity_t<T> value) { \
    simt::how(address, value);                           \
  }
SIMT_LOAD(__ldg, load)
SIMT_LOAD(__ldca, load)
SIMT_LOAD(__ldcs, load)
SIMT_LOAD(__ldlu, load)
SIMT_LOAD(__ldcg, loadThrough)
SIMT_LOAD(__ldcv, loadThrough)
SIMT_STORE(__stcs, store)
SIMT_STORE(__stwb, store)
SIMT_STORE(__stcg, storeThrough)
SIMT_STORE(__stwt, storeAcross)
#undef SIMT_LOAD
#undef SIMT_STORE

// name, types, what becomes of `old` and `value`.
#define SIMT_ATOMIC_OF(name, T, expression)                                                    \
  inline T name(T* address, T value) {                                                         \
    simt::perhapsSwitch();                                                                     \
    return simt::update(address, [value]([[maybe_unused]] T old) -> T { return expression; }); \
  }
#define SIMT_ATOMIC_SCOPES(name, T, expression) \
  SIMT_ATOMIC_OF(name, T, expression)           \
  SIMT_ATOMIC_OF(name##_block, T, expression)   \
  SIMT_ATOMIC_OF(name##_system, T, expression)
#define SIMT_ATOMIC(name, expression)            \
  SIMT_ATOMIC_SCOPES(name, int, expression)      \
  SIMT_ATOMIC_SCOPES(name, unsigned, expression) \
  SIMT_ATOMIC_SCOPES(name, unsigned long long, expression)

// Sums wrap, also signed ones.
inline int simtWrappingSum(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
inline int simtWrappingDifference(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) - static_cast<unsigned>(b));
}
SIMT_ATOMIC_SCOPES(atomicAdd, int, simtWrappingSum(old, value))
SIMT_ATOMIC_SCOPES(atomicAdd, unsigned, old + value)
SIMT_ATOMIC_SCOPES(atomicAdd, unsigned long long, old + value)
SIMT_ATOMIC_SCOPES(atomicSub, int, simtWrappingDifference(old, value))
SIMT_ATOMIC_SCOPES(atomicSub, unsigned, old - value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicAnd, old& value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicExch, value)
SIMT_ATOMIC(atomicMax, old < value ? value : old)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC_SCOPES(atomicMax, long long, old < value ? value : old)
SIMT_ATOMIC_SCOPES(atomicMin, long long, value < old ? value : old)
SIMT_ATOMIC_SCOPES(atomicInc, unsigned, old >= value ? 0 : old + 1)
SIMT_ATOMIC_SCOPES(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef SIMT_ATOMIC
#undef SIMT_ATOMIC_SCOPES
#undef SIMT_ATOMIC_OF

#define SIMT_CAS_OF(name, T)                                                                          \
  inline T name(T* address, T expected, T value) {                                                    \
    simt::perhapsSwitch();                                                                            \
    return simt::exchange(address, expected, value);                                                  \
  }
#define SIMT_CAS(T)               \
  SIMT_CAS_OF(atomicCAS, T)       \
  SIMT_CAS_OF(atomicCAS_block, T) \
  SIMT_CAS_OF(atomicCAS_system, T)
SIMT_CAS(int)
SIMT_CAS(unsigned)
SIMT_CAS(unsigned short)
SIMT_CAS(unsigned long long)
#undef SIMT_CAS
#undef SIMT_CAS_OF
