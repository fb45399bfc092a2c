// Tensors that are sent dense beside a selection (sparsecollSegment_t.dense). The engine's dense all-reduce sums their
// part of acc; the selection finds zeros in its place, whatever the selector and the collective. A window of density 1
// would send indices, and only the selector topk has such windows. A packed vector without the tensors would double the
// memory traffic. A second reducer cannot commit together with this one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/partition.h"
#include "core/status.h"
#include "core/transport.h"
#include "selectors/selection.h"
#include "src/communicator.h"
#include "src/reducer_spec.h"

namespace sparsecoll {

// Selects nothing: its pass only forms acc, with all that lies between the gradient and acc.
Result<std::unique_ptr<Selection>> makeForming(const ReducerSpec& spec, Communicator& comm, Transport& ranks,
                                               const std::shared_ptr<MemoryBudget>& budget);

class DenseTensors {
 public:
  DenseTensors() = default;  // none: nothing below does anything
  static Result<DenseTensors> make(const ReducerSpec& spec, Communicator& comm, Transport& ranks,
                                   const std::shared_ptr<MemoryBudget>& budget);

  // The most memory, in elements of the accumulate type: indices, velocity, the window and what mirrors it where an
  // engine of messages serves a device.
  uint64_t held() const { return 6 * elements_; }

  // Forms acc from the input and cuts the tensors out of it; what is left becomes the input of the selection's pass.
  // NaN and Inf stay where they are, so that they are found and told as all others.
  void cutOut(SelectionInput& input, Stream stream);
  // Sums them over the ranks, in the operation of the step. Result: the lists with the sum behind them, valid until the
  // next call. Errors: the engine's.
  Result<std::span<const ListView>> sum(Operation& operation, std::span<const ListView> lists, Stream stream);
  // They go back into acc, unless the step takes effect.
  void restore(void* acc, const Control* decision, Stream stream) const;
  // They go back in any case.
  void putBack(void* acc, Stream stream) const;

  // They leave nothing behind that their velocity would push a second time, so it is not masked: between these two
  // calls anything may happen to it.
  void keepVelocity(const void* velocity, Stream stream) const;
  void returnVelocity(void* velocity, Stream stream) const;

 private:
  // Calls each(their place in a vector of all elements, in one of the tensors alone, how many) for every range.
  template <class Each>
  void forEachRange(Each each) const;
  // Between a vector of all elements and one of the tensors alone.
  void copyOut(std::byte* packed, const void* vector, Stream stream) const;
  void copyIn(void* vector, const std::byte* packed, Stream stream) const;
  std::byte* placeIn(void* vector, uint64_t at) const {
    return static_cast<std::byte*>(vector) + at * elementBytes(type_);
  }
  const std::byte* placeIn(const void* vector, uint64_t at) const {
    return static_cast<const std::byte*>(vector) + at * elementBytes(type_);
  }
  std::byte* own() const { return window_->data(); }
  std::byte* summed() const { return window_->data() + sumAt_; }

  Kernels* kernels_ = nullptr;
  Transport* transport_ = nullptr;
  sparsecollDataType_t type_ = sparsecollFloat32;
  std::vector<Range> ranges_;  // neighbours joined
  uint64_t elements_ = 0;
  std::unique_ptr<Selection> forming_;
  std::unique_ptr<FrameWindow> window_;  // this rank's and, from sumAt_ on, the sum: peers may be at work in both
  uint64_t sumAt_ = 0;
  Buffer indices_;  // of the sum as a list; they never change
  Buffer count_;
  Buffer velocity_;              // empty: it is not masked anyway
  std::vector<ListView> lists_;  // with room for all that a collective delivers: a step allocates nothing
};

}  // namespace sparsecoll
