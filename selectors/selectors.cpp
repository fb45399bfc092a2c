#include "selectors/selectors.h"

#include <algorithm>

namespace sparsecoll {

// Each stands in the file of its method. A new one is named here and in the list below.
extern const SelectorRow kTopKRow, kThresholdRow, kMicroRow, kExDynaRow, kDeftRow, kSageRow, kSidcoRow, kGaussianRow,
    kRedSyncRow, kLeaderTopKRow, kRandomRow, kChunkTopKRow, kReusedTopKRow, kSampledRow, kRandomOfTopRow;

namespace {

constexpr const SelectorRow* kRows[] = {
    &kTopKRow,   &kThresholdRow, &kMicroRow,      &kExDynaRow,  &kDeftRow,
    &kSageRow,   &kSidcoRow,     &kGaussianRow,   &kRedSyncRow, &kLeaderTopKRow,
    &kRandomRow, &kChunkTopKRow, &kReusedTopKRow, &kSampledRow, &kRandomOfTopRow,
};

}  // namespace

std::span<const SelectorRow* const> selectorRows() { return kRows; }

const SelectorRow* selectorRow(int32_t id) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows), [&](auto* row) { return row->id == id; });
  return found != std::end(kRows) ? *found : nullptr;
}

}  // namespace sparsecoll
