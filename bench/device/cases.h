// What is measured on a device, one function a row of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/device/library.h"
#include "bench/device/measure.h"

namespace bench {

inline constexpr uint64_t kLists = 8;       // that are merged and combined
inline constexpr uint64_t kSegments = 300;  // tensors of a network
inline constexpr uint64_t kSelectionRanks = 8;

struct Settings {
  Replays replays;
  uint64_t noises = 48;  // gradients that a loop with error feedback meets, each with both signs
  uint64_t sets = 0;     // of buffers to go around; 0: as many as exceed the device's cache twice
};

struct Counter {
  std::string name;
  double value = 0;
};

struct Outcome {
  Times times;
  double bytes = 0;  // 0: a rule, which moves next to nothing
  std::vector<Counter> counters;
  uint64_t wrong = 0;  // counts that are not what they have to be
};

// What all cases of one vector length work on.
class Vectors {
 public:
  Vectors(const Device& device, uint64_t n, const Settings& settings);

  const Device& device() const { return device_; }
  uint64_t n() const { return n_; }
  const Settings& settings() const { return settings_; }
  // How many buffers of so many bytes to go around.
  uint64_t setsFor(double bytes) const;
  Outcome timed(const Operation& operation) const;
  // Normal noise, at another place in every step: a residual meets fresh noise each time.
  const float* gradient(uint64_t step) const {
    const Spot spot = spotOf(step);
    return gradients_[spot.buffer].get() + spot.shift;
  }
  // Where a step's gradient begins: in which of the buffers of noise, and how many entries behind its start.
  struct Spot {
    uint64_t buffer, shift;
  };
  Spot spotOf(uint64_t step) const;
  const std::vector<DeviceArray<float>>& noise() const { return gradients_; }
  // The key that density * n entries of gradient(0) reach.
  uint32_t keyOf(double density) const;

 private:
  const Device& device_;
  uint64_t n_;
  Settings settings_;
  uint64_t cacheBytes_ = 0;
  std::vector<DeviceArray<float>> gradients_;
};

// The same gradients rounded to a type whose residual is float.
class TypedGradients {
 public:
  TypedGradients(const Vectors& vectors, sparsecollDataType_t type);

  sparsecollDataType_t type() const { return type_; }
  uint64_t bytes() const { return sparsecoll::elementBytes(type_); }  // of an element
  const void* gradient(uint64_t step) const;
  // The key that at least density * n entries of gradient(0) reach: in a narrow type several have one magnitude.
  uint32_t keyOf(double density) const;

 private:
  const Vectors& vectors_;
  sparsecollDataType_t type_;
  std::vector<DeviceArray<std::byte>> rounded_;  // empty for float
};

inline constexpr const char* kOurs = "sparsecoll";
inline constexpr const char* kNvidia = "NVIDIA";

struct CaseKind {
  const char* name;
  const char* what;
  bool perDensity;  // it is measured for every density
  Outcome (*run)(const Vectors& vectors, double density);
  const char* who = kOurs;
};
std::span<const CaseKind> loopCases();
std::span<const CaseKind> selectionCases();
std::span<const CaseKind> feedbackCases();
std::span<const CaseKind> listCases();
std::span<const CaseKind> rivalCases();  // none in a program that is built without
std::span<const CaseKind> ruleCases();

// What workspaces for the cases of this length have to hold.
sparsecoll::WorkspaceNeed needFor(uint64_t n, double largestDensity);

}  // namespace bench
