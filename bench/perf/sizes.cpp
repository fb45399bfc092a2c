#include "bench/perf/sizes.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "bench/common/errors.h"
#include "bench/common/number.h"

namespace bench {

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr size_t kMostSizes = 1000;

}  // namespace

std::optional<uint64_t> bytesIn(const std::string& text) {
  constexpr std::string_view kUnits = "kmgKMG";
  const size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  const bool scaled = unit != std::string_view::npos;
  const std::optional<uint64_t> number =
      numberIn<uint64_t>(std::string_view(text).substr(0, text.size() - (scaled ? 1 : 0)));
  const uint64_t scale = scaled ? uint64_t{1} << (10 * (unit % 3 + 1)) : 1;
  if (!number || *number < 1 || *number > kMostBytes / scale) return std::nullopt;
  return *number * scale;
}

std::vector<uint64_t> Sweep::elements(uint64_t bytesPerElement) const {
  if (least.empty() && most.empty()) throw UsageError("--stepbytes goes with --minbytes and --maxbytes");
  const uint64_t first = bytesIn(least.empty() ? most : least).value_or(0);
  const uint64_t last = bytesIn(most.empty() ? least : most).value_or(0);
  const uint64_t step = bytesIn(increment).value_or(0);
  if (last < first) throw UsageError(fmt::format("--maxbytes {} is less than --minbytes {}", most, least));
  std::vector<uint64_t> all;
  for (uint64_t bytes = first; bytes <= last;) {
    const uint64_t n = std::max<uint64_t>(1, bytes / bytesPerElement);
    if (n > kMostElements)
      throw UsageError(fmt::format("--minbytes, --maxbytes: {} elements, a reducer has at most {}", n, kMostElements));
    if (all.empty() || all.back() != n) all.push_back(n);
    if (all.size() > kMostSizes)
      throw UsageError(fmt::format("--minbytes, --maxbytes: more than {} sizes", kMostSizes));
    bytes = step != 0 ? bytes + step : std::max(bytes + 1, static_cast<uint64_t>(static_cast<double>(bytes) * factor));
  }
  return all;
}

}  // namespace bench
