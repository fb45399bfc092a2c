// Recorded gradients: a .npy file, a file of raw 32-bit floats, or a folder of .npy files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Recording {
  std::vector<float> entries;  // of all files, one after the other in the order of their names
  uint64_t files = 0;
  uint64_t first = 0;  // entries of the first file
};

// Throws EnvironmentError with the name of the file that is missing, broken, empty, or has an entry that is NaN or Inf.
Recording readRecording(const std::string& path);

// One file, NaN and Inf included.
std::vector<float> readGradient(const std::string& path);

}  // namespace bench
