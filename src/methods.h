// The methods by their ids and names. Their rows stand with them: selectors/selectors.h, collectives/collectives.h.
#pragma once

#include <cstdint>

#include "collectives/collectives.h"
#include "core/preset.h"
#include "core/status.h"
#include "selectors/selectors.h"

namespace sparsecoll {

// Errors: InvalidArgument (no method ever had this id), Unsupported (a published method that this version does not
// have).
Result<const SelectorRow*> findSelector(int32_t id);
// params.selector's, if it has the published rule that params.faithful names; else InvalidArgument.
Result<const SelectorRow*> findSelector(const sparsecollParams_t& params);
Result<const CollectiveRow*> findCollective(int32_t id);

// The i-th of all presets: those of the collectives, the dense one first, then those of the selectors. nullptr: there
// are fewer.
const PresetRow* presetRow(uint32_t i);
// The first with these, whatever its other parameters are. nullptr: there is none.
const PresetRow* presetLike(int32_t selector, int32_t collective, int32_t distribution);
// One of these, or auto. Errors: InvalidArgument; its message lists all presets.
Result<const PresetRow*> findPreset(const char* name);

}  // namespace sparsecoll
