// One measured case, as the table and the JSON file show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

// Microseconds, unless the name says otherwise.
struct Timing {
  double select = 0, exchange = 0, scatter = 0, total = 0;
  double best = 0;            // total of the fastest step
  double p50 = 0, p99 = 0;    // of single ranks
  double total99 = 0;         // the 99th percentile of what `total` is the median of
  std::vector<double> ranks;  // each rank's median
  double local = 0;           // computing time of the rank that needs most; on a device, to enqueue the step
  uint64_t steps = 0;         // that were timed
  bool phases = true;         // select, exchange and scatter were measured
  uint64_t sentBytes = 0;
  uint64_t insideBytes = 0, betweenBytes = 0;  // of a rank and step over nodes, to ranks of its node and to others
  uint64_t selected = 0;                       // entries a rank sent
  uint64_t unionEntries = 0;
  double achievedDensity = 0;
  double imbalance = 0;        // the longest of the ranks' lists over the mean one
  double selectImbalance = 0;  // the slowest rank's selection over the mean one
  uint64_t k = 0;
  std::string reason;  // of the choice of a method
  bool dense = false;  // the dense sum was timed, which auto may take
};

struct CheckResult {
  uint64_t wrong = 0;
  uint64_t hash = 0;       // of all sums; the same for the same case on every machine and instruction set
  std::string firstWrong;  // what was seen, or empty
};

struct Row {
  uint64_t n = 0;
  std::string type;
  double density = 0;
  std::string preset;
  std::string ranks;
  Timing timing;
  std::optional<double> wirePercent;  // one rank sends nothing
  double algbw = 0, busbw = 0;        // 1e9 bytes a second
  std::optional<double> speedup;
  double roofline = 0;
  std::optional<double> localRoofline;  // in computing time; on a device that says nothing
  std::optional<CheckResult> check;
  std::string notCaptured;  // why the case cannot be replayed; there is nothing else to tell of it then
};

}  // namespace bench
