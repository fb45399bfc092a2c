// SC_HD marks arithmetic that host and device share. On the host it is always inlined: some callers are compiled for
// newer instruction sets, and the linker must never pick their copy for everyone.
#pragma once

#if defined(__CUDACC__)
#define SC_HD __host__ __device__
#else
#define SC_HD __attribute__((always_inline))
#endif
