// SC_HD marks arithmetic that host and device share. On the host it is always inlined: some callers are compiled for
// newer instruction sets, and the linker must never pick their copy for everyone. SC_BOTH marks other functions that
// both have.
//
// SC_DEVICE_CODE is 1 where the compiler knows CUDA's words: its own, or a test's that runs device code on the host.
//
// SC_FORMATS is 0 for CUDA's own compiler: it takes long over the formatting library, and device code says nothing.
#pragma once

#if defined(__CUDACC__)
#define SC_HD __host__ __device__
#define SC_BOTH __host__ __device__
#define SC_DEVICE_CODE 1
#elif defined(SPARSECOLL_SIMT)
#define SC_HD
#define SC_BOTH
#define SC_DEVICE_CODE 1
#else
#define SC_HD __attribute__((always_inline))
#define SC_BOTH
#define SC_DEVICE_CODE 0
#endif

#if defined(__CUDACC__)
#define SC_FORMATS 0
#else
#define SC_FORMATS 1
#endif
