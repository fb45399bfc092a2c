// The C ABI with owners instead of Destroy calls and exceptions instead of results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/common/errors.h"
#include "bench/perf/element.h"
#include "sparsecoll/sparsecoll.h"

namespace bench {

// What was asked for is not in the library. Where a step was being captured: it cannot be.
struct UnsupportedError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

// Throws EnvironmentError with the library's words.
void check(sparsecollResult_t result, const char* call);

// What others are to deliver no fewer entries than.
inline constexpr const char* kTopK = "topka";

// The preset that finds the fastest method by trials, which is none of the published ones. So many steps, and its
// choice is made.
inline constexpr const char* kAuto = "auto";
inline constexpr uint64_t kAutoSteps = 42;

std::vector<std::string> presetNames();
bool isDense(const sparsecollParams_t& params);
bool isExactTopK(const sparsecollParams_t& params);

struct Method {
  std::string preset;
  double density = 0;
  sparsecollRedOp_t op = sparsecollSum;
  uint32_t flags = 0;
  double threshold = 0;
  bool momentum = true;  // where the preset has it
  bool transactional = false;
  bool overNodes = false;  // the preset between nodes, dense sums inside

  sparsecollParams_t params() const;
};

// Entries that a density asks for (see sparsecollParams_t.k).
uint64_t entriesOf(double density, uint64_t n);

class Reducer {
 public:
  // Every rank makes one at the same time.
  Reducer(const Method& method, uint64_t n, const ElementType& type, sparsecollComm_t comm);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void run(const void* gradient, void* out, void* stream = nullptr);
  sparsecollStats_t stats() const;
  sparsecollReducerInfo_t info() const;
  const void* residual() const;  // nullptr: the method has none

 private:
  sparsecollReducer_t handle_ = nullptr;
};

}  // namespace bench
