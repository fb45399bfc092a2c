// Methods that the preset auto chooses among, and the head of a tuner file, which has a column for each.
#pragma once

#include <cstddef>

namespace sparsecoll {

struct CandidateRow {
  const char* preset;
  bool countsAllRanks;  // its density counts the entries of all ranks together
};

// top-k by all-gather delivers the union of what the ranks select, up to P k entries. Methods whose k counts all ranks
// get P k, so that none delivers fewer. MiCRO, DEFT and ExDyna then send half as much again as topka, and gTop-k sends
// log P times as much: they cannot win. The first one begins, and goes through a warm-up of the density.
inline constexpr CandidateRow kCandidates[] = {
    {"topka", false},
    {"sparcml-split", false},
    {"spardl", true},
    {"dense", false},
};
inline constexpr size_t kCandidateCount = sizeof kCandidates / sizeof kCandidates[0];

// The first line of a tuner file, with the version of the format.
inline constexpr const char* kTunerTitle = "# sparsecoll tuner file 1";
// Lines "NAME,VALUE", each once and in this order. Files that were made for other values say nothing of a reducer.
inline constexpr const char* kTunerRanks = "ranks";
inline constexpr const char* kTunerNodes = "nodes";  // that these are on
inline constexpr const char* kTunerEngine = "engine";
inline constexpr const char* kTunerType = "type";
// Then names of columns: these two, and the candidates in their order, whose times are milliseconds.
inline constexpr const char* kTunerElements = "elements";
inline constexpr const char* kTunerDensity = "density";

}  // namespace sparsecoll
