#include "bench/perf/roofline.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "bench/common/clock.h"
#include "bench/common/loops.h"
#include "bench/perf/device.h"

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
constexpr uint64_t kLeastElements = 1u << 22;  // a run
constexpr uint64_t kCallElements = 256;        // to call a loop takes about as long

// The ranks' start and end times of one run, and what they computed.
class Spans {
 public:
  explicit Spans(const Team& team)
      : clocks_(team.clocks()), start_(clocks_.size()), end_(clocks_.size()), cpu_(clocks_.size()) {}
  void begin(const Rank& rank) {
    cpu_[rank.slot()] = cpuNs();
    start_[rank.slot()] = nowNs();
  }
  void end(const Rank& rank) {
    end_[rank.slot()] = nowNs();
    cpu_[rank.slot()] = cpuNs() - cpu_[rank.slot()];
  }
  void share(const Rank& rank) {
    rank.share(start_);
    rank.share(end_);
    rank.share(cpu_);
  }
  // With more ranks than cores some start late: only the span of all of a host's tells how long the work took.
  Rate rate(double bytes) const {
    uint64_t longest = 1;
    for (const int clock : clocks_) longest = std::max(longest, span(clock));
    const uint64_t cpu = *std::max_element(cpu_.begin(), cpu_.end());
    return {bytes / static_cast<double>(longest) * 1e9, bytes / static_cast<double>(cpu) * 1e9};
  }

 private:
  uint64_t span(int clock) const {
    uint64_t first = ~uint64_t{0};
    uint64_t last = 0;
    for (size_t r = 0; r < clocks_.size(); ++r) {
      if (clocks_[r] != clock) continue;
      first = std::min(first, start_[r]);
      last = std::max(last, end_[r]);
    }
    return last - first;
  }

  std::vector<int> clocks_;  // each rank's
  std::vector<uint64_t> start_, end_, cpu_;
};

}  // namespace

Roofline::Roofline(uint64_t n, Team& team)
    : n_(n),
      rounds_(std::max<uint64_t>(1, kLeastElements / (n + kCallElements))),
      buffers_(static_cast<size_t>(team.ranks())) {
  if (team.onDevice()) {
    name_ = deviceRate(n).loop;
    best_ = deviceShare(team).byWall;
    return;
  }
  const auto take = [this, &team](Memory::Pages pages) {
    team.run([&](Rank& rank) {
      const uint64_t bytes = n_ * sizeof(float);
      buffers_[rank.slot()] = {};
      buffers_[rank.slot()] = {Memory(bytes, pages), Memory(bytes)};
    });
  };
  Memory::Pages fastest = Memory::Pages::kUsual;
  for (const Memory::Pages pages : {Memory::Pages::kUsual, Memory::Pages::kHuge}) {
    take(pages);
    for (size_t loop = 0; loop < std::size(kLoops); ++loop) {
      for (const Rate& rate : rates(loop, team)) {
        if (rate.byWall <= best_) continue;
        best_ = rate.byWall;
        loop_ = loop;
        fastest = pages;
      }
    }
  }
  if (fastest == Memory::Pages::kUsual) take(fastest);
  name_ = kLoops[loop_].name;
}

Rate Roofline::deviceShare(const Team& team) const { return {deviceRate(n_).bytesPerSecond / team.ranks(), 0}; }

Rate Roofline::now(Team& team) const {
  if (team.onDevice()) return deviceShare(team);
  std::vector<Rate> measured = rates(loop_, team);
  const auto medianOf = [&measured](double Rate::*rate) {
    const auto middle = measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2);
    std::ranges::nth_element(measured, middle, {}, rate);
    return (*middle).*rate;
  };
  return {medianOf(&Rate::byWall), medianOf(&Rate::byCpu)};
}

std::vector<Rate> Roofline::rates(size_t loop, Team& team) const {
  std::vector<Rate> measured;
  Spans spans(team);
  team.run([&](Rank& rank) {
    const Buffers& buffers = buffers_[rank.slot()];
    for (int run = 0; run < kRuns; ++run) {
      rank.sync();
      spans.begin(rank);
      for (uint64_t round = 0; round < rounds_; ++round)
        kLoops[loop].run(buffers.residual.as<float>(), buffers.gradient.as<float>(), n_);
      spans.end(rank);
      rank.sync();
      spans.share(rank);
      if (rank.leads()) measured.push_back(spans.rate(kLoops[loop].bytes * static_cast<double>(n_ * rounds_)));
    }
  });
  return measured;
}

uint64_t localBytes(const ElementType& type, bool dense, uint32_t flags, bool momentum) {
  if (dense) return 2 * type.bytes;
  const uint64_t residual = type.accumulateBytes * ((flags & SPARSECOLL_NO_RESIDUAL) != 0 ? 1 : 2);
  const uint64_t out = (flags & SPARSECOLL_OUT_PRESERVED) != 0 ? 0 : type.bytes;
  return type.bytes + residual + (momentum ? 2 * type.accumulateBytes : 0) + out;
}

}  // namespace bench
