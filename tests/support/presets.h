// The names of the presets, as the library lists them.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <set>
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

// What tests of threads step through: all, and under ThreadSanitizer the first preset of each collective. Who races
// depends on who sends what to whom, not on what is selected.
inline std::vector<std::string> presetsToStep() {
  std::vector<std::string> names = allPresets();
#ifdef __SANITIZE_THREAD__
  std::set<int> seen;
  std::erase_if(names, [&seen](const std::string& name) {
    sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
    return sparsecollPreset(name.c_str(), &params) == sparsecollSuccess && !seen.insert(params.collective).second;
  });
#endif
  return names;
}

}  // namespace sparsecoll::test
