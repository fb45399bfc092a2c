// The hooks of the sanitizers, empty where there is none. The engine itself is compiled without the race checker, which
// has to see the kernels only, so the build says SIMT_TSAN.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __sanitizer_start_switch_fiber(void** fakeStack, const void* bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void* fakeStack, const void** bottom, size_t* bytes);
void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
}
#define SIMT_ASAN 1
#else
#define SIMT_ASAN 0
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
