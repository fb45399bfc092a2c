// P lists to one sorted list: every stretch's entries are counted, the counts added up, and the sums written where they
// belong.
#pragma once

#include "core/finish.h"
#include "cuda/range_sum.h"

namespace sparsecoll::cuda {

// Where a sum goes as a list.
struct UnionOut {
  void* indices = nullptr;
  void* values = nullptr;  // nullptr: behind the last index
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t capacity = 0;
  uint64_t* wideCount = nullptr;  // one of the two
  uint32_t* count = nullptr;
  // More entries than there is room for are the caller's mistake, who learns how many there are; or those of a peer.
  bool mayOverflow = false;
};

struct UnionRule {
  SumRule sum;
  Finish finish;
  Poison poison;
};

// Enqueues it. Where the lists become a run nothing is written.
template <class A, class Index>
void unite(const char* name, const Stretches& at, const UnionRule& rule, const UnionOut& out, const ListSpace& space,
           DeviceContext& device, Stream stream);

extern template void unite<float, uint32_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&,
                                            const ListSpace&, DeviceContext&, Stream);
extern template void unite<double, uint32_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&,
                                             const ListSpace&, DeviceContext&, Stream);
extern template void unite<float, uint64_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&,
                                            const ListSpace&, DeviceContext&, Stream);
extern template void unite<double, uint64_t>(const char*, const Stretches&, const UnionRule&, const UnionOut&,
                                             const ListSpace&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
