// How the library calls the runtime, in all folders that do: without a trace in the caller's last error, and without
// harm to captures.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/wait.h"

namespace sparsecoll::cuda {

// The result of a call of the runtime. The runtime keeps it for the thread's next look at its last error, an answer
// such as NotReady, too: whoever takes the result takes it from there as well, so that the caller's next look finds
// nothing of the library's.
inline cudaError_t taken(cudaError_t result) {
  if (result != cudaSuccess) (void)cudaGetLastError();
  return result;
}

// While it lives, calls of this thread that may synchronise spoil no capture of other threads, and none of its own. Not
// for calls that touch what is captured.
class BesideCaptures {
 public:
  BesideCaptures() { (void)taken(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~BesideCaptures() { (void)taken(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Whether what is put on the stream goes into a graph. unknown: the answer where the stream cannot be asked, of which
// the call that needs the stream tells.
inline bool isCaptured(cudaStream_t stream, bool unknown) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (taken(cudaStreamIsCapturing(stream, &status)) != cudaSuccess) return unknown;
  return status != cudaStreamCaptureStatusNone;
}

// Asks until it is no longer NotReady, or in time.
template <class Ask>
cudaError_t untilReady(Ask ask, const Deadline& deadline) {
  const BesideCaptures beside;
  for (;;) {
    const cudaError_t state = taken(ask());
    if (state != cudaErrorNotReady || deadline.expired()) return state;
    pause(deadline);
  }
}
// Until all of the stream's work is done, or what was enqueued before the event. NotReady: it was not in time.
inline cudaError_t untilDone(cudaStream_t stream, const Deadline& deadline) {
  return untilReady([stream] { return cudaStreamQuery(stream); }, deadline);
}
inline cudaError_t untilReached(cudaEvent_t event, const Deadline& deadline) {
  return untilReady([event] { return cudaEventQuery(event); }, deadline);
}

// Pinned memory of the host, which all devices reach. It is used again, and seldom freed: whoever gives it back knows
// that nothing that was enqueued uses it any more. Any thread; the device is the current one.
cudaError_t takePinned(void** data, uint64_t bytes);
void givePinned(void* data) noexcept;

// A function of the driver's, to which nothing is linked, as it may not be there; nullptr: it has none of that name.
inline void* driverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  constexpr int kDriverVersion = 12000;
  const cudaError_t error =
      taken(cudaGetDriverEntryPointByVersion(name, &function, kDriverVersion, cudaEnableDefault, &found));
#else
  const cudaError_t error = taken(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : nullptr;
}

}  // namespace sparsecoll::cuda
