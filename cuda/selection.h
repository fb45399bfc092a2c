#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

void sample(const PassArgs& args, DeviceContext& device, Stream stream);
void pass(const PassArgs& args, DeviceContext& device, Stream stream);
void countRungs(const CutArgs& args, DeviceContext& device, Stream stream);
void draw(const CutArgs& args, DeviceContext& device, Stream stream);
void cut(const CutArgs& args, DeviceContext& device, Stream stream);
void histogram(const void* x, sparsecollDataType_t type, uint64_t n, uint64_t floorKey, uint64_t* counts,
               DeviceContext& device, Stream stream);
void segmentSquares(const void* x, sparsecollDataType_t type, std::span<const uint64_t> bounds, double* squares,
                    DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
