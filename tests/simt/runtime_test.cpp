// The host half: memory, errors, counters, planted failures.
#include <cstring>

#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

__global__ void nothing(int) {}

TEST_CASE("errors have their real numbers and names") {
  CHECK(static_cast<int>(cudaErrorMemoryAllocation) == 2);
  CHECK(static_cast<int>(cudaErrorInsufficientDriver) == 35);
  CHECK(static_cast<int>(cudaErrorNoDevice) == 100);
  CHECK(static_cast<int>(cudaErrorNotReady) == 600);
  CHECK(static_cast<int>(cudaErrorStreamCaptureIsolation) == 905);
  CHECK(std::string(cudaGetErrorName(cudaErrorNoDevice)) == "cudaErrorNoDevice");
  CHECK(std::string(cudaGetErrorString(cudaSuccess)) == "no error");
}

TEST_CASE("allocations are counted, filled with garbage and known by their range") {
  const Memory before = liveMemory();
  unsigned char* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 1001) == cudaSuccess);
  CHECK(reinterpret_cast<uintptr_t>(memory) % 256 == 0);
  CHECK((memory[0] != 0 && memory[1000] != 0));
  CHECK(liveMemory().allocations == before.allocations + 1);
  CHECK(liveMemory().bytes == before.bytes + 1001);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, memory + 1000) == cudaSuccess);
  CHECK((attributes.type == cudaMemoryTypeDevice && attributes.device == 0));
  REQUIRE(cudaPointerGetAttributes(&attributes, &attributes) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFreeHost(memory) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(liveMemory().allocations == before.allocations);

  int* pinned = nullptr;
  int* mapped = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, sizeof *pinned, cudaHostAllocMapped) == cudaSuccess);
  CHECK((cudaHostGetDevicePointer(&mapped, pinned, 0) == cudaSuccess && mapped == pinned));
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("copies know how far memory reaches") {
  const Device<int> device(4);
  int host[5] = {1, 2, 3, 4, 5};
  CHECK(cudaMemcpy(device, host, 16, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpyAsync(device, host, 20, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(host, host, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(device, 0, 17) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(device + 1, 0, 4) == cudaSuccess);
  CHECK(device.values() == std::vector<int>{1, 0, 3, 4});
  cudaGetLastError();
}

TEST_CASE("calls are counted, and fail when they are told to") {
  resetCalls();
  void* memory = nullptr;
  failAllocation(1);
  CHECK(cudaMalloc(&memory, 8) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaHostAlloc(&memory, 8, 0) == cudaErrorMemoryAllocation);
  CHECK(memory == nullptr);
  CHECK(cudaMallocAsync(&memory, 8, nullptr) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, nullptr) == cudaSuccess);
  failCall("cudaEventCreateWithFlags", 1, cudaErrorOperatingSystem);
  cudaEvent_t event = nullptr;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaErrorOperatingSystem);
  failCall("cudaLaunchKernelEx", 0, cudaErrorLaunchOutOfResources);
  failCall("cudaStreamQuery", 7, cudaErrorUnknown);
  forgetFailures();
  CHECK(launch(nothing, 1, 1, 0, 0) == cudaSuccess);
  CHECK(calls("cudaMalloc") == 1);
  CHECK(calls("cudaEventCreateWithFlags") == 2);
  CHECK(calls("cudaLaunchKernelEx") == 1);
  CHECK(calls("cudaStreamSynchronize") == 0);
  cudaGetLastError();
}

TEST_CASE("launches that a device would refuse") {
  CHECK(launch(nothing, 0, 1, 0, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, 1, 1025, 0, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, dim3(1, 65536), 1, 0, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, 1, 1, 100'000, 0) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 300'000) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100'000) == cudaSuccess);
  CHECK(launch(nothing, 1, 1, 100'000, 0) == cudaSuccess);
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 512, 100'000) == cudaSuccess);
  CHECK(blocks == 2);
  cudaGetLastError();
}

TEST_CASE("the device and its attributes") {
  int value = 0;
  CHECK((cudaGetDeviceCount(&value) == cudaSuccess && value == 1));
  CHECK((cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess && value == 3));
  CHECK((cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess &&
         value == 227 * 1024));
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  setDevices(2);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  CHECK((cudaDeviceCanAccessPeer(&value, 0, 1) == cudaSuccess && value == 1));
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  setDevices(0);
  CHECK(cudaGetDeviceCount(&value) == cudaErrorNoDevice);
  setDevices(1);
  cudaGetLastError();
}

TEST_CASE("pools, events and streams that are gone") {
  const uint64_t before = liveObjects();
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  float* memory = nullptr;
  CHECK(cudaMallocFromPoolAsync(&memory, 12, pool, stream) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, stream) == cudaSuccess);
  cudaEvent_t begin = nullptr, end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  float time = -1;
  CHECK(cudaEventElapsedTime(&time, begin, end) == cudaErrorInvalidResourceHandle);
  CHECK((cudaEventRecord(begin, stream) == cudaSuccess && cudaEventRecord(end, stream) == cudaSuccess));
  CHECK((cudaEventElapsedTime(&time, begin, end) == cudaSuccess && time >= 0));
  CHECK(cudaEventQuery(end) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaEventRecord(begin, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK((cudaEventDestroy(begin) == cudaSuccess && cudaEventDestroy(end) == cudaSuccess));
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  CHECK(liveObjects() == before);
  cudaGetLastError();
}

}  // namespace
}  // namespace simt::test
