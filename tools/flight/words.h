// Ranks, numbers and operations in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/flight/recording.h"

namespace flight {

// "rank 3", "ranks 0-2, 5".
std::string ranksText(std::vector<int> ranks);
// "25M", "250k"; a number that is not round has all its digits.
std::string numberText(uint64_t number);
// "29.9 s", "12 ms".
std::string durationText(int64_t ns);
// "ReducerRun of the reducer with tag 4 (preset topka, n 25M, k 250k)".
std::string operationText(const Entry& entry);

}  // namespace flight
