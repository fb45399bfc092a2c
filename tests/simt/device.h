// The device that the emulation claims to be.
#pragma once

#include <cstddef>

namespace simt {

inline constexpr unsigned kThreadsPerBlock = 1024, kThreadsPerMultiprocessor = 2048, kBlocksPerMultiprocessor = 32;
inline constexpr unsigned kMultiprocessors = 3;
inline constexpr int kMostDevices = 8, kMostConnections = 32;
inline constexpr size_t kSharedPerBlock = 48 * 1024, kSharedPerBlockOptin = 227 * 1024;
inline constexpr size_t kSharedPerMultiprocessor = 228 * 1024, kSharedReserved = 1024;
inline constexpr int kL2Bytes = 50 * 1024 * 1024;
inline constexpr size_t kMemoryBytes = size_t{80} << 30;

}  // namespace simt
