// The fields of a method in one table: it drives checks, the record that ranks compare, and the names in mismatch
// reports.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "src/agreed_fields.h"

namespace sparsecoll {

inline constexpr uint32_t kKnownFlags = SPARSECOLL_ACCUMULATE | SPARSECOLL_OUT_PRESERVED | SPARSECOLL_SELECT_NOTHING |
                                        SPARSECOLL_NO_RESIDUAL | SPARSECOLL_MOMENTUM_KEPT | SPARSECOLL_NESTEROV |
                                        SPARSECOLL_AVERAGE_CONTRIBUTORS;

// Checks every field on its own and fills in defaults (scales of 1, the default selector, index and wire types).
Result<sparsecollParams_t> readParams(const sparsecollParams_t* user);

// Density or k, where the collective selects at all.
Status checkDensity(const sparsecollParams_t& params);

// Whether a step does more to the gradient than scale it and add it to the residual; and whether it needs more for it
// than the gradient.
bool shapesInput(const sparsecollParams_t& params);
bool shapesResidual(const sparsecollParams_t& params);

// All of them.
AgreedFields agreedFields(const sparsecollParams_t& params);

}  // namespace sparsecoll
