// SPARSECOLL_OUT_PRESERVED: the caller keeps out between steps, so a step clears only what the one before has written.
#pragma once

#include "core/kernels.h"
#include "core/status.h"

namespace sparsecoll {

class PreservedOut {
 public:
  PreservedOut() = default;  // steps write all of out
  static Result<PreservedOut> make(uint64_t n, uint64_t elementBytes, Kernels& kernels,
                                   const std::shared_ptr<MemoryBudget>& budget);

  // Before a step: the first sum written to an out finds it in an unknown state. captured: a graph has such steps.
  // Errors: InvalidUsage (another out than captured steps have, a first step that is captured).
  Status prepare(void* out, bool captured, Stream stream);
  // Where the last sum lies in out, see CombineArgs; nullptr: nobody preserves it.
  uint64_t* touchedLines() const { return touchedLines_.as<uint64_t>(); }
  void forget() { lastOut_ = nullptr; }

 private:
  Kernels* kernels_ = nullptr;
  uint64_t outBytes_ = 0;
  Buffer touchedLines_;
  void* lastOut_ = nullptr;
};

}  // namespace sparsecoll
