// The text on the terminal and the JSON file.
#pragma once

#include <string>
#include <vector>

#include "bench/fit/analysis.h"

namespace bench {

void print(const Analysis& analysis);

std::string jsonOf(const std::vector<Analysis>& analyses);

}  // namespace bench
