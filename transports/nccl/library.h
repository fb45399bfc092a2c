// NCCL as it is found when it is first asked for.
#pragma once

#include "core/status.h"
#include "transports/nccl/abi.h"

namespace sparsecoll::nccl {

// Its calls; one that this version does not have is nullptr.
struct Library {
  template <class Signature>
  struct Call;
  template <class R, class... Args>
  struct Call<R(Args...)> {
    using Pointer = R (*)(Args...);
  };

#define SC_NCCL_MEMBER(name, ...) Call<__VA_ARGS__>::Pointer name = nullptr;
  SC_NCCL_CALLS(SC_NCCL_MEMBER)
  SC_NCCL_LATER_CALLS(SC_NCCL_MEMBER)
#undef SC_NCCL_MEMBER
  int version = 0;
};

// named: the file to take it from; nullptr: the copy in this process, else the system's. A process must not have two.
// Errors: Unsupported (not there, not whole, older than kOldestVersion).
Result<Library> loadLibrary(const char* named);

// What loadLibrary gave at the first call, with the file that SPARSECOLL_NCCL_LIBRARY named then. Any thread.
Result<const Library*> library();

}  // namespace sparsecoll::nccl
