// What a library without the CUDA back end says of NCCL.
#include "transports/nccl.h"

namespace sparsecoll::nccl {

namespace {

Status absent() { return unsupported("this build has no CUDA back end, which NCCL needs"); }

}  // namespace

bool available() { return false; }
Status makeUniqueId(uint8_t (&)[SPARSECOLL_UNIQUE_ID_BYTES]) { return absent(); }
Result<int> currentDevice() { return absent(); }
Result<int> deviceOf(ncclComm*) { return absent(); }
Result<std::unique_ptr<Transport>> makeTransport(const Place&, int, int,
                                                 const uint8_t (&)[SPARSECOLL_UNIQUE_ID_BYTES]) {
  return absent();
}
Result<std::unique_ptr<Transport>> makeTransport(const Place&, ncclComm*, bool) { return absent(); }

}  // namespace sparsecoll::nccl
