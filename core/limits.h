#pragma once

#include <cstdint>

namespace sparsecoll {

inline constexpr int kMaxRanks = 1024;
inline constexpr int kMostDeviceRanks = 256;                  // a kernel's tables of lists
inline constexpr uint32_t kTrials = 48;                       // keys that candidates are counted at
inline constexpr uint64_t kMaxReducerLength = 0xfffffffeull;  // indices of a reducer are 32 bits wide

}  // namespace sparsecoll
