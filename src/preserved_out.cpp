#include "src/preserved_out.h"

#include "core/checked.h"

namespace sparsecoll {

namespace {

// One bit for 16 elements, in whole words a tile of the combining kernels.
uint64_t touchedBytes(uint64_t n) { return alignUp((n + 1023) / 1024 * sizeof(uint64_t), 64); }

}  // namespace

Result<PreservedOut> PreservedOut::make(uint64_t n, uint64_t elementBytes, Kernels& kernels,
                                        const std::shared_ptr<MemoryBudget>& budget) {
  PreservedOut out;
  out.kernels_ = &kernels;
  out.outBytes_ = n * elementBytes;
  SC_TRY(out.touchedLines_, kernels.allocate(touchedBytes(n), budget));
  return out;
}

Status PreservedOut::prepare(void* out, bool captured, Stream stream) {
  if (touchedLines() == nullptr || out == lastOut_) return {};
  if (captured) return fail(sparsecollInvalidUsage, "captured steps preserve another out");
  if (kernels_->captures(stream))
    return fail(sparsecollInvalidUsage, "the out that steps preserve has not been used before the capture");
  kernels_->fillZero(out, outBytes_, stream);
  kernels_->fillZero(touchedLines_.as<>(), touchedLines_.bytes(), stream);
  lastOut_ = out;
  return {};
}

}  // namespace sparsecoll
