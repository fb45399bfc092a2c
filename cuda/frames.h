#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

void seal(const SealArgs& args, DeviceContext& device, Stream stream);
void open(const OpenArgs& args, DeviceContext& device, Stream stream);
void checkOrder(const ListView& list, uint64_t n, DeviceContext& device, Stream stream);
void countBlocks(const BlockCountArgs& args, DeviceContext& device, Stream stream);
void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control* control, DeviceContext& device,
           Stream stream);

}  // namespace sparsecoll::cuda
