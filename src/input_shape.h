// What lies between the gradient and the residual where the parameters ask for it: clipping, momentum correction (Lin
// et al. 2018, "Deep Gradient Compression") and a residual that fades.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/kernels.h"
#include "core/status.h"
#include "selectors/selection.h"

namespace sparsecoll {

struct InputShapeSetup {
  const sparsecollParams_t& params;
  uint64_t n;
  sparsecollDataType_t accumulateType;
  int ranks;
  bool transactional;
  void* velocity;  // the caller's memory for it; nullptr: its own
};

// Like the residual, velocity lies in one buffer, or in two in turn when transactional; `which` is the residual's.
class InputShape {
 public:
  static Result<InputShape> make(const InputShapeSetup& setup, Kernels& kernels,
                                 const std::shared_ptr<MemoryBudget>& budget);

  // Elements of the accumulate type that it keeps, in whosever memory.
  uint64_t elements() const { return keepsVelocity() ? n_ * (transactional_ ? 2 : 1) : 0; }
  bool keepsVelocity() const { return momentum_ != 0; }
  // More happens on the way from one residual to the next than that the gradient is added.
  bool changesResidual() const { return keepsVelocity() || decay_ != 1; }
  void* velocity(int which) const;  // nullptr: none is kept

  // Completes the input of a step that leads from one residual to the next.
  void prepare(SelectionInput& input, int from, int to, Stream stream) const;
  // These entries have left the residual, if the step takes effect.
  void mask(int which, const ListView& list, const Control* decision, Stream stream) const;
  // Those of them that are in the sum have.
  void mask(int which, std::span<const ListView> sent, const ListView& sum, const Control* decision,
            Stream stream) const;
  void clearNonFinite(int which, const Control* control, Stream stream) const;
  void copy(int to, int from, Stream stream) const;
  // Transactional: as before the step, unless it takes effect.
  void restore(int which, const Control* decision, Stream stream) const;
  void reset(Stream stream) const;

 private:
  uint64_t bytes() const { return n_ * elementBytes(type_); }  // of each buffer

  Kernels* kernels_ = nullptr;
  uint64_t n_ = 0;
  sparsecollDataType_t type_ = sparsecollFloat32;
  double momentum_ = 0;
  double decay_ = 1;
  double mostNorm_ = 0;  // of this rank's scaled gradient; 0: any
  bool nesterov_ = false;
  bool masks_ = true;
  bool transactional_ = false;
  std::byte* velocity_ = nullptr;
  Buffer own_;  // where the caller has none
  struct Clipping {
    double squares;  // of the gradient
    double scale;    // the clipped one's
  };
  Buffer clipping_;
};

}  // namespace sparsecoll
