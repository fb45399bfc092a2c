// SPDX-License-Identifier: Apache-2.0
// How long an utterance is, in the units of each stage. Free of LibTorch, which takes long to compile.
#pragma once

#include <algorithm>
#include <cstddef>

namespace examples {

/// Windows of 20 ms every 10 ms.
struct FrameShape {
  explicit FrameShape(int rate) : window(static_cast<size_t>(rate) / 50), hop(static_cast<size_t>(rate) / 100) {}

  size_t frequencies() const { return window / 2 + 1; }

  /// At least one: zeros fill it.
  size_t frames(size_t samples) const { return 1 + (std::max(samples, window) - window) / hop; }

  size_t window, hop;  // samples
};

constexpr size_t kStride = 3;  // frames to one step of the network

inline size_t stepsOf(size_t frames) { return (frames - 1) / kStride + 1; }

}  // namespace examples
