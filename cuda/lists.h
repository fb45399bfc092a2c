#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

void gather(const void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const List& to,
            DeviceContext& device, Stream stream);
void sumValues(std::span<const void* const> from, sparsecollDataType_t type, const uint32_t* count, const List& to,
               DeviceContext& device, Stream stream);
void combine(const CombineArgs& args, DeviceContext& device, Stream stream);
void merge(const MergeArgs& args, DeviceContext& device, Stream stream);
void mergeCut(const MergeCutArgs& args, DeviceContext& device, Stream stream);
void stream(const StreamArgs& args, DeviceContext& device, Stream stream);
void join(const JoinArgs& args, DeviceContext& device, Stream stream);
void concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to, DeviceContext& device,
                 Stream stream);
void settle(const SettleArgs& args, DeviceContext& device, Stream stream);
void zeroAt(void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const Control* decision,
            DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
