// Sparse vectors of the C ABI in memory that the host does not read. Not part of a step: their callers take memory for
// each call and wait for its end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/kernels.h"

namespace sparsecoll {

// A caller's vector, or room for one.
struct VectorView {
  void* indices = nullptr;
  uint32_t indexBytes = 4;
  void* values = nullptr;
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t count = 0;     // entries; of room: slots
  uint64_t length = 0;    // each index is below it
  bool isSorted = false;  // as its owner says, which is checked
};

// A vector's entries as kernels want them: 64-bit indices, values of the accumulate type.
struct LoadedVector {
  Buffer indices[2];  // the second half is scratch of the sort
  Buffer values[2];
  Buffer starts;  // scratch
  Buffer count;   // uint64_t
  uint64_t capacity = 0;
  uint32_t side = 0;  // which of the two holds them
  sparsecollDataType_t accumulateType = sparsecollFloat32;
};

enum class Order {
  kAsGiven,  // unchanged
  kSorted,   // by index; entries of one index in the order given
  kSummed,   // and added up in it
};

class VectorKernels {
 public:
  virtual ~VectorKernels() = default;

  // What load() needs for a vector.
  virtual Result<LoadedVector> makeRoom(const VectorView& vector, const std::shared_ptr<MemoryBudget>& budget) = 0;
  // Found: InvalidArgument (an index out of range, or out of order in a vector that is said to be sorted).
  virtual void load(const VectorView& vector, Order order, LoadedVector& to, Stream stream) = 0;
  // The entries with indices in [low, high), all of them for kAsGiven, to where a frame's payload lies; and their
  // count.
  virtual void pack(const LoadedVector& from, uint64_t low, uint64_t high, const FrameLayout& layout, std::byte* frame,
                    Stream stream) = 0;
  // The lists, whose indices have so many bytes, one behind the other; *outCount = their entries. starts: one more than
  // there are lists, the first one 0. *isSorted, 1 before, becomes 0 if the whole is not in order. Found: Capacity
  // (*outCount is the need), Corrupted.
  virtual void append(std::span<const ListView> lists, uint32_t indexBytes, const VectorView& out, uint64_t* outCount,
                      uint64_t* starts, uint32_t* isSorted, Stream stream) = 0;
  // to[i] = from[i], for *count of them, at most `most`
  virtual void widen(const uint32_t* from, uint64_t* to, const uint64_t* count, uint64_t most, Stream stream) = 0;
  // dense[index] += scale * value for entries in index order, one after the other where they share one.
  virtual void scatterAdd(const LoadedVector& from, void* dense, sparsecollDataType_t type, double scale,
                          Stream stream) = 0;
};

}  // namespace sparsecoll
