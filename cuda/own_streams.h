// The library's own streams on a device. All its ranks there share them: hardware queues are few, and a stream that
// waits holds up others in its queue.
#pragma once

#include <memory>

#include "core/status.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

struct OwnStreams {
  OwnStream setUp;   // memory is made on it, and what is copied before the first step
  OwnStream rescue;  // lets flags pass, whatever waits on other streams; before all others
};
inline constexpr int kOwnStreams = 2;  // of them

// The device's, which live as long as somebody holds them. Errors: CudaError.
Result<std::shared_ptr<const OwnStreams>> ownStreams(int device);

// Hardware queues that a device's streams share, as CUDA_DEVICE_MAX_CONNECTIONS says: 8 where it is not set.
int connections();
inline constexpr int kMostConnections = 32;

}  // namespace sparsecoll::cuda
