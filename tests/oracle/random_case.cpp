#include "tests/oracle/random_case.h"

#include <algorithm>
#include <sstream>

#include "tests/support/ranks.h"

namespace sparsecoll::test {

namespace {

constexpr uint64_t kEdges[] = {1,   2,   31,   32,   33,   63,   64,   65,   127,  128,  255,
                               256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 8193};

uint64_t drawLength(Random& random) {
  if (random.chance(0.01)) return 16385;
  if (random.chance(0.12)) return random.pick(kEdges);
  const uint64_t most = random.chance(0.2) ? 5000 : random.chance(0.5) ? 600 : 60;
  return 1 + random.below(most);
}

}  // namespace

RandomCase::RandomCase(uint64_t caseSeed) : seed(caseSeed) {
  Random random(seed * 0xd1342543de82ef95ull);
  drawMethod(random);
  n = drawLength(random);
  drawDensity(random);
  drawForm(random);
  if (preset != "dense" && random.chance(0.15)) drawSegments(random);
}

void RandomCase::drawMethod(Random& random) {
  constexpr const char* kPresets[] = {"dense", "topka", "topka", "threshold", "micro", "micro"};
  constexpr int kRanks[] = {1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 16};
  preset = random.pick(kPresets);
  params = test::preset(preset.c_str(), 0);
  faithful = preset == "micro" && random.chance(0.5);
  params.faithful = faithful ? 1 : 0;
  ranks = random.pick(kRanks);
  type = random.pick(kAllTypes);
  // Methods are a selector times a collective; the presets are only the published pairs.
  if (preset != "dense" && random.chance(0.2))
    params.collective =
        params.collective == sparsecollCollAllGather ? sparsecollCollIndexUnion : sparsecollCollAllGather;
}

void RandomCase::drawDensity(Random& random) {
  if (preset == "dense") return;
  const double kind = random.real();
  if (kind < 0.04) {
    params.flags |= SPARSECOLL_SELECT_NOTHING;
  } else if (kind < 0.08) {
    params.density = 1e-300;
  } else if (kind < 0.14) {
    params.density = 1;
  } else if (kind < 0.3) {
    params.k = 1 + random.below(2 * n);
  } else {
    params.density = std::pow(10.0, -4 * random.real());
  }
  if (params.density != 0 && random.chance(0.1)) maxDensity = std::min(1.0, params.density * (1 + 3 * random.real()));
  if (preset == "threshold" && random.chance(0.7)) params.threshold = std::pow(10.0, 3 * random.real() - 2);
}

void RandomCase::drawForm(Random& random) {
  constexpr uint32_t kFlags[] = {0,
                                 0,
                                 0,
                                 SPARSECOLL_ACCUMULATE,
                                 SPARSECOLL_OUT_PRESERVED,
                                 SPARSECOLL_NO_RESIDUAL,
                                 SPARSECOLL_OUT_PRESERVED | SPARSECOLL_NO_RESIDUAL};
  constexpr double kScales[] = {1, 1, 1, 0.25, 2, -1, 0.1, 1.0 / 3};
  constexpr Numbers kNumbers[] = {Numbers::kIntegers, Numbers::kIntegers, Numbers::kBell, Numbers::kSpikes,
                                  Numbers::kWide};
  params.flags |= random.pick(kFlags);
  params.op = random.chance(0.4) ? sparsecollAvg : sparsecollSum;
  params.inputScale = random.pick(kScales);
  params.outputScale = random.pick(kScales);
  params.tag = seed;
  steps = 1 + static_cast<int>(random.below(4));
  inPlace = !has(SPARSECOLL_OUT_PRESERVED) && random.chance(0.15);
  transactional = preset != "dense" && !has(SPARSECOLL_NO_RESIDUAL) && random.chance(0.2);
  sparseOut = preset != "dense" && !inPlace && !has(SPARSECOLL_ACCUMULATE) && random.chance(0.12);
  numbers = random.pick(kNumbers);
  drawShape(random);
}

void RandomCase::drawShape(Random& random) {
  if (params.op == sparsecollAvg && random.chance(0.3)) params.flags |= SPARSECOLL_AVERAGE_CONTRIBUTORS;
  if (preset == "dense") return;
  if (random.chance(0.1)) params.clipNorm = std::pow(10.0, 4 * random.real() - 2);
  if (has(SPARSECOLL_NO_RESIDUAL)) return;
  if (random.chance(0.15)) params.residualDecay = random.chance(0.5) ? 0.5 : 0.5 + random.real() / 2;
  if (!random.chance(0.2)) return;
  params.momentum = random.chance(0.5) ? 0.5 : random.real();
  if (random.chance(0.3)) params.flags |= SPARSECOLL_NESTEROV;
  if (random.chance(0.3)) params.flags |= SPARSECOLL_MOMENTUM_KEPT;
}

void RandomCase::drawSegments(Random& random) {
  for (uint64_t left = n; left != 0;) {
    const uint64_t length = random.chance(0.2) ? left : 1 + random.below(left);
    segments.push_back({length, 0, random.chance(0.5) ? 1 : 0, 0});
    left -= length;
  }
  params.flags &= ~SPARSECOLL_AVERAGE_CONTRIBUTORS;  // Unsupported with these
}

std::vector<bool> RandomCase::isSentDense() const {
  std::vector<bool> is;
  for (const sparsecollSegment_t& segment : segments) is.insert(is.end(), segment.length, segment.dense != 0);
  return is;
}

uint64_t RandomCase::sentDense() const {
  uint64_t elements = 0;
  for (const sparsecollSegment_t& segment : segments) elements += segment.dense != 0 ? segment.length : 0;
  return elements;
}

Elements RandomCase::gradient(int rank, int step) const {
  Random random(seed * 1000003 + static_cast<uint64_t>(rank) * 64 + static_cast<uint64_t>(step));
  Elements gradient(type, n);
  const int octaves = type == sparsecollFloat16 ? 8 : 30;
  for (uint64_t i = 0; i < n; ++i) {
    double x = 0;
    switch (numbers) {
      case Numbers::kIntegers:
        x = static_cast<double>(random.below(9)) - 4;
        break;
      case Numbers::kBell:
        x = random.bell() * 0.1;
        break;
      case Numbers::kSpikes:
        x = random.chance(0.05) ? random.bell() * 100 : 0;
        break;
      case Numbers::kWide:
        x = std::ldexp(random.real() - 0.5,
                       static_cast<int>(random.below(2 * static_cast<uint64_t>(octaves))) - octaves);
        break;
    }
    gradient.set(i, x);
  }
  return gradient;
}

Elements RandomCase::firstOut(int rank) const {
  Elements out(type, n);
  Random random(seed * 31 + static_cast<uint64_t>(has(SPARSECOLL_ACCUMULATE) ? 0 : rank));
  for (uint64_t i = 0; i < n; ++i) out.set(i, static_cast<double>(random.below(100)) - 50);
  return out;
}

std::string RandomCase::text() const {
  constexpr const char* kNames[] = {"integers", "bell", "spikes", "wide"};
  std::ostringstream to;
  to << "SPARSECOLL_CASE=" << seed << ": " << preset << (faithful ? " faithful" : "") << " collective "
     << sparsecollCollectiveName(params.collective) << ", P " << ranks << ", n " << n << " " << nameOf(type)
     << ", density " << params.density << ", k " << params.k << ", maxDensity " << maxDensity << ", threshold "
     << params.threshold << ", op " << params.op << ", flags " << params.flags << ", scales " << params.inputScale
     << " " << params.outputScale << ", momentum " << params.momentum << ", clipNorm " << params.clipNorm << ", decay "
     << params.residualDecay << (inPlace ? ", in place" : "") << (transactional ? ", transactional" : "")
     << (sparseOut ? ", sparse out" : "") << ", " << sentDense() << " of " << segments.size()
     << " tensors' elements sent dense"
     << ", " << steps << " steps of " << kNames[static_cast<int>(numbers)];
  return to.str();
}

}  // namespace sparsecoll::test
