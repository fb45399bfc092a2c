// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

namespace examples {

/// Writes a vector of floats as NumPy's .npy file (format version 1.0), which numpy.load reads. Errors:
/// std::runtime_error with the file's name.
void writeNpy(const std::filesystem::path& path, const float* values, size_t count);

}  // namespace examples
