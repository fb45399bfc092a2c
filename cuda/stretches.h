// Where lists enter the stretches of an index range (list_space.h).
#pragma once

#include "cuda/device_context.h"
#include "cuda/list_space.h"

namespace sparsecoll::cuda {

// The indices [base, base + length), cut into stretches of 1 << shift; all other numbers count from base on.
struct Stretches {
  uint64_t base = 0;
  uint64_t length = 0;
  uint32_t shift = 0;
  uint32_t count = 0;
  uint32_t lists = 0;
  const LocatedList* located = nullptr;
  const uint32_t* offsets = nullptr;
  const ListTurn* turn = nullptr;

#if SC_DEVICE_CODE
  __device__ uint64_t begin(uint32_t stretch) const { return uint64_t{stretch} << shift; }
  __device__ uint64_t end(uint32_t stretch) const {
    const uint64_t width = uint64_t{1} << shift;
    const uint64_t at = begin(stretch);
    return length - at > width ? at + width : length;
  }
  // The entries of a list in a stretch begin here and end where the next stretch's begin.
  __device__ const uint32_t* offset(uint32_t list, uint32_t stretch) const {
    return offsets + uint64_t{list} * (count + 1) + stretch;
  }
#endif
};

// When lists become a run instead, and where that is said.
struct RunRule {
  uint64_t denseFrom = ~uint64_t{0};  // entries of all lists
  FrameHeader* header = nullptr;      // nullptr: never
};

struct IndexRange {
  uint64_t base = 0;
  uint64_t length = 0;
};

// The workspace's tables for so many lists; nullptr, and a failure noted, where there is none or it is too small.
const ListSpace* spaceFor(const char* name, uint64_t lists, DeviceContext& device, Stream stream);

// Enqueues the search. Checks on the way that every list is in order and in the range.
template <class A, class Index>
Stretches locate(std::span<const ListView> lists, const IndexRange& range, const RunRule& rule, const ListSpace& space,
                 DeviceContext& device, Stream stream);

extern template Stretches locate<float, uint32_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                                  const ListSpace&, DeviceContext&, Stream);
extern template Stretches locate<double, uint32_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                                   const ListSpace&, DeviceContext&, Stream);
extern template Stretches locate<float, uint64_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                                  const ListSpace&, DeviceContext&, Stream);
extern template Stretches locate<double, uint64_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                                   const ListSpace&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
