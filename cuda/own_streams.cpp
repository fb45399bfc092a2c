#include "cuda/own_streams.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/environment.h"
#include "cuda/cuda_kernels.h"

namespace sparsecoll::cuda {

namespace {

struct Table {
  std::mutex mutex;
  std::map<int, std::weak_ptr<const OwnStreams>> streams;
};
Table& table() {
  static Table instance;
  return instance;
}

cudaError_t make(OwnStreams& streams) {
  int least = 0, greatest = 0;
  cudaError_t error = taken(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  if (error == cudaSuccess) error = streams.setUp.make();
  if (error == cudaSuccess) error = streams.rescue.make(greatest);
  return error;
}

}  // namespace

Result<std::shared_ptr<const OwnStreams>> ownStreams(int device) {
  const std::lock_guard lock(table().mutex);
  std::weak_ptr<const OwnStreams>& known = table().streams[device];
  if (auto streams = known.lock()) return streams;
  const OnDevice current(device);
  auto streams = std::make_shared<OwnStreams>();
  if (const cudaError_t error = make(*streams); error != cudaSuccess)
    return fail(sparsecollCudaError, "streams on device {}: {}", device, cudaGetErrorString(error));
  known = streams;
  return std::shared_ptr<const OwnStreams>(std::move(streams));
}

int connections() {
  constexpr int kUsual = 8;
  const char* const said = environmentText(variable::kDeviceConnections);
  const int number = said != nullptr ? std::atoi(said) : 0;
  return number > 0 ? std::min(number, kMostConnections) : kUsual;
}

}  // namespace sparsecoll::cuda
