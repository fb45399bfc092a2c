#include "bench/perf/distribution.h"

#include <cmath>
#include <numbers>

#include "bench/common/errors.h"
#include "bench/common/number.h"
#include "bench/common/random.h"

namespace bench {

namespace {

constexpr uint64_t kSteps = 65536;
constexpr double kScale = 0.01;  // about what gradients of networks have

double normalExceeded(double probability) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::numbers::sqrt2) > probability ? low : high) = middle;
  }
  return low;
}

double numberAfter(const std::string& text, size_t colon) {
  const std::optional<double> number = numberIn<double>(std::string_view(text).substr(colon + 1));
  if (number && *number > 0) return *number;
  throw UsageError("--dist " + text + ": the exponent is a number above 0");
}

}  // namespace

Distribution::Distribution(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (kind == "file" && colon != std::string::npos) {
    if (colon + 1 == text.size()) throw UsageError("--dist " + text + ": a path follows the colon");
    recording_ = readRecording(text.substr(colon + 1));
    return;
  }
  if (text == "normal") {
    exceeded_ = normalExceeded;
  } else if (text == "laplace") {
    exceeded_ = [](double probability) { return -std::log(probability); };
  } else if (kind == "powerlaw" && colon != std::string::npos) {
    exceeded_ = [exponent = numberAfter(text, colon)](double p) { return std::pow(p, -1 / exponent); };
  } else {
    throw UsageError("--dist " + text + ": there are normal, laplace, powerlaw:EXPONENT, file:PATH");
  }
  tabulate();
}

void Distribution::tabulate() {
  table_.resize(kSteps);
  for (uint64_t i = 0; i < kSteps; ++i) table_[i] = exceeded_(1 - static_cast<double>(i) / kSteps);
}

// Between two entries of the table a straight line will do; the largest magnitudes, which selection is about, are
// computed.
double Distribution::magnitude(uint64_t random) const {
  const uint64_t step = random >> 48;
  const double part = static_cast<double>(random & 0xffffffffu) * 0x1p-32;
  if (step + 1 < kSteps) return table_[step] + part * (table_[step + 1] - table_[step]);
  return exceeded_((1 - part) / kSteps);
}

double Distribution::at(uint64_t seed, uint64_t i) const {
  if (hasPlaces()) return static_cast<double>(recording_.entries[i % recording_.entries.size()]);
  const uint64_t random = randomAt(seed, i);
  const double x = kScale * magnitude(random);
  return (random >> 32 & 1) != 0 ? -x : x;
}

}  // namespace bench
