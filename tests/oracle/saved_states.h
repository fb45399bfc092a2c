// Methods whose states are saved, and how they come to have one.
#pragma once

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/group.h"

namespace sparsecoll::test {

struct MethodRow {
  const char* preset;
  bool faithful;
  bool transactional;
  double momentum = 0;
};
inline constexpr MethodRow kMethods[] = {
    {"topka", false, false},   {"topka", false, true},     {"threshold", false, false},  {"micro", false, false},
    {"micro", false, true},    {"micro", true, false},     {"dense", false, false},      {"sage", false, true},
    {"sage", true, false},     {"sidco-gp", false, false}, {"sidco-p", true, false},     {"gaussiank", false, false},
    {"redsync", false, false}, {"cltk", false, true},      {"topka", false, false, 0.9}, {"micro", false, true, 0.5},
    {"dgc", false, false},     {"dgc", true, true}};

inline sparsecollParams_t paramsOf(const MethodRow& row, double density = 0.05) {
  sparsecollParams_t params = preset(row.preset, std::string(row.preset) == "dense" ? 0 : density);
  params.faithful = row.faithful ? 1 : 0;
  if (row.momentum != 0) params.momentum = row.momentum;
  return params;
}

inline sparsecollReducerConfig_t configOf(const MethodRow& row) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = row.transactional ? 1 : 0;
  return config;
}

inline std::vector<Blob> exportAll(const Group& group) {
  std::vector<Blob> blobs;
  for (int rank = 0; rank < group.count(); ++rank) blobs.push_back(exported(group.reducer(rank)));
  return blobs;
}

inline void runSteps(Group& group, uint64_t first, uint64_t count) {
  for (uint64_t step = first; step < first + count; ++step) {
    group.fillRandom(step);
    REQUIRE(group.step() == all(group.count(), sparsecollSuccess));
  }
}

inline bool sameState(const Group& a, const Group& b) {
  for (int rank = 0; rank < a.count(); ++rank)
    if (!(a.residual(rank) == b.residual(rank)) ||
        !(a.outs[static_cast<size_t>(rank)] == b.outs[static_cast<size_t>(rank)]))
      return false;
  return true;
}

}  // namespace sparsecoll::test
