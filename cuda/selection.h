#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

void sample(const PassArgs& args, DeviceContext& device, Stream stream);
void pass(const PassArgs& args, DeviceContext& device, Stream stream);
void countTrials(const TrialArgs& args, DeviceContext& device, Stream stream);
void cut(const CutArgs& args, DeviceContext& device, Stream stream);
void squares(const void* x, sparsecollDataType_t type, uint64_t n, double* squaresAt, DeviceContext& device,
             Stream stream);
void clip(std::span<const double> squares, Scale scale, double mostNorm, double* scaleAt, DeviceContext& device,
          Stream stream);

}  // namespace sparsecoll::cuda
