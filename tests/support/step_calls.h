// What a step on a device may ask of CUDA: known by the calls' names, of the emulated runtime as of a real one.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace sparsecoll::test {

// As tracing tools tell names, without a version or a stream's default behind it: cuMemAlloc_v2, cudaEventRecord_v3020,
// cudaMemcpyAsync_ptsz.
inline std::string_view plainName(std::string_view call) {
  for (;;) {
    const size_t at = call.rfind('_');
    if (at == std::string_view::npos) return call;
    const std::string_view suffix = call.substr(at + 1);
    const bool version = suffix.size() > 1 && suffix[0] == 'v' &&
                         std::all_of(suffix.begin() + 1, suffix.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!version && suffix != "ptsz" && suffix != "ptds") return call;
    call = call.substr(0, at);
  }
}

// Whether a step may make this call of the runtime.
inline bool isCallOfStep(std::string_view call) {
  constexpr std::string_view kCalls[] = {"cudaLaunchKernelEx",
                                         "cudaLaunchKernelExC",
                                         "cudaEventRecord",
                                         "cudaEventQuery",
                                         "cudaEventElapsedTime",
                                         "cudaStreamWaitEvent",
                                         "cudaGetLastError",
                                         "cudaStreamIsCapturing",
                                         "cudaStreamGetCaptureInfo",
                                         "cudaGetDevice",
                                         "cudaSetDevice",
                                         "cudaEventRecordWithFlags",
                                         "cudaThreadExchangeStreamCaptureMode"};
  return std::find(std::begin(kCalls), std::end(kCalls), plainName(call)) != std::end(kCalls);
}

// Why a step must not make a call of the runtime or the driver: it waits, takes memory or gives it back, makes or ends
// objects, loads code, takes a copy engine, or moves bytes from or to the host. nullptr: it may. Whatever contains
// `part`, but not `without`.
inline const char* whyNotInStep(std::string_view call) {
  constexpr struct {
    std::string_view part, without;
    const char* why;
  } kForbidden[] = {
      {"Synchronize", "", "waits"},
      {"Memcpy", "", "waits, or takes a copy engine"},
      {"Memset", "", "waits, or takes a copy engine"},
      {"HtoD", "", "copies from the host"},
      {"DtoH", "", "copies to the host"},
      {"of host memory", "", "copies from or to the host"},  // as the emulation says it
      {"alloc", "", "takes memory"},
      {"Alloc", "", "takes memory"},
      {"MemCreate", "", "takes memory"},
      {"MemMap", "", "takes memory"},
      {"MemUnmap", "", "gives memory back"},
      {"Free", "", "gives memory back"},
      {"Trim", "", "gives memory back"},
      {"HostRegister", "", "pins memory"},
      {"HostUnregister", "", "gives pinned memory back"},
      {"Create", "", "makes an object"},
      {"Instantiate", "", "makes an object"},
      {"Destroy", "", "ends an object"},
      {"ModuleLoad", "", "loads code"},
      {"LibraryLoad", "", "loads code"},
      {"FuncLoad", "", "loads code"},
      {"is loaded", "", "loads code"},  // as the emulation says it
      {"Unload", "", "unloads code"},
  };
  const std::string_view name = plainName(call);
  for (const auto& row : kForbidden)
    if (name.find(row.part) != name.npos && (row.without.empty() || name.find(row.without) == name.npos))
      return row.why;
  return nullptr;
}

}  // namespace sparsecoll::test
