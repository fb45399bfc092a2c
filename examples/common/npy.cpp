// SPDX-License-Identifier: Apache-2.0
#include "examples/common/npy.h"

#include <fstream>
#include <stdexcept>
#include <string>

namespace examples {

namespace {

constexpr size_t kAlignment = 64;  // of the data, as the format asks

}  // namespace

void writeNpy(const std::filesystem::path& path, const float* values, size_t count) {
  std::string header("\x93NUMPY\x01\x00\x00\x00", 10);
  header += "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  header.append(kAlignment - 1 - header.size() % kAlignment, ' ');
  header += '\n';
  const size_t textBytes = header.size() - 10;  // little-endian, behind magic and version
  header[8] = static_cast<char>(textBytes & 0xff);
  header[9] = static_cast<char>(textBytes >> 8);

  std::ofstream file(path, std::ios::binary);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(count * sizeof(float)));
  if (!file.flush()) throw std::runtime_error(path.string() + ": cannot be written");
}

}  // namespace examples
