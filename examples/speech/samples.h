// SPDX-License-Identifier: Apache-2.0
// What readers of recordings have in common.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/speech/wav.h"

namespace examples {

inline void appendSamples(const Recording& recording, std::vector<float>& samples) {
  for (const int16_t sample : recording.samples) samples.push_back(static_cast<float>(sample) / 32768);
}

/// One model sees one rate. rate: of the recordings before, 0: none. Errors: std::runtime_error with the path.
inline void joinRate(const Recording& recording, const std::filesystem::path& path, int& rate) {
  if (rate == 0) rate = recording.rate;
  if (rate != recording.rate) {
    throw std::runtime_error(path.string() + ": " + std::to_string(recording.rate) +
                             " samples a second where the files before have " + std::to_string(rate));
  }
}

}  // namespace examples
