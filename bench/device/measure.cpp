#include "bench/device/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/common/random.h"

namespace bench {

namespace {

// A graph moves about this much: a tenth of a millisecond on a fast device. Between two graphs a device idles for a
// microsecond or two.
constexpr double kGraphBytes = 4e8;
constexpr uint64_t kMostInGraph = 64;

// Graphs of so many steps each, which replayed in turn run all steps in turn.
std::vector<CudaGraph> graphsOf(const Operation& operation, uint64_t each, const CudaStream& stream) {
  const uint64_t steps = operation.steps.size();
  std::vector<CudaGraph> graphs;
  for (uint64_t at = 0; at < std::lcm(steps, each); at += each)
    graphs.emplace_back(stream.get(), [&] {
      for (uint64_t s = at; s < at + each; ++s) operation.steps[s % steps]();
    });
  return graphs;
}

double at(const std::vector<double>& sorted, double share) {
  const auto wanted = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(wanted, 1) - 1];
}

}  // namespace

Times measure(const Operation& operation, const CudaStream& stream, uint64_t replays) {
  const double fitting = operation.bytes > 0 ? kGraphBytes / operation.bytes : static_cast<double>(kMostInGraph);
  const uint64_t each = static_cast<uint64_t>(std::clamp(fitting, 1.0, static_cast<double>(kMostInGraph)));
  // Steps may do things for the first time that a capture does not allow.
  for (const auto& step : operation.steps) step();
  stream.wait();
  const std::vector<CudaGraph> graphs = graphsOf(operation, std::min<uint64_t>(each, operation.steps.size()), stream);
  const auto graphFor = [&](uint64_t replay) -> const CudaGraph& {
    return graphs[(operation.order == Operation::Order::kAny ? mixBits(replay) : replay) % graphs.size()];
  };
  const uint64_t warmup = operation.warmup * graphs.size();
  for (uint64_t replay = 0; replay < warmup; ++replay) graphFor(replay).launch(stream.get());
  std::vector<CudaEvent> events(replays + 1);
  events[0].record(stream.get());
  for (uint64_t replay = 0; replay < replays; ++replay) {
    graphFor(warmup + replay).launch(stream.get());
    events[replay + 1].record(stream.get());
  }
  stream.wait();
  Times times{0, 0, 0, replays, std::min<uint64_t>(each, operation.steps.size())};
  std::vector<double> seconds;
  for (uint64_t replay = 0; replay < replays; ++replay)
    seconds.push_back(events[replay + 1].secondsSince(events[replay]) / static_cast<double>(times.perReplay));
  std::sort(seconds.begin(), seconds.end());
  times.median = at(seconds, 0.5);
  times.best = seconds.front();
  times.p99 = at(seconds, 0.99);
  return times;
}

}  // namespace bench
