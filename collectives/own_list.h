// A list of its own, which does not travel.
#pragma once

#include "collectives/collective.h"

namespace sparsecoll {

struct OwnList {
  Buffer indices, values, count;
  uint64_t capacity = 0;

  static Result<OwnList> make(const CollectiveSetup& setup, uint64_t capacity) {
    OwnList own;
    own.capacity = capacity;
    SC_TRY(own.indices, setup.kernels->allocate(capacity * sizeof(uint32_t), setup.budget));
    SC_TRY(own.values, setup.kernels->allocate(capacity * elementBytes(setup.accumulateType), setup.budget));
    SC_TRY(own.count, setup.kernels->allocate(sizeof(uint32_t), setup.budget));
    return own;
  }
  List list() const {
    return {indices.as<uint32_t>(), values.as<>(), count.as<uint32_t>(), capacity, List::Values::kApart};
  }
  ListView view() const {
    ListView view;
    view.indices = indices.as<>();
    view.values = values.as<>();
    view.count = count.as<uint32_t>();
    return view;
  }
};

}  // namespace sparsecoll
