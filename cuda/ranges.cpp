#include "cuda/ranges.h"

// In the emulation it is a header that keeps what it is told.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace sparsecoll::cuda {

namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t ours = nvtxDomainCreateA("sparsecoll");
  return ours;
}

}  // namespace

void pushRange(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  (void)nvtxDomainRangePushEx(domain(), &attributes);
}

void popRange() { (void)nvtxDomainRangePop(domain()); }

}  // namespace sparsecoll::cuda

#else

namespace sparsecoll::cuda {

void pushRange(const char*) {}
void popRange() {}

}  // namespace sparsecoll::cuda

#endif
