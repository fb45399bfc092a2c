#include "bench/perf/gradients.h"

#include <algorithm>
#include <cmath>

namespace bench {

namespace {

constexpr double kMostBytes = 12e9;
constexpr uint64_t kShifts = 1024;
constexpr double kMostHalf = 1000;  // leaves room for sums over ranks and steps in 16 bits

}  // namespace

uint64_t variantsThatFit(uint64_t n, const ElementType& type, int ranks) {
  // Besides the gradients a rank holds out and the residual.
  const auto others = static_cast<double>(type.bytes + type.accumulateBytes);
  for (uint64_t variants = 3; variants > 1; --variants) {
    const double perElement = others + static_cast<double>(variants * type.bytes);
    if (perElement * static_cast<double>(n) * ranks <= kMostBytes) return variants;
  }
  return 1;
}

Gradients::Gradients(const GradientPlan& plan, const Distribution& distribution, Team& team)
    : plan_(plan),
      ranks_(static_cast<uint64_t>(team.ranks())),
      shifts_(distribution.hasPlaces() ? 1 : kShifts),
      length_(plan.n + (shifts_ - 1) * kShiftElements),
      buffers_(plan.variants * ranks_),
      onDevice_(team.onDevice() ? buffers_.size() : 0) {
  team.run([&](Rank& rank) {
    for (uint64_t variant = 0; variant < plan_.variants; ++variant) {
      const uint64_t slot = rank.slot() * plan_.variants + variant;
      fill(buffers_[slot], rank.slot(), variant, distribution);
      if (!rank.onDevice()) continue;
      onDevice_[slot] = DeviceMemory(length_ * plan_.type->bytes);
      onDevice_[slot].load(buffers_[slot].as<>(), length_ * plan_.type->bytes);
      buffers_[slot] = {};
    }
  });
}

// Files give the ranks one piece after the other, so that of P ranks rank r meets file v * P + r in variant v where all
// are as long as the gradient; random numbers are dealt out in the same way.
void Gradients::fill(Memory& buffer, uint64_t rank, uint64_t variant, const Distribution& distribution) const {
  const uint64_t shared = variant * ranks_ * length_;
  const uint64_t own = shared + rank * length_;
  const uint64_t choice = mixBits(plan_.seed + 1);
  const double slope = plan_.skew / static_cast<double>(plan_.n);
  const double most = plan_.type->type == sparsecollFloat16 ? kMostHalf : HUGE_VAL;
  buffer = Memory(length_ * plan_.type->bytes);
  withElement(plan_.type->type, [&]<class T>(T) {
    auto* const out = buffer.as<T>();
    for (uint64_t i = 0; i < length_; ++i) {
      const bool common = plan_.overlap > 0 && unit(randomAt(choice, shared + i)) < plan_.overlap;
      const double scale = 1 - slope * static_cast<double>(std::min(i, plan_.n));
      const double x = scale * distribution.at(plan_.seed, (common ? shared : own) + i);
      out[i] = fromDouble<T>(std::clamp(x, -most, most));
    }
  });
}

}  // namespace bench
