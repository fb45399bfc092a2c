// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace examples {

/// Lines up rows of text: the first column to the left, the others to the right. Rows have as many cells as the header.
std::string formatTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

/// value with the given number of decimals.
std::string formatFixed(double value, int decimals);

}  // namespace examples
