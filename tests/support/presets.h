// The names of the presets, as the library lists them.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <string>
#include <vector>

namespace sparsecoll::test {

inline std::vector<std::string> allPresets() {
  std::vector<std::string> names;
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) names.emplace_back(sparsecollPresetName(i));
  return names;
}

// Without the dense baseline.
inline std::vector<std::string> sparsePresets() {
  std::vector<std::string> names = allPresets();
  std::erase(names, "dense");
  return names;
}

}  // namespace sparsecoll::test
