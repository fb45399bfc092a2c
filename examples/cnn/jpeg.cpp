// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/jpeg.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#ifdef EXAMPLES_WITH_JPEG
#include <turbojpeg.h>
#endif

namespace examples {

namespace {

constexpr uint64_t kMostPixels = 1u << 28;  // what a damaged header may make this program allocate

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": " + what);
}

}  // namespace

#ifdef EXAMPLES_WITH_JPEG

bool canReadJpeg() { return true; }

Picture readJpeg(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "cannot be read");
  const std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(stream), {}};
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) fail(path, tjGetErrorStr());
  int width = 0, height = 0, sampling = 0, space = 0;
  if (tjDecompressHeader3(decoder.get(), bytes.data(), bytes.size(), &width, &height, &sampling, &space) != 0)
    fail(path, tjGetErrorStr2(decoder.get()));
  if (width <= 0 || height <= 0 || static_cast<uint64_t>(width) * static_cast<uint64_t>(height) > kMostPixels)
    fail(path, "its size is " + std::to_string(width) + " x " + std::to_string(height));
  Picture picture;
  picture.width = static_cast<size_t>(width);
  picture.height = static_cast<size_t>(height);
  picture.rgb.resize(picture.width * picture.height * 3);
  if (tjDecompress2(decoder.get(), bytes.data(), bytes.size(), picture.rgb.data(), width, 0, height, TJPF_RGB, 0) != 0)
    fail(path, tjGetErrorStr2(decoder.get()));
  return picture;
}

#else

bool canReadJpeg() { return false; }

Picture readJpeg(const std::filesystem::path& path) { fail(path, "built without libjpeg-turbo"); }

#endif

}  // namespace examples
