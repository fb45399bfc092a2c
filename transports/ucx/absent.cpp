// What a library that was built without UCX's headers or without libsodium says of UCX.
#include "transports/ucx.h"

namespace sparsecoll::ucx {

namespace {

Status absent() { return unsupported("this build has no UCX: its headers and libsodium were not found"); }

}  // namespace

Result<int> version() { return absent(); }
Result<std::unique_ptr<engine::Messenger>> makeMessenger(bool, const bootstrap::Address&, const Deadline&) {
  return absent();
}

}  // namespace sparsecoll::ucx
