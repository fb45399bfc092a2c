// What a library without the CUDA back end says of NCCL.
#include "transports/nccl.h"

namespace sparsecoll::nccl {

namespace {

Status absent() { return unsupported("this build has no CUDA back end, which NCCL needs"); }

}  // namespace

Result<int> version() { return absent(); }
Result<Id> makeId() { return absent(); }
Result<int> deviceOf(ncclComm*) { return absent(); }
Result<std::unique_ptr<Transport>> makeTransport(const NcclSetup&, int, int, const Id&) { return absent(); }
Result<std::unique_ptr<Transport>> makeTransport(const NcclSetup&, ncclComm*, bool) { return absent(); }

}  // namespace sparsecoll::nccl
