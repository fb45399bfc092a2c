// The part of NCCL's C ABI that this library uses, declared here so that building it needs no NCCL. Names, numbers and
// layouts are NCCL's, which keeps them; where there is an <nccl.h>, a test compares.
#pragma once

#include <climits>
#include <cstddef>

struct ncclComm;

namespace sparsecoll::nccl {

using Comm = ncclComm*;

struct UniqueId {
  char internal[128];
};

enum Code : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,  // newer than 2.28
};

enum DataType : int { kUint8 = 1, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9 };
enum RedOp : int { kSum = 0 };

constexpr int versionOf(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

// 2.14 brought communicators that do not block, without which a wait inside NCCL has no deadline.
inline constexpr int kOldestVersion = versionOf(2, 14, 0);

// As of the oldest version, which newer ones read as such.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = kOldestVersion;
  int blocking = 0;
  int unset = INT_MIN;  // where newer versions have their next field
};

using StreamHandle = void*;  // cudaStream_t

// The calls: one row names, declares and finds each.
#define SC_NCCL_CALLS(X)                                                                                     \
  X(GetVersion, Code(int* version))                                                                          \
  X(GetUniqueId, Code(UniqueId* id))                                                                         \
  X(CommInitRankConfig, Code(Comm* comm, int ranks, UniqueId id, int rank, Config* config))                  \
  X(CommUserRank, Code(Comm comm, int* rank))                                                                \
  X(CommCount, Code(Comm comm, int* ranks))                                                                  \
  X(CommCuDevice, Code(Comm comm, int* device))                                                              \
  X(CommGetAsyncError, Code(Comm comm, Code* state))                                                         \
  X(CommFinalize, Code(Comm comm))                                                                           \
  X(CommDestroy, Code(Comm comm))                                                                            \
  X(CommAbort, Code(Comm comm))                                                                              \
  X(GetErrorString, const char*(Code code))                                                                  \
  X(GetLastError, const char*(Comm comm))                                                                    \
  X(GroupStart, Code())                                                                                      \
  X(GroupEnd, Code())                                                                                        \
  X(Send, Code(const void* data, size_t count, DataType type, int peer, Comm comm, StreamHandle stream))     \
  X(Recv, Code(void* data, size_t count, DataType type, int peer, Comm comm, StreamHandle stream))           \
  X(AllGather, Code(const void* in, void* out, size_t count, DataType type, Comm comm, StreamHandle stream)) \
  X(AllReduce, Code(const void* in, void* out, size_t count, DataType type, RedOp op, Comm comm, StreamHandle stream))

// What the library can do without.
#define SC_NCCL_LATER_CALLS(X) X(CommSplit, Code(Comm comm, int color, int key, Comm* made, Config* config))  // 2.18

}  // namespace sparsecoll::nccl
