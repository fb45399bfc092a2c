// Words in device memory that streams wait for: the driver's stream memory operations, which captured graphs keep. They
// order captured steps, since a replay repeats no event and no meeting of threads. A graph waits for constant values,
// which rules out epoch numbers: a flag has one bit, and the rank that waited lowers it. Two of them tell that a frame
// is whole, and that the operation before was read.
//
// An abort is stored before it ends the waits. Kernels that see it add gradients to the residual and clear nothing, and
// the kernel that raises flags looks for it again after its writes: so one of the two sees the other, and no later step
// takes half-written frames for a sum.
#pragma once

#include "cuda/device_context.h"
#include "cuda/own_streams.h"

namespace sparsecoll::cuda {

class Users;

// nullptr where the driver has no such operations. memory: flagBytes(count) of them, zero. streams: of the
// device. users: of the memory; what ends waits becomes one of them. Errors: CudaError.
uint64_t flagBytes(uint64_t count);
Result<std::unique_ptr<Flags>> makeFlags(Buffer memory, const DeviceContext& device,
                                         std::shared_ptr<const OwnStreams> streams, std::shared_ptr<Users> users);

void raise(const Flags& own, std::span<uint32_t* const> flags, std::span<uint64_t* const> counts, DeviceContext& device,
           Stream stream);
void lower(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream);
void awaitRaised(const Flags& own, std::span<uint32_t* const> flags, DeviceContext& device, Stream stream);

// flags.cu. state: whether flags pass and steps take effect, in device memory; zero: they do not, and they do.
// No flag holds anybody up from now on, and the finding says why; nullptr: nothing is found.
cudaError_t letAllPass(uint32_t* flags, uint64_t count, uint32_t* state, Finding* finding, const Finding& why,
                       cudaStream_t stream);
// Not once letAllPass has begun; the counts rise all the same.
void raiseAll(std::span<uint32_t* const> flags, const uint32_t* state, std::span<uint64_t* const> counts,
              DeviceContext& device, Stream stream);
void lowerAll(std::span<uint32_t* const> flags, const uint32_t* state, DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
