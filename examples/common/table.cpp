// SPDX-License-Identifier: Apache-2.0
#include "examples/common/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace examples {

namespace {

std::string formatRow(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - cells[i].size(), ' ');
    if (i > 0) line += "  ";
    line += i == 0 ? cells[i] + padding : padding + cells[i];
  }
  return line + '\n';
}

}  // namespace

std::string formatTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(header.size());
  for (size_t i = 0; i < header.size(); ++i) {
    widths[i] = header[i].size();
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> rule;
  for (const size_t width : widths) rule.emplace_back(width, '-');
  std::string text = formatRow(header, widths) + formatRow(rule, widths);
  for (const auto& row : rows) text += formatRow(row, widths);
  return text;
}

std::string formatFixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

}  // namespace examples
