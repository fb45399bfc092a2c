// A libnccl whose ranks are threads on emulated devices: the calls of transports/nccl/abi.h, under NCCL's names, found
// in this process. Work is put on streams and done in their order, when all that take part have come as far; a call
// with a communicator that does not block leaves it ncclInProgress for a while. Misuse is written down, and no memory
// of a communicator is ever given back, so that its use afterwards is found, too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transports/nccl/abi.h"

namespace fake {

using sparsecoll::nccl::Code;
using sparsecoll::nccl::Comm;

// Since the last reset, in this process.
std::vector<std::string> misuse();
std::map<std::string, uint64_t> calls();
// How many streams wait for peers, and messages that were sent and not received, of communicators not aborted.
uint64_t waiting();
uint64_t unreceived();
void reset();

// Communicators, one a rank, as another user of NCCL has them.
std::vector<Comm> makeComms(int ranks, bool blocking);
// Not yet destroyed or aborted.
bool isAlive(Comm comm);
uint64_t aborting();  // how many ncclCommAbort wait for graphs
uint64_t aliveCount();

// ncclCommGetAsyncError of this rank, of all communicators that are alive, says so from now on.
void plant(int rank, Code error);
// What ncclGetVersion says; 0: the usual.
void pretendVersion(int version);

}  // namespace fake
