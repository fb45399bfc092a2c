// Functions of the driver, to which nothing is linked: it may not be there.
#pragma once

namespace sparsecoll::cuda {

// A function of the driver's; nullptr: it has none of that name.
void* driverFunction(const char* name);

}  // namespace sparsecoll::cuda
