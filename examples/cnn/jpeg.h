// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace examples {

struct Picture {
  size_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // interleaved
};

/// Whether libjpeg-turbo was there when this was built.
bool canReadJpeg();

/// Errors: std::runtime_error with the file's name.
Picture readJpeg(const std::filesystem::path& path);

}  // namespace examples
