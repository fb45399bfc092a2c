#include "tests/golden/inputs.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "core/random.h"
#include "tests/support/elements.h"

namespace sparsecoll::test {

namespace {

constexpr uint64_t kTensors[] = {432, 16, 2304, 16, 4608, 32, 9216, 32, 640, 10};
constexpr uint64_t kSteps = 8;

uint64_t chance(uint64_t place, uint64_t step, int rank) {
  return mixBits(place + (((step << 8) + static_cast<uint64_t>(rank)) << 32));
}

std::vector<float> made(const GoldenRun& run, uint64_t step, int rank) {
  std::vector<float> gradient;
  const std::vector<uint64_t> tensors = goldenTensors(run);
  const bool uneven = run.input == "uneven";
  for (size_t t = 0; t < tensors.size(); ++t)
    for (uint64_t e = 0; e < tensors[t]; ++e) {
      const uint64_t bits = chance(gradient.size(), step, rank);
      double power = static_cast<double>((bits >> 24) + 1) * 0x1p-40;
      for (int squared = 0; squared < 3; ++squared) power *= power;
      const double signedPower = (bits & 1) != 0 ? -power : power;
      const int louder = uneven && tensors[t] <= 32 ? 6 : 0;
      gradient.push_back(static_cast<float>(std::ldexp(signedPower, louder - static_cast<int>(t % 4))));
    }
  return gradient;
}

// The first n halves of an array of format version 1.0.
Elements halvesOf(const std::string& path, uint64_t n) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10 || bytes.find("'<f2'") == std::string::npos) throw std::runtime_error(path + ": no halves");
  const size_t begin = 10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  if (bytes.size() < begin + 2 * n) throw std::runtime_error(path + ": too short");
  return {sparsecollFloat16, n, bytes.data() + begin};
}

std::vector<float> recorded(const GoldenRun& run, uint64_t step, int rank) {
  const std::vector<uint64_t> tensors = goldenTensors(run);
  const uint64_t n = std::accumulate(tensors.begin(), tensors.end(), uint64_t{0});
  const char* const when = step < kSteps / 2 ? "-step10.npy" : "-step300.npy";
  const Elements halves = halvesOf(SPARSECOLL_TEST_GRADIENTS "/" + run.input + when, n);
  std::vector<float> gradient(n);
  for (uint64_t i = 0; i < n; ++i) {
    const auto factor = static_cast<double>(4096 + (chance(i, step, rank) >> 52));
    gradient[i] = static_cast<float>(halves[i] * factor * 0x1p-26);
  }
  return gradient;
}

// Numbers as Python writes them; streams do not read nan.
double numberOf(const std::string& word) {
  return word == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::stod(word);
}

}  // namespace

std::vector<uint64_t> goldenTensors(const GoldenRun& run) {
  std::vector<uint64_t> tensors;
  for (int copy = 0; copy < run.copies; ++copy) tensors.insert(tensors.end(), std::begin(kTensors), std::end(kTensors));
  return tensors;
}

std::vector<float> goldenGradient(const GoldenRun& run, uint64_t step, int rank) {
  const bool isMade = run.input == "made" || run.input == "uneven";
  return isMade ? made(run, step, rank) : recorded(run, step, rank);
}

uint64_t fingerprint(const std::vector<float>& vector) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < vector.size(); ++i) sum += mixBits(i << 32 | std::bit_cast<uint32_t>(vector[i] + 0.0F));
  return sum;
}

GoldenRecord goldenRecord(const std::string& method) {
  const std::string path = SPARSECOLL_TEST_GOLDEN "/" + method + ".txt";
  std::ifstream file(path);
  GoldenRecord record;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "#") {
      if (record.program.empty()) record.program = line.substr(2);
    } else if (first == "case") {
      GoldenRun run;
      words >> run.input >> run.copies >> run.ranks >> run.density;
      record.runs.push_back(run);
    } else {
      if (record.runs.empty()) throw std::runtime_error(path + ": a step of no run");
      GoldenRun& run = record.runs.back();
      GoldenStep step;
      words >> step.entries >> std::hex >> step.places;
      step.residuals.resize(static_cast<size_t>(run.ranks));
      for (uint64_t& residual : step.residuals) words >> residual;
      for (int rank = 0; rank < run.ranks; ++rank) {
        std::string threshold;
        words >> threshold;
        if (words) step.thresholds.push_back(numberOf(threshold));
      }
      run.steps.push_back(step);
    }
    if (words.fail()) throw std::runtime_error(path + ": " + line);
  }
  if (record.runs.empty()) throw std::runtime_error(path + ": no runs");
  for (const GoldenRun& run : record.runs)
    if (run.steps.size() != kSteps) throw std::runtime_error(path + ": a run of other than 8 steps");
  return record;
}

}  // namespace sparsecoll::test
