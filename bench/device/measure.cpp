#include "bench/device/measure.h"

#include <algorithm>
#include <cmath>

#include "bench/common/random.h"

namespace bench {

namespace {

// What a fast device moves while a handful of kernels is launched: few operations are over sooner.
constexpr double kLeastBytes = 1e8;
// Steps in any order come in so many graphs, which are replayed in any order: one graph would bring the same order
// again and again.
constexpr uint64_t kLeastGraphs = 8;

uint64_t divisorFrom(uint64_t least, uint64_t number) {
  uint64_t divisor = std::clamp<uint64_t>(least, 1, number);
  while (number % divisor != 0) ++divisor;
  return divisor;
}

double at(const std::vector<double>& sorted, double share) {
  const auto wanted = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(wanted, 1) - 1];
}

}  // namespace

std::vector<std::vector<uint64_t>> shareOut(uint64_t steps, uint64_t least, Operation::Order order) {
  const bool inTurn = order == Operation::Order::kInTurn;
  const uint64_t fewest = inTurn ? 1 : divisorFrom(kLeastGraphs, steps);
  const uint64_t graphs = std::max(fewest, steps / divisorFrom(least, steps));
  const uint64_t rounds = (least * graphs + steps - 1) / steps;  // of all steps
  std::vector<uint64_t> all;
  for (uint64_t round = 0; round < rounds; ++round)
    for (uint64_t step = 0; step < steps; ++step) all.push_back(step);
  if (!inTurn)
    for (uint64_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[mixBits(i) % i]);
  const auto each = static_cast<std::ptrdiff_t>(all.size() / graphs);
  std::vector<std::vector<uint64_t>> shares;
  for (auto from = all.begin(); from != all.end(); from += each) shares.emplace_back(from, from + each);
  return shares;
}

Times measure(const Operation& operation, const CudaStream& stream, const Replays& replays) {
  const double fitting = std::ceil(replays.graphBytes / std::max(operation.bytes, kLeastBytes));
  const auto shares = shareOut(operation.steps.size(), static_cast<uint64_t>(fitting), operation.order);
  // Steps may do things for the first time that a capture does not allow.
  for (const auto& step : operation.steps) step();
  stream.wait();
  std::vector<CudaGraph> graphs;
  for (const std::vector<uint64_t>& share : shares)
    graphs.emplace_back(stream.get(), [&] {
      for (const uint64_t step : share) operation.steps[step]();
    });
  const auto graphFor = [&](uint64_t replay) -> const CudaGraph& {
    return graphs[(operation.order == Operation::Order::kAny ? mixBits(replay) : replay) % graphs.size()];
  };
  for (uint64_t round = 0; round < operation.warmup; ++round)
    for (const CudaGraph& graph : graphs) graph.launch(stream.get());
  std::vector<CudaEvent> events(replays.count + 1);
  events[0].record(stream.get());
  for (uint64_t replay = 0; replay < replays.count; ++replay) {
    graphFor(replay).launch(stream.get());
    events[replay + 1].record(stream.get());
  }
  stream.wait();
  Times times{0, 0, 0, replays.count, shares.front().size()};
  std::vector<double> seconds;
  for (uint64_t replay = 0; replay < replays.count; ++replay)
    seconds.push_back(events[replay + 1].secondsSince(events[replay]) / static_cast<double>(times.perReplay));
  std::sort(seconds.begin(), seconds.end());
  times.median = at(seconds, 0.5);
  times.best = seconds.front();
  times.p99 = at(seconds, 0.99);
  return times;
}

}  // namespace bench
