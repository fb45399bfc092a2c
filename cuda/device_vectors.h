#pragma once

#include <algorithm>

#include "cuda/vectors.h"

namespace sparsecoll::cuda {

class DeviceVectors final : public VectorKernels {
 public:
  DeviceVectors(Kernels& memory, DeviceContext& device) : memory_(memory), device_(device) {}

  Result<LoadedVector> makeRoom(const VectorView& vector, const std::shared_ptr<MemoryBudget>& budget) override {
    LoadedVector room;
    room.accumulateType = accumulateTypeOf(vector.type);
    room.capacity = vector.count;
    const uint64_t slots = std::max<uint64_t>(vector.count, 1);
    for (uint32_t side = 0; side < 2; ++side) {
      SC_TRY(room.indices[side], memory_.allocate(slots * sizeof(uint64_t), budget));
      SC_TRY(room.values[side], memory_.allocate(slots * elementBytes(room.accumulateType), budget));
    }
    SC_TRY(room.starts, memory_.allocate(loadTiles(vector.count) * sizeof(uint64_t), budget));
    SC_TRY(room.count, memory_.allocate(sizeof(uint64_t), budget));
    return room;
  }
  void load(const VectorView& vector, Order order, LoadedVector& to, Stream stream) override {
    cuda::load(vector, order, to, device_, stream);
  }
  void pack(const LoadedVector& from, uint64_t low, uint64_t high, const FrameLayout& layout, std::byte* frame,
            Stream stream) override {
    cuda::pack(from, low, high, layout, frame, device_, stream);
  }
  void append(std::span<const ListView> lists, uint32_t indexBytes, const VectorView& out, uint64_t* outCount,
              uint64_t* starts, uint32_t* isSorted, Stream stream) override {
    cuda::append(lists, indexBytes, out, outCount, starts, isSorted, device_, stream);
  }
  void widen(const uint32_t* from, uint64_t* to, const uint64_t* count, uint64_t most, Stream stream) override {
    cuda::widen(from, to, count, most, device_, stream);
  }
  void scatterAdd(const LoadedVector& from, void* dense, sparsecollDataType_t type, double scale,
                  Stream stream) override {
    cuda::scatterAdd(from, dense, type, scale, device_, stream);
  }

 private:
  Kernels& memory_;
  DeviceContext& device_;
};

}  // namespace sparsecoll::cuda
