// Tensors that are sent dense beside a selection (sparsecollSegment_t.dense). The engine's dense all-reduce sums their
// part of acc; the selection finds zeros in its place, whatever the selector and the collective.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/collective.h"
#include "core/kernels.h"
#include "core/partition.h"
#include "core/status.h"
#include "selectors/selection.h"
#include "src/communicator.h"
#include "src/reducer_spec.h"

namespace sparsecoll {

// Selects nothing: its pass only forms acc, with all that lies between the gradient and acc.
Result<std::unique_ptr<Selection>> makeForming(const ReducerSpec& spec, Communicator& comm,
                                               const std::shared_ptr<MemoryBudget>& budget);

class DenseTensors {
 public:
  DenseTensors() = default;  // none: nothing below does anything
  static Result<DenseTensors> make(const ReducerSpec& spec, Communicator& comm,
                                   const std::shared_ptr<MemoryBudget>& budget);

  // Memory, in elements of the accumulate type.
  uint64_t held() const { return 4 * elements_; }

  // Forms acc from the input and cuts the tensors out of it; what is left becomes the input of the selection's pass.
  // NaN and Inf stay where they are, so that they are found and told as all others.
  void cutOut(SelectionInput& input, Stream stream);
  // The same collective, which sums the tensors as well. They have to stay where they are as long as it lives.
  Result<std::unique_ptr<Collective>> join(std::unique_ptr<Collective> collective, Communicator& comm);
  // The tensors go back into acc, unless the step takes effect.
  void restore(const Control* decision, Stream stream);
  // Into the acc of a step that did not get that far, in any case.
  void putBack(Stream stream);

  // They leave nothing behind that their velocity would push a second time, so it is not masked: between these two
  // calls anything may happen to it.
  void keepVelocity(const void* velocity, Stream stream) const;
  void returnVelocity(void* velocity, Stream stream) const;

 private:
  Status sum(Operation& operation, Transport& transport, Stream stream) const;
  class Joined;

  Kernels* kernels_ = nullptr;
  sparsecollDataType_t type_ = sparsecollFloat32;
  std::vector<Range> ranges_;  // neighbours joined
  uint64_t elements_ = 0;
  std::unique_ptr<Selection> forming_;
  std::byte* acc_ = nullptr;  // what they were cut out of and may have to go back into; nullptr: nothing
  Buffer own_;                // this rank's
  Buffer sum_;                // as a list, whose indices never change
  Buffer indices_;
  Buffer count_;
  Buffer velocity_;  // empty: it is not masked anyway
};

}  // namespace sparsecoll
