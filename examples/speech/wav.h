// SPDX-License-Identifier: Apache-2.0
// Recordings in the one form that speech data sets come in: RIFF, PCM, 16 bits, one channel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace examples {

struct Recording {
  std::vector<int16_t> samples;
  int rate = 0;  // samples per second
};

/// Reads a WAV file. Every length in it must agree with every other and with the file's, so that what a download that
/// broke off leaves behind is refused. Chunks besides "fmt " and "data" are skipped. Errors: std::runtime_error "FILE:
/// what".
Recording readWav(const std::filesystem::path& path);

}  // namespace examples
