// Words in device memory that streams wait for: the driver's stream memory operations, which captured graphs keep.
#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

// nullptr where the driver has no such operations. memory: flagBytes(count) of them, zero.
uint64_t flagBytes(uint64_t count);
Result<std::unique_ptr<Flags>> makeFlags(Buffer memory, const DeviceContext& device);

void raise(const Flags& own, std::span<uint32_t* const> flags, std::span<uint64_t* const> counts, DeviceContext& device,
           Stream stream);
void lower(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream);
void awaitRaised(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream);

// flags.cu: no flag holds anybody up from now on, and the finding says why; nullptr: nothing is found.
cudaError_t letAllPass(uint32_t* flags, uint64_t count, uint32_t* passing, Finding* finding, const Finding& why,
                       cudaStream_t stream);
// Every one becomes value, or passes for ever where *passing is not 0.
void setFlags(std::span<uint32_t* const> flags, uint32_t value, const uint32_t* passing,
              std::span<uint64_t* const> counts, DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
