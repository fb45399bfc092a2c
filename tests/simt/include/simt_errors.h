// The errors of the runtime with their real numbers.
#pragma once

// clang-format off
#define SIMT_ERRORS(X) \
  X(InvalidValue, 1, "invalid argument") \
  X(MemoryAllocation, 2, "out of memory") \
  X(InitializationError, 3, "initialization error") \
  X(CudartUnloading, 4, "cudart unloading") \
  X(InvalidConfiguration, 9, "invalid configuration argument") \
  X(InvalidSymbol, 13, "invalid symbol") \
  X(InvalidDevicePointer, 17, "invalid device pointer") \
  X(InvalidMemcpyDirection, 21, "invalid memcpy direction") \
  X(StubLibrary, 34, "stub library") \
  X(InsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
  X(CallRequiresNewerDriver, 36, "call requires newer driver") \
  X(DevicesUnavailable, 46, "devices unavailable") \
  X(InvalidDeviceFunction, 98, "invalid device function") \
  X(NoDevice, 100, "no CUDA-capable device is detected") \
  X(InvalidDevice, 101, "invalid device ordinal") \
  X(InvalidKernelImage, 200, "invalid kernel image") \
  X(DeviceUninitialized, 201, "device uninitialized") \
  X(NoKernelImageForDevice, 209, "no kernel image for device") \
  X(ECCUncorrectable, 214, "eccuncorrectable") \
  X(PeerAccessUnsupported, 217, "peer access unsupported") \
  X(NvlinkUncorrectable, 220, "nvlink uncorrectable") \
  X(UnsupportedPtxVersion, 222, "unsupported ptx version") \
  X(OperatingSystem, 304, "operating system") \
  X(InvalidResourceHandle, 400, "invalid resource handle") \
  X(IllegalState, 401, "illegal state") \
  X(SymbolNotFound, 500, "symbol not found") \
  X(NotReady, 600, "device not ready") \
  X(IllegalAddress, 700, "illegal address") \
  X(LaunchOutOfResources, 701, "launch out of resources") \
  X(LaunchTimeout, 702, "launch timeout") \
  X(PeerAccessAlreadyEnabled, 704, "peer access already enabled") \
  X(PeerAccessNotEnabled, 705, "peer access not enabled") \
  X(ContextIsDestroyed, 709, "context is destroyed") \
  X(Assert, 710, "assert") \
  X(TooManyPeers, 711, "too many peers") \
  X(HostMemoryAlreadyRegistered, 712, "host memory already registered") \
  X(HostMemoryNotRegistered, 713, "host memory not registered") \
  X(HardwareStackError, 714, "hardware stack error") \
  X(IllegalInstruction, 715, "illegal instruction") \
  X(MisalignedAddress, 716, "misaligned address") \
  X(InvalidAddressSpace, 717, "invalid address space") \
  X(InvalidPc, 718, "invalid pc") \
  X(LaunchFailure, 719, "unspecified launch failure") \
  X(CooperativeLaunchTooLarge, 720, "cooperative launch too large") \
  X(NotPermitted, 800, "not permitted") \
  X(NotSupported, 801, "operation not supported") \
  X(SystemNotReady, 802, "system not ready") \
  X(SystemDriverMismatch, 803, "system driver mismatch") \
  X(StreamCaptureUnsupported, 900, "stream capture unsupported") \
  X(StreamCaptureInvalidated, 901, "stream capture invalidated") \
  X(StreamCaptureMerge, 902, "stream capture merge") \
  X(StreamCaptureUnmatched, 903, "stream capture unmatched") \
  X(StreamCaptureUnjoined, 904, "stream capture unjoined") \
  X(StreamCaptureIsolation, 905, "stream capture isolation") \
  X(StreamCaptureImplicit, 906, "stream capture implicit") \
  X(CapturedEvent, 907, "captured event") \
  X(StreamCaptureWrongThread, 908, "stream capture wrong thread") \
  X(Timeout, 909, "timeout") \
  X(GraphExecUpdateFailure, 910, "graph exec update failure") \
  X(ExternalDevice, 911, "external device") \
  X(InvalidClusterSize, 912, "invalid cluster size") \
  X(FunctionNotLoaded, 913, "function not loaded") \
  X(Unknown, 999, "unknown error")
// clang-format on

enum cudaError {
#define SIMT_ERROR(name, number, text) cudaError##name = number,
  cudaSuccess = 0,
  SIMT_ERRORS(SIMT_ERROR)
#undef SIMT_ERROR
};
using cudaError_t = cudaError;
