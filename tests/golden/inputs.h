// The inputs of the golden runs, with the bits that scripts/golden/inputs.py gives the authors' programs, and the runs'
// records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sparsecoll::test {

// What one of the authors' programs did in a step. Fingerprints are of bits and the places where they stand.
struct GoldenStep {
  uint64_t entries;                 // of the sum that are not 0
  uint64_t places;                  // fingerprint: 1 where the sum is not 0
  std::vector<uint64_t> residuals;  // a fingerprint a rank
  std::vector<double> thresholds;   // a rank; NaN: the program has none
};

struct GoldenRun {
  std::string input;  // made, uneven, cnn, lstm
  int copies;         // of the list of tensors
  int ranks;
  double density;
  std::vector<GoldenStep> steps;
};

struct GoldenRecord {
  std::string program;  // whose, at which commit, under which licence
  std::vector<GoldenRun> runs;
};

// tests/golden/METHOD.txt. Throws std::runtime_error with the file's name if it cannot be read or is malformed.
GoldenRecord goldenRecord(const std::string& method);

// Lengths of the tensors of a run.
std::vector<uint64_t> goldenTensors(const GoldenRun& run);
std::vector<float> goldenGradient(const GoldenRun& run, uint64_t step, int rank);

// -0 counts as 0.
uint64_t fingerprint(const std::vector<float>& vector);

}  // namespace sparsecoll::test
