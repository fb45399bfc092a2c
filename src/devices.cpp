#include "src/devices.h"

#include "cuda/cuda_kernels.h"

namespace sparsecoll {

namespace {

Result<int> readNamed(int device, const Text<32>& name) {
  const int count = cuda::deviceCount();
  if (device < SPARSECOLL_CURRENT_DEVICE)
    return invalid("{} is {}: neither SPARSECOLL_HOST ({}) nor SPARSECOLL_CURRENT_DEVICE ({}) nor a CUDA ordinal", name,
                   device, SPARSECOLL_HOST, SPARSECOLL_CURRENT_DEVICE);
  if (count == 0 || device == SPARSECOLL_HOST) return device;
  if (device == SPARSECOLL_CURRENT_DEVICE) return cuda::currentDevice();
  if (device >= count) return invalid("{} is {}, this process has {} device(s)", name, device, count);
  return device;
}

}  // namespace

Result<int> readDevice(int device) { return readNamed(device, "device"); }

Result<std::vector<int>> readDevices(const int* devices, int ranks) {
  std::vector<int> read(static_cast<size_t>(ranks), SPARSECOLL_HOST);
  if (devices == nullptr) return read;
  for (int rank = 0; rank < ranks; ++rank) {
    int& device = read[static_cast<size_t>(rank)];
    SC_TRY(device, readNamed(devices[rank], Text<32>::format("devices[{}]", rank)));
    if ((device == SPARSECOLL_HOST) != (read[0] == SPARSECOLL_HOST))
      return invalid("devices[{}] is {}, devices[0] is {}: SPARSECOLL_HOST is for all ranks or for none", rank,
                     devices[rank], devices[0]);
  }
  return read;
}

}  // namespace sparsecoll
