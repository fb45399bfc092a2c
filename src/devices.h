// Where the caller says that vectors are: SPARSECOLL_HOST, SPARSECOLL_CURRENT_DEVICE or the ordinal of a device.
#pragma once

#include <vector>

#include "core/status.h"

namespace sparsecoll {

// An ordinal, or SPARSECOLL_HOST. Where this process can use no device, what is on devices stays as it was given:
// whoever makes something there refuses it. Errors: InvalidArgument (none of the three), CudaError.
Result<int> readDevice(int device);
// One a rank; nullptr: the host for all. Errors: those; InvalidArgument (the host for some).
Result<std::vector<int>> readDevices(const int* devices, int ranks);

}  // namespace sparsecoll
