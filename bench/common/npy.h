// Reads NumPy's .npy files, format versions 1.0, 2.0 and 3.0: little-endian floats of 2, 4 and 8 bytes.
#pragma once

#include <string>
#include <vector>

namespace bench {

// Whether the name ends in .npy or the file begins as one does.
bool isNpy(const std::string& path);

// The array's entries in the order in which they lie in the file, whatever its shape; doubles are rounded. Throws
// EnvironmentError with the file's name if it is anything but a whole array of these types.
std::vector<float> readNpy(const std::string& path);

}  // namespace bench
