#include "bench/perf/device.h"

#include <algorithm>
#include <vector>

#include "bench/device/cuda_objects.h"
#include "bench/device/loops.h"

namespace bench {

void useDevice(int ordinal) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    (void)cudaGetLastError();
    devices = 0;
  }
  if (ordinal < 0 || ordinal >= devices)
    throw EnvironmentError("there is no CUDA device " + std::to_string(ordinal) + " here, or no driver for it");
  checkCuda(cudaSetDevice(ordinal), "cudaSetDevice");
}

std::string deviceName(int ordinal) {
  cudaDeviceProp properties{};
  checkCuda(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  return properties.name;
}

DeviceMemory::DeviceMemory(uint64_t bytes) {
  void* data = nullptr;
  checkCuda(cudaMalloc(&data, std::max<uint64_t>(bytes, 1)), "cudaMalloc");
  data_.reset(data);
  checkCuda(cudaMemset(data, 0, bytes), "cudaMemset");
  waitForDevice();
}

void DeviceMemory::Free::operator()(void* data) const { (void)cudaFree(data); }

void DeviceMemory::load(const void* from, uint64_t bytes) const {
  checkCuda(cudaMemcpy(data_.get(), from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  waitForDevice();
}

void copyToHost(void* to, const void* from, uint64_t bytes) {
  checkCuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

DeviceStream::DeviceStream() {
  cudaStream_t stream = nullptr;
  checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  handle_ = stream;
}
DeviceStream::~DeviceStream() { (void)cudaStreamDestroy(static_cast<cudaStream_t>(handle_)); }

DeviceGraph::DeviceGraph(const DeviceStream& stream, const std::function<void()>& enqueue)
    : graph_(std::make_shared<CudaGraph>(static_cast<cudaStream_t>(stream.handle()), enqueue)) {}
void DeviceGraph::launch(const DeviceStream& stream) const {
  graph_->launch(static_cast<cudaStream_t>(stream.handle()));
}

DeviceMoment::DeviceMoment() {
  cudaEvent_t event = nullptr;
  checkCuda(cudaEventCreate(&event), "cudaEventCreate");
  event_ = event;
}
DeviceMoment::DeviceMoment(DeviceMoment&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
DeviceMoment::~DeviceMoment() {
  if (event_ != nullptr) (void)cudaEventDestroy(static_cast<cudaEvent_t>(event_));
}
void DeviceMoment::take(const DeviceStream& stream) const {
  checkCuda(cudaEventRecord(static_cast<cudaEvent_t>(event_), static_cast<cudaStream_t>(stream.handle())),
            "cudaEventRecord");
}
double DeviceMoment::nsSince(const DeviceMoment& earlier) const {
  float milliseconds = 0;
  checkCuda(
      cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(earlier.event_), static_cast<cudaEvent_t>(event_)),
      "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e6;
}

DeviceRate deviceRate(uint64_t floats) {
  constexpr int kRuns = 5;  // nobody else is on the device, and it is asked before and after every case
  constexpr uint64_t kLeastElements = 1u << 25;  // a run: so many that launching does not show
  const uint64_t rounds = std::max<uint64_t>(1, kLeastElements / floats);
  const DeviceArray<float> to(floats);
  const DeviceArray<float> from(floats);
  const CudaStream stream;
  const auto rate = [&](double bytes, const auto& work) {
    std::vector<double> seconds;
    const CudaEvent begin;
    const CudaEvent end;
    for (int run = 0; run < kRuns; ++run) {
      begin.record(stream.get());
      for (uint64_t round = 0; round < rounds; ++round) work();
      end.record(stream.get());
      stream.wait();
      seconds.push_back(end.secondsSince(begin));
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
    return bytes * static_cast<double>(floats * rounds) / seconds[kRuns / 2];
  };
  const double copy = rate(8, [&] {
    checkCuda(cudaMemcpyAsync(to.get(), from.get(), floats * sizeof(float), cudaMemcpyDeviceToDevice, stream.get()),
              "cudaMemcpyAsync");
  });
  const double add = rate(12, [&] { addInPlace(to.get(), from.get(), floats, stream.get()); });
  return copy > add ? DeviceRate{copy, "copy on the device"} : DeviceRate{add, "in-place add on the device"};
}

}  // namespace bench
