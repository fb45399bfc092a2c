// What a library that was built without UCX's headers or without libsodium says of UCX.
#include "transports/ucx.h"

namespace sparsecoll::ucx {

bool available() { return false; }

Result<std::unique_ptr<Messenger>> makeMessenger(bool) {
  return unsupported("this build has no UCX: its headers and libsodium were not found");
}

}  // namespace sparsecoll::ucx
