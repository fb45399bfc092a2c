// The hooks of the sanitizers, empty where there is none. The engine itself is compiled without them, so the build says
// which one there is.
#pragma once

#include <cstddef>

#if !defined(SIMT_ASAN)
#define SIMT_ASAN 0
#endif
#if SIMT_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void** fakeStack, const void* bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void* fakeStack, const void** bottom, size_t* bytes);
void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
}
#endif

#if !defined(SIMT_TSAN)
#define SIMT_TSAN 0
#endif
#if SIMT_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace simt {

inline constexpr bool kRaceChecker = SIMT_TSAN != 0;

// Everything before a release happens before what follows an acquire of the same address.
inline void acquire([[maybe_unused]] void* address) {
#if SIMT_TSAN
  __tsan_acquire(address);
#endif
}
inline void release([[maybe_unused]] void* address) {
#if SIMT_TSAN
  __tsan_release(address);
#endif
}

}  // namespace simt
