#include "bench/perf/roofline.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/common/clock.h"
#include "bench/common/loops.h"
#include "bench/common/memory.h"

namespace bench {

namespace {

struct Loop {
  const char* name;
  double bytes;  // an element
  void (*run)(float* r, const float* g, uint64_t n);
};

constexpr Loop kLoops[] = {
    {"in-place add", 12, inplaceAdd},
    {"in-place add in quarters", 12, inplaceAddInQuarters},
    {"in-place add with prefetch", 12, inplaceAddAhead},
    {"memcpy", 8, [](float* r, const float* g, uint64_t n) { std::memcpy(r, g, n * sizeof(float)); }},
};

constexpr int kRuns = 15;
constexpr uint64_t kLeastElements = 1u << 22;  // a run: so many that starting the threads does not show

// The ranks' start and end times of one run.
class Spans {
 public:
  explicit Spans(int ranks) : start_(static_cast<size_t>(ranks)), end_(static_cast<size_t>(ranks)) {}
  void set(const Rank& rank, uint64_t start, uint64_t end) {
    start_[rank.slot()] = start;
    end_[rank.slot()] = end;
  }
  // With more ranks than cores some start late: only the span of all of them tells how long the work took.
  double seconds() const {
    const uint64_t first = *std::min_element(start_.begin(), start_.end());
    const uint64_t last = *std::max_element(end_.begin(), end_.end());
    return static_cast<double>(last - first) * 1e-9;
  }

 private:
  std::vector<uint64_t> start_, end_;
};

}  // namespace

Roofline measureRoofline(uint64_t n, Team& team) {
  Roofline best;
  Spans spans(team.ranks());
  const uint64_t rounds = std::max<uint64_t>(1, kLeastElements / n);
  team.run([&](Rank& rank) {
    const Memory usual(n * sizeof(float));
    const Memory huge(n * sizeof(float), Memory::Pages::kHuge);
    const Memory g(n * sizeof(float));
    for (const Memory* const r : {&usual, &huge})
      for (const Loop& loop : kLoops)
        for (int run = 0; run < kRuns; ++run) {
          rank.sync();
          const uint64_t start = nowNs();
          for (uint64_t round = 0; round < rounds; ++round) loop.run(r->as<float>(), g.as<float>(), n);
          spans.set(rank, start, nowNs());
          rank.sync();
          if (rank.index != 0) continue;
          const double rate = loop.bytes * static_cast<double>(n * rounds) / spans.seconds();
          if (rate > best.bytesPerSecond) best = {rate, loop.name};
        }
  });
  return best;
}

uint64_t localBytes(const ElementType& type, bool dense, uint32_t flags, bool momentum) {
  if (dense) return 2 * type.bytes;
  const uint64_t residual = type.accumulateBytes * ((flags & SPARSECOLL_NO_RESIDUAL) != 0 ? 1 : 2);
  const uint64_t out = (flags & SPARSECOLL_OUT_PRESERVED) != 0 ? 0 : type.bytes;
  return type.bytes + residual + (momentum ? 2 * type.accumulateBytes : 0) + out;
}

}  // namespace bench
