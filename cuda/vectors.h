#pragma once

#include "core/vector_kernels.h"
#include "cuda/device_context.h"

namespace sparsecoll::cuda {

uint64_t loadTiles(uint64_t count);  // uint64_t of scratch that load() needs
void load(const VectorView& vector, Order order, LoadedVector& to, DeviceContext& device, Stream stream);
void pack(const LoadedVector& from, uint64_t low, uint64_t high, const FrameLayout& layout, std::byte* frame,
          DeviceContext& device, Stream stream);
void append(std::span<const ListView> lists, uint32_t indexBytes, const VectorView& out, uint64_t* outCount,
            uint64_t* starts, uint32_t* isSorted, DeviceContext& device, Stream stream);
void widen(const uint32_t* from, uint64_t* to, const uint64_t* count, uint64_t most, DeviceContext& device,
           Stream stream);
void scatterAdd(const LoadedVector& from, void* dense, sparsecollDataType_t type, double scale, DeviceContext& device,
                Stream stream);

}  // namespace sparsecoll::cuda
