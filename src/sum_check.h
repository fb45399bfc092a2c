// Whether a dense sum has NaN or Inf, for ranks whose kernels do not finish before they return. Each rank knows it of
// the part that it sums, on its device; a frame without entries tells the others, and kernels make the notice.
#pragma once

#include <memory>

#include "collectives/rounds.h"
#include "core/control.h"
#include "core/kernels.h"
#include "core/status.h"
#include "core/transport.h"

namespace sparsecoll {

class SumCheck {
 public:
  static Result<std::unique_ptr<SumCheck>> make(Kernels& kernels, Transport& transport, uint64_t n,
                                                const std::shared_ptr<MemoryBudget>& budget);

  // Where the engine notes it of this rank's part (DenseArgs::nonFiniteAt), cleared for a new sum.
  uint32_t* begin(Stream stream);
  // A round of the operation that formed the sum, once its kernels are enqueued; then end.
  Status tell(Operation& operation, Stream stream);
  // Where it is noted that some rank has met one, for who hears of it in another way; cleared by begin.
  Control* control() const { return control_.as<Control>(); }
  // The operation is over; fails: NaN and Inf are an error.
  Status end(const Operation& operation, bool fails, Stream stream);
  uint64_t stepsMet(Stream stream) const;  // steps so far that met some; waits for the stream

 private:
  explicit SumCheck(Kernels& kernels) : kernels_(kernels) {}

  Kernels& kernels_;
  Buffer control_;
  FullRound round_;
};

}  // namespace sparsecoll
