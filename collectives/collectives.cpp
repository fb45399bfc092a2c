#include "collectives/collectives.h"

#include <algorithm>

namespace sparsecoll {

// Each stands in the file of its algorithm. A new one is named here and in the list below.
extern const CollectiveRow kAllGatherRow, kGTopKRow, kOkTopkRow, kSparCMLRow, kSplitGatherRow, kTopkDSARow, kSparDLRow,
    kIndexUnionRow;

namespace {

constexpr PresetRow kDensePresets[] = {
    {.name = "dense",
     .summary = "the engine's dense all-reduce: the baseline",
     .paper = "Rabenseifner 2004; ring: Patarasuk and Yuan 2009",
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollDense},
};

// Transports have it, so there is no file of it here.
constexpr CollectiveRow kDenseRow = {
    .id = sparsecollCollDense,
    .name = "dense",
    .paper = "Rabenseifner 2004; ring: Patarasuk and Yuan 2009",
    .make = nullptr,
    .contributors = Contributors::kAll,
    .facts = true,
    .presets = kDensePresets,
};

constexpr const CollectiveRow* kRows[] = {
    &kDenseRow,       &kAllGatherRow, &kGTopKRow,  &kOkTopkRow,     &kSparCMLRow,
    &kSplitGatherRow, &kTopkDSARow,   &kSparDLRow, &kIndexUnionRow,
};

}  // namespace

std::span<const CollectiveRow* const> collectiveRows() { return kRows; }

const CollectiveRow* collectiveRow(int32_t id) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows), [&](auto* row) { return row->id == id; });
  return found != std::end(kRows) ? *found : nullptr;
}

}  // namespace sparsecoll
