// Sizes of gradients in bytes, as -b, -e, -f and -i of nccl-tests say them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

// "1048576", "1024K", "1M", "4G": powers of 1024, 1 to 2^40 bytes.
std::optional<uint64_t> bytesIn(const std::string& text);

constexpr uint64_t kMostElements = 0xfffffffe;  // of a reducer

struct Sweep {
  std::string least, most, increment;  // as bytesIn reads them; empty: not given
  double factor = 2;

  bool asked() const { return !least.empty() || !most.empty() || !increment.empty(); }
  // Of elements of so many bytes: from the least to the most, which each default to the other. Throws UsageError.
  std::vector<uint64_t> elements(uint64_t bytesPerElement) const;
};

}  // namespace bench
