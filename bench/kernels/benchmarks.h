// One function a benchmark; n is the vector's length.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

void benchInplaceAdd(benchmark::State& state, uint64_t n);
void benchRead(benchmark::State& state, uint64_t n);

void benchFusedPass(benchmark::State& state, uint64_t n, double density);
void benchExactTopK(benchmark::State& state, uint64_t n, double density);
void benchThresholdSelect(benchmark::State& state, uint64_t n, double density);
void benchNthElement(benchmark::State& state, uint64_t n, double density);

inline constexpr uint64_t kMergeLists = 8;
inline constexpr uint64_t kCombineLists = 4;
void benchMerge(benchmark::State& state, uint64_t n, double density);
void benchCombine(benchmark::State& state, uint64_t n, double density);

// A rank's whole selection by a method, beside the accumulate pass.
std::vector<std::string> selectionMethods();
void benchSelection(benchmark::State& state, const std::string& method, uint64_t n, double density, int ranks);

}  // namespace bench
