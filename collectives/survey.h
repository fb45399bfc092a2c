// What the ranks tell each other between the pass and the cut: a row of doubles from each, to everyone, one round.
#pragma once

#include <memory>
#include <vector>

#include "collectives/collective.h"
#include "collectives/full_round.h"

namespace sparsecoll {

class Survey {
 public:
  // length: doubles in a row; rows: of all ranks, one behind the other, in the kernels' memory.
  static Result<Survey> make(const CollectiveSetup& setup, uint64_t length, double* rows);

  // Fills the other ranks' rows.
  Status run(const CollectiveStep& step);

 private:
  Kernels* kernels_ = nullptr;
  Transport* transport_ = nullptr;
  double* rowsAt_ = nullptr;
  uint64_t rowBytes_ = 0;
  std::unique_ptr<FrameWindow> window_;  // two frames, used in turn
  FullRound rows_;
  Buffer length_;                        // of every row, where kernels find it
  std::vector<const uint32_t*> counts_;  // it, once a rank
};

}  // namespace sparsecoll
