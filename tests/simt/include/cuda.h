// The few names of the driver API that the project uses; the functions are reached through cudaGetDriverEntryPoint.
#pragma once

#include <cstdint>

using CUresult = int;
using CUdeviceptr = unsigned long long;
using CUstream = struct CUstream_st*;
using CUdevice = int;
using CUcontext = struct CUctx_st*;
using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr CUresult CUDA_ERROR_INVALID_HANDLE = 400;

enum CUstreamWaitValue_flags : unsigned {
  CU_STREAM_WAIT_VALUE_GEQ = 0,
  CU_STREAM_WAIT_VALUE_EQ = 1,
  CU_STREAM_WAIT_VALUE_AND = 2,
  CU_STREAM_WAIT_VALUE_NOR = 3,
  CU_STREAM_WAIT_VALUE_FLUSH = 1u << 30
};
enum CUstreamWriteValue_flags : unsigned {
  CU_STREAM_WRITE_VALUE_DEFAULT = 0,
  CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1
};

// Of the operations only waits for 32 bits.
enum CUstreamBatchMemOpType : unsigned { CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1 };
struct CUstreamMemOpWaitValueParams {
  CUstreamBatchMemOpType operation;
  CUdeviceptr address;
  union {
    cuuint32_t value;
    cuuint64_t value64;
  };
  unsigned flags;
  CUdeviceptr alias;
};
union CUstreamBatchMemOpParams {
  CUstreamBatchMemOpType operation;
  CUstreamMemOpWaitValueParams waitValue;
  cuuint64_t pad[6];
};

extern "C" {
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags);
}
