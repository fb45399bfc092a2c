// The round in which every rank sends each peer those of its entries that lie in the peer's region.
#pragma once

#include <span>
#include <vector>

#include "collectives/own_list.h"
#include "collectives/rounds.h"

namespace sparsecoll {

class SplitRound {
 public:
  // capacity: most entries of a rank in a region.
  static Result<SplitRound> make(const CollectiveSetup& setup, uint64_t capacity) {
    const FrameLayout layout{capacity, 4, static_cast<uint32_t>(elementBytes(setup.accumulateType))};
    SplitRound made;
    made.kernels_ = setup.kernels;
    made.n_ = setup.n;
    made.type_ = setup.accumulateType;
    SC_TRY(made.selected_, OwnList::make(setup, setup.capacity));
    SC_TRY(made.round_,
           FullRound::make(*setup.transport, *setup.kernels, layout, FullRound::Sends::kOneToEach, setup.budget));
    made.received_.resize(made.round_.ranks());
    return made;
  }

  // This rank's entries, as they are written and read.
  List target() const { return selected_.list(); }
  ListView selected() const { return selected_.view(); }

  // parts: selected(), cut to the region of each rank.
  Status run(const CollectiveStep& step, std::span<const ListPart> parts) {
    for (size_t w = 0; w < parts.size(); ++w)
      SC_TRY(kernels_->concatenate(parts.subspan(w, 1), type_, round_.list(*step.operation, w), step.stream));
    SC_TRY(round_.run(*step.operation, step.stream, step.control));
    for (size_t r = 0; r < received_.size(); ++r) {
      received_[r] = listOf(round_.from(r));
      SC_TRY(kernels_->checkOrder(received_[r], n_, step.stream));
    }
    return {};
  }
  // What all ranks have in this one's region.
  std::span<const ListView> received() const { return received_; }

 private:
  Kernels* kernels_ = nullptr;
  uint64_t n_ = 0;
  sparsecollDataType_t type_ = sparsecollFloat32;
  OwnList selected_;
  FullRound round_;
  std::vector<ListView> received_;
};

}  // namespace sparsecoll
