// SPDX-License-Identifier: Apache-2.0
// Free of LibTorch on purpose, which takes 15 s to compile.
#pragma once

#include <cstddef>
#include <memory>

#include "examples/common/program.h"
#include "examples/ncf/ratings.h"

namespace examples {

class Task;

struct NcfOptions {
  size_t factors = 64;
  double dropout = 0.5;
  size_t negatives = 4;  // for each positive
};

std::shared_ptr<Task> makeNcfTask(const Interactions& data, const NcfOptions& options, const Settings& settings,
                                  const Replica& replica);

}  // namespace examples
