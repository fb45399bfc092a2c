// The part of NVTX that the library uses; what it is told is kept for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

using nvtxDomainHandle_t = struct nvtxDomainRegistration_st*;

inline constexpr uint16_t NVTX_VERSION = 3;
inline constexpr int32_t NVTX_MESSAGE_TYPE_ASCII = 1;

struct nvtxEventAttributes_t {
  uint16_t version;
  uint16_t size;
  int32_t messageType;
  union {
    const char* ascii;
  } message;
};
inline constexpr uint16_t NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t);

nvtxDomainHandle_t nvtxDomainCreateA(const char* name);
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes);
int nvtxDomainRangePop(nvtxDomainHandle_t domain);

namespace simt {

// "+name" where a range was opened, "-" where one was closed, by any thread.
std::vector<std::string> ranges();
void resetRanges();

}  // namespace simt
