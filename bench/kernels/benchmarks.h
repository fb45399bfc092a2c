// One function a benchmark; n is the vector's length.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

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

}  // namespace bench
