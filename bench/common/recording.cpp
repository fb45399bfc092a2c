#include "bench/common/recording.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "bench/common/errors.h"
#include "bench/common/npy.h"

namespace bench {

namespace fs = std::filesystem;

namespace {

std::vector<float> readRaw(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  if (error || !stream) throw EnvironmentError(path + ": cannot be opened");
  if (bytes % sizeof(float) != 0) throw EnvironmentError(path + ": not a file of 32-bit floats");
  std::vector<float> entries(bytes / sizeof(float));
  if (!stream.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(bytes)))
    throw EnvironmentError(path + ": cannot be read");
  return entries;
}

std::vector<std::string> filesOf(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".npy") files.push_back(entry.path().string());
  if (files.empty()) throw EnvironmentError(path + ": there is no .npy file in this folder");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<float> readGradient(const std::string& path) {
  std::vector<float> entries = isNpy(path) ? readNpy(path) : readRaw(path);
  if (entries.empty()) throw EnvironmentError(path + ": there are no entries in it");
  return entries;
}

Recording readRecording(const std::string& path) {
  Recording recording;
  for (const std::string& file : filesOf(path)) {
    const std::vector<float> gradient = readGradient(file);
    const auto broken = std::find_if(gradient.begin(), gradient.end(), [](float x) { return !std::isfinite(x); });
    if (broken != gradient.end())
      throw EnvironmentError(fmt::format("{}: entry {} is {}", file, broken - gradient.begin(), *broken));
    if (recording.files == 0) recording.first = gradient.size();
    recording.entries.insert(recording.entries.end(), gradient.begin(), gradient.end());
    ++recording.files;
  }
  return recording;
}

}  // namespace bench
