#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

void seal(const SealArgs& args, DeviceContext& device, Stream stream);
void open(const OpenArgs& args, DeviceContext& device, Stream stream);
void packChunks(const ListView& list, uint64_t chunk, std::byte* frame, const FrameLayout& layout,
                sparsecollDataType_t type, DeviceContext& device, Stream stream);
void unpackChunks(const std::byte* frame, const FrameLayout& layout, uint64_t chunk, const uint64_t* perChunk,
                  sparsecollDataType_t type, const List& to, DeviceContext& device, Stream stream);
void checkCounts(const ListView& list, const uint64_t* bounds, const uint64_t* most, uint32_t owners,
                 DeviceContext& device, Stream stream);
void checkOrder(const ListView& list, uint64_t n, DeviceContext& device, Stream stream);
void countBlocks(std::span<const ListView> lists, uint64_t length, uint32_t blocks, Control* control,
                 DeviceContext& device, Stream stream);
void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control* control, DeviceContext& device,
           Stream stream);

}  // namespace sparsecoll::cuda
