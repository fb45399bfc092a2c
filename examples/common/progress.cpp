// SPDX-License-Identifier: Apache-2.0
#include "examples/common/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace examples {

namespace {

constexpr uint64_t kPlainLines = 20;
constexpr uint64_t kBarCells = 10;
constexpr std::chrono::milliseconds kRedrawInterval{100};

// A line longer than the terminal would wrap, and then rewriting it would leave its first part behind.
size_t terminalWidth() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string label, std::string unit, uint64_t totalSteps)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      totalSteps_(std::max<uint64_t>(totalSteps, 1)),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (lineOpen_) std::fputc('\n', stderr);
}

bool Progress::isDue(uint64_t step) {
  if (terminal_) {
    const auto now = std::chrono::steady_clock::now();
    if (now < nextTime_ && step < totalSteps_) return false;
    nextTime_ = now + kRedrawInterval;
    return true;
  }
  if (step < nextStep_ && step < totalSteps_) return false;
  const uint64_t linesDone = step * kPlainLines / totalSteps_;
  nextStep_ = ((linesDone + 1) * totalSteps_ + kPlainLines - 1) / kPlainLines;
  return true;
}

std::string Progress::bar(uint64_t step) const {
  const uint64_t filled = std::min(step * kBarCells / totalSteps_, kBarCells);
  return '[' + std::string(filled, '#') + std::string(kBarCells - filled, '.') + ']';
}

void Progress::update(const ProgressState& state) {
  if (!isDue(state.step)) return;
  std::array<char, 256> text{};
  // At most 80 columns for a run of less than 1000 steps.
  std::snprintf(text.data(), text.size(), "%s %s %llu/%llu, %s left, loss %.3f, %.0f %s/s, %s/step", label_.c_str(),
                bar(state.step).c_str(), static_cast<unsigned long long>(state.step),
                static_cast<unsigned long long>(totalSteps_), formatDuration(state.secondsLeft).c_str(), state.loss,
                state.samplesPerSecond, unit_.c_str(), formatBytes(static_cast<double>(state.sentBytes)).c_str());
  if (terminal_) text[std::min(text.size() - 1, terminalWidth() - 1)] = '\0';
  // "\033[K" clears what a longer line before has left.
  std::fprintf(stderr, terminal_ ? "\r%s\033[K" : "%s\n", text.data());
  std::fflush(stderr);
  lineOpen_ = terminal_;
}

std::string formatDuration(double seconds) {
  std::array<char, 32> text{};
  if (seconds < 99.5)
    std::snprintf(text.data(), text.size(), "%.0f s", seconds);
  else if (seconds < 99.5 * 60)
    std::snprintf(text.data(), text.size(), "%.0f min", seconds / 60);
  else
    std::snprintf(text.data(), text.size(), "%.1f h", seconds / 3600);
  return text.data();
}

std::string formatBytes(double bytes) {
  static constexpr std::array<const char*, 4> kUnits{"B", "kB", "MB", "GB"};
  size_t unit = 0;
  while (bytes >= 1000.0 && unit + 1 < kUnits.size()) {
    bytes /= 1000.0;
    ++unit;
  }
  std::array<char, 32> text{};
  const int digits = unit == 0 ? 0 : (bytes < 10.0 ? 2 : 1);
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, bytes, kUnits[unit]);
  return text.data();
}

}  // namespace examples
