#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

void denseSum(const DenseSumArgs& args, DeviceContext& device, Stream stream);
void clearNonFinite(void* acc, sparsecollDataType_t type, uint64_t n, const Control* control, DeviceContext& device,
                    Stream stream);
void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
               double factor, Scale divisor, const Control* decision, DeviceContext& device, Stream stream);
void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n,
           DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
