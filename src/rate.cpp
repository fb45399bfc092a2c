#include "src/rate.h"

#include <charconv>
#include <cmath>

#include "core/environment.h"
#include "transports/pace.h"

namespace sparsecoll {

namespace {

// 0: no unit.
double factorOf(std::string_view unit) {
  if (unit.empty()) return 1;
  if (unit == "k") return 1e3;
  if (unit == "M") return 1e6;
  if (unit == "G") return 1e9;
  return unit == "T" ? 1e12 : 0;
}

}  // namespace

Result<uint64_t> readRate(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const double bits = number * factorOf({rest, static_cast<size_t>(end - rest)});
  // A number that is none compares as neither.
  const bool inRange = bits >= double{engine::kSlowestRate} && bits <= double{engine::kFastestRate};
  if (error != std::errc() || !inRange)
    return invalid("{} is '{}': it takes bits per second from 1k to 1000T, such as 100M or 2.5G", variable::kRate, text);
  return static_cast<uint64_t>(std::llround(bits));
}

Result<uint64_t> sendRate() {
  const char* const given = environmentText(variable::kRate);
  if (given == nullptr) return 0;
  return readRate(given);
}

}  // namespace sparsecoll
