// SPDX-License-Identifier: Apache-2.0
// One progress bar on stderr: a line that is rewritten on a terminal, a plain line every 5 % elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace examples {

struct ProgressState {
  uint64_t step;  // steps done
  double loss;
  double samplesPerSecond;
  double secondsLeft;  // of this training and those after it
  uint64_t sentBytes;  // of the latest step, this rank
};

class Progress {
 public:
  /// unit: of samplesPerSecond, "img".
  Progress(std::string label, std::string unit, uint64_t totalSteps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state);

 private:
  bool isDue(uint64_t step);
  std::string bar(uint64_t step) const;

  std::string label_;
  std::string unit_;
  uint64_t totalSteps_;
  bool terminal_;
  bool lineOpen_ = false;
  uint64_t nextStep_ = 0;                             // not a terminal: print from here on
  std::chrono::steady_clock::time_point nextTime_{};  // a terminal: redraw from here on
};

/// "45 s", "12 min", "3.5 h".
std::string formatDuration(double seconds);

/// "812 B", "43.2 kB", "1.08 MB".
std::string formatBytes(double bytes);

}  // namespace examples
