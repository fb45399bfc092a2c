#include "host/gather.h"

#include <algorithm>
#include <array>

#include "core/limits.h"
#include "core/numeric.h"
#include "core/prefetch.h"

namespace sparsecoll::host {

namespace {

constexpr uint64_t kTogether = 128;  // entries of a list in a stretch of acc
constexpr uint64_t kStretch = 4096;  // elements at least

// Lists that overlap, or merely lie close to each other, meet in the same lines of acc. So all of them are followed
// through one stretch of acc before the next one, and a line is fetched once.
template <class A>
Status gatherFrom(const A* acc, uint64_t n, std::span<const ListView> lists, std::span<const List> to) {
  std::array<uint32_t, kMaxRanks> counts;
  std::array<uint32_t, kMaxRanks> cursors;
  uint64_t total = 0;
  for (size_t l = 0; l < lists.size(); ++l) {
    counts[l] = *lists[l].count;
    cursors[l] = 0;
    total += counts[l];
  }
  const uint64_t stretches = std::max<uint64_t>(1, total / (kTogether * std::max<size_t>(1, lists.size())));
  const uint64_t length = lists.size() > 1 ? std::max(kStretch, n / stretches + 1) : n;
  for (uint64_t end = 0; end < n;) {
    end = std::min(n, end + length);
    for (size_t l = 0; l < lists.size(); ++l) {
      const auto* const indices = static_cast<const uint32_t*>(lists[l].indices);
      auto* const values = static_cast<A*>(to[l].values);
      const uint32_t count = counts[l];
      uint32_t c = cursors[l];
      for (; c < count && indices[c] < end; ++c) {
        if (c + kAhead < count) askFor(acc + indices[c + kAhead]);
        values[c] = acc[indices[c]];
      }
      cursors[l] = c;
    }
  }
  for (size_t l = 0; l < lists.size(); ++l) {
    if (const uint32_t c = cursors[l]; c < counts[l])
      return fail(sparsecollCorrupted, "index {} in a vector of {} elements",
                  static_cast<const uint32_t*>(lists[l].indices)[c], n);
    *to[l].count = counts[l];
  }
  return {};
}

}  // namespace

Status gather(const void* acc, sparsecollDataType_t type, uint64_t n, std::span<const ListView> lists,
              std::span<const List> to) {
  return withAccumulate(type, [&]<class A>(A) { return gatherFrom(static_cast<const A*>(acc), n, lists, to); });
}

}  // namespace sparsecoll::host
