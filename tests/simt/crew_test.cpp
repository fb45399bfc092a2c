// Rules for crews (core/crew.h) on inputs that reducers seldom meet: the same control block from one thread on the host
// and from a block of threads, whatever order they run in.
#include "core/crew.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "selectors/deft.h"
#include "selectors/exdyna.h"
#include "selectors/rules.h"
#include "selectors/sidco.h"
#include "tests/device/checks.h"
#include "tests/simt/simt.h"

namespace sparsecoll::test {
namespace {

// What the selector's state is.
enum class Keeps { kNumbers, kLadder, kDeft, kExDyna };

// A control block with all tables that rules for crews look at, as large as they are for `windows` and `ranks`.
struct Block {
  Block(uint32_t count, uint32_t ranks)
      : windows(count),
        facts(ranks),
        histogram(kHistogramBins),
        survey(uint64_t{ranks} * std::max(count, kTrials + 1)),
        lengths(count),
        entries(count),
        trials(kTrials),
        order(count),
        bins(count),
        norms(count),
        costs(count),
        loads(ranks) {
    control.rank = ranks / 2;
    control.ranks = ranks;
    control.windowCount = count;
  }

  // The tables may have moved since the last time.
  Control& use() {
    control.windows = windows.data();
    control.facts = facts.data();
    control.histogram = histogram.data();
    if (keeps == Keeps::kDeft)
      control.selector.as<DeftState>() = {lengths.data(), entries.data(), order.data(), bins.data(),
                                          norms.data(),   costs.data(),   loads.data(), survey.data()};
    if (keeps == Keeps::kLadder) {
      control.selector.as<LadderState>().trials = trials.data();
      control.selector.as<LadderState>().counts = survey.data();
    }
    if (keeps == Keeps::kExDyna) {
      control.selector.as<ExDynaState>().counts = blockCounts.data();
      control.selector.as<ExDynaState>().starts = blockStarts.data();
      control.selector.as<ExDynaState>().loads = loads.data();
    }
    return control;
  }

  std::vector<std::byte> bytes() {
    Control plain = control;  // tables lie elsewhere in a copy
    plain.windows = nullptr;
    plain.facts = nullptr;
    plain.histogram = nullptr;
    if (keeps == Keeps::kDeft) plain.selector = {};
    if (keeps == Keeps::kLadder) {
      plain.selector.as<LadderState>().trials = nullptr;
      plain.selector.as<LadderState>().counts = nullptr;
    }
    if (keeps == Keeps::kExDyna) {
      plain.selector.as<ExDynaState>().counts = nullptr;
      plain.selector.as<ExDynaState>().starts = nullptr;
      plain.selector.as<ExDynaState>().loads = nullptr;
    }
    std::vector<std::byte> all;
    const auto add = [&](const void* from, uint64_t count) {
      const auto* const begin = static_cast<const std::byte*>(from);
      all.insert(all.end(), begin, begin + count);
    };
    add(&plain, sizeof plain);
    add(windows.data(), windows.size() * sizeof windows[0]);
    add(entries.data(), entries.size() * sizeof entries[0]);
    add(order.data(), order.size() * sizeof order[0]);
    add(bins.data(), bins.size() * sizeof bins[0]);
    add(norms.data(), norms.size() * sizeof norms[0]);
    add(costs.data(), costs.size() * sizeof costs[0]);
    add(loads.data(), loads.size() * sizeof loads[0]);
    add(trials.data(), trials.size() * sizeof trials[0]);
    add(blockStarts.data(), blockStarts.size() * sizeof(uint32_t));
    return all;
  }

  Control control{};
  Keeps keeps = Keeps::kNumbers;
  std::vector<Window> windows;
  std::vector<RankFacts> facts;
  std::vector<uint32_t> histogram;
  std::vector<double> survey;
  std::vector<uint64_t> lengths, entries, trials;
  std::vector<uint32_t> order, bins, blockCounts, blockStarts;
  std::vector<double> norms, costs, loads;
};

// Returns what the host made of it.
Block checkRule(const Rule& rule, const Block& before) {
  CAPTURE(rule.name);
  REQUIRE(rule.threads == kCrew);
  Block expected = before;
  rule.onHost(expected.use());
#ifdef SPARSECOLL_TEST_SANITIZED
  const uint64_t seeds[] = {1};
#else
  const uint64_t seeds[] = {0, 1, 2};
#endif
  for (const uint64_t seed : seeds) {
    CAPTURE(seed);
    simt::schedule(seed);
    Block got = before;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(rule.threads);
    CHECK(cudaLaunchKernelEx(&config, rule.onDevice, &got.use()) == cudaSuccess);
    CHECK((got.bytes() == expected.bytes()));
    checkEmulation();
  }
  simt::schedule(0);
  return expected;
}

TEST_CASE("DEFT's shares of many fragments") {
  for (const uint32_t fragments : {1u, 2u, 255u, 257u, 300u, 700u})
    for (const uint32_t ranks : {1u, 3u, 8u, 40u})
      for (const uint64_t k : {uint64_t{1}, uint64_t{fragments}, uint64_t{fragments} + 3, uint64_t{20000}}) {
        CAPTURE(fragments, ranks, k);
        Block block(fragments, ranks);
        block.keeps = Keeps::kDeft;
        std::mt19937_64 random(fragments * 1000 + ranks);
        block.control.k = k;
        block.control.n = 1u << 20;
        uint64_t room = 0;
        for (uint32_t f = 0; f < fragments; ++f) {
          block.windows[f].end = block.windows[f].room = 1 + random() % 200;
          room += block.windows[f].room;
        }
        // Many fragments with equal norms, some with none, and one that is no number.
        for (double& norm : block.survey) norm = static_cast<double>(random() % 5);
        block.survey[0] = std::numeric_limits<double>::quiet_NaN();
        const Block shared = checkRule(kDeftShare, block);
        uint64_t sum = 0;
        for (const uint64_t entries : shared.entries) sum += entries;
        CHECK(sum == std::clamp<uint64_t>(k, fragments, room));
        checkRule(kDeftShareAsPublished, block);
      }
}

TEST_CASE("histograms of every kind") {
  struct Kind {
    const char* name;
    void (*fill)(std::vector<uint32_t>& bins);
  };
  const Kind kinds[] = {
      {"empty", [](std::vector<uint32_t>&) {}},
      {"zeros only", [](std::vector<uint32_t>& bins) { bins[0] = 1000; }},
      {"one entry", [](std::vector<uint32_t>& bins) { bins[4064] = 1; }},
      {"one bin", [](std::vector<uint32_t>& bins) { bins[4000] = 5000; }},
      {"the largest floats", [](std::vector<uint32_t>& bins) { bins[kFiniteBins - 1] = 7, bins[100] = 90; }},
      {"the smallest", [](std::vector<uint32_t>& bins) { bins[1] = 7, bins[0] = 90; }},
      {"ends of groups",
       [](std::vector<uint32_t>& bins) {
         for (uint32_t bin = 95; bin < kFiniteBins; bin += 96) bins[bin] = bin, bins[bin + 1] = 3;
       }},
      {"noise",
       [](std::vector<uint32_t>& bins) {
         std::mt19937_64 random(5);
         for (uint32_t bin = 3500; bin < 4200; ++bin) bins[bin] = static_cast<uint32_t>(random() % 3000);
         bins[kFiniteBins] = 11;  // infinities count nowhere
       }},
  };
  const Rule* const rules[] = {&kSageDefault,
                               &kSampledDefault,
                               &kGaussianDefault,
                               &kRedSyncDefault,
                               &sidcoRulesOf(sparsecollDistributionExponential).fitDefault,
                               &sidcoRulesOf(sparsecollDistributionGammaPareto).fitDefault,
                               &sidcoRulesOf(sparsecollDistributionPareto).fitDefault};
  for (const Kind& kind : kinds)
    for (const uint64_t k : {1, 300, 40000})
      for (const Rule* const rule : rules) {
        CAPTURE(kind.name, k);
        Block block(1, 4);
        kind.fill(block.histogram);
        block.control.n = 50000;
        block.control.k = k;
        block.control.iteration = 3;
        block.control.threshold = 0.7;
        block.control.selector.as<ClosedLoop>().correction = 2;
        block.windows[0].end = block.control.n;
        checkRule(*rule, block);
      }
}

template <class A>
void checkSweep(const ListRule& rule, const Block& before, const std::vector<A>& acc) {
  CAPTURE(rule.name);
  Block expected = before;
  Finding finding{};
  ListRuleArgs args;
  args.acc = acc.data();
  args.control = &expected.use();
  rule.onHost(args, finding);
  for (const uint64_t seed : {1, 2}) {
    simt::schedule(seed);
    Block got = before;
    args.control = &got.use();
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(kCrew);
    CHECK(cudaLaunchKernelEx(&config, rule.onDevice, args, &finding) == cudaSuccess);
    CHECK((got.bytes() == expected.bytes()));
    checkEmulation();
  }
  simt::schedule(0);
}

TEMPLATE_TEST_CASE("sweeps of a vector", "", float, double) {
  const ListRule* const rules[] = {&kSageFaithful,
                                   &kSageFaithfulByTensor,
                                   &kSampledFaithful,
                                   &kGaussianOfShi,
                                   &kGaussianOfOkTopk,
                                   &kRedSyncFaithful,
                                   &kReuseFaithful,
                                   &sidcoRulesOf(sparsecollDistributionExponential).fitFaithful,
                                   &sidcoRulesOf(sparsecollDistributionGammaPareto).fitFaithful,
                                   &sidcoRulesOf(sparsecollDistributionPareto).fitFaithful};
  std::mt19937_64 random(3);
  std::vector<TestType> noise(1200);
  for (TestType& x : noise) {
    const auto uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    x = static_cast<TestType>((random() & 1) != 0 ? std::pow(uniform, 8) : -std::pow(uniform, 8));
  }
  std::vector<TestType> odd = noise;
  odd[7] = std::numeric_limits<TestType>::quiet_NaN();
  odd[1100] = std::numeric_limits<TestType>::infinity();
  std::vector<TestType> zeros(noise.size());
  for (const std::vector<TestType>* const acc : {&noise, &odd, &zeros})
    for (const uint64_t k : {0, 1, 25, 700})
      for (const ListRule* const rule : rules) {
        CAPTURE(k, acc == &odd, acc == &zeros);
        const bool manyWindows = rule == &kSampledFaithful || rule == &kSageFaithfulByTensor;
        Block block(manyWindows ? 3 : 1, 4);
        block.control.n = noise.size();
        block.control.k = k;
        block.control.iteration = 3;
        block.control.threshold = 0.7;
        block.control.isDouble = sizeof(TestType) == 8 ? 1 : 0;
        block.control.selector.as<SidcoState>().stages = 3;
        const uint64_t ends[] = {600, 660, noise.size()};
        for (size_t w = 0; w < block.windows.size(); ++w) {
          Window& window = block.windows[w];
          window.begin = w != 0 ? ends[w - 1] : 0;
          window.end = manyWindows ? ends[w] : noise.size();
          window.room = window.end - window.begin;
          window.key = w != 1 ? 1 : 0;
        }
        checkSweep(*rule, block, *acc);
      }
}

TEST_CASE("the keys of many windows, and the ladder of many ranks") {
  Block block(600, 64);
  std::mt19937_64 random(9);
  for (Window& window : block.windows) {
    window.end = 1 + random() % 1000;
    window.limit = random() % 4 == 0 ? window.end : 1;
    window.kept = random() % 3;
    window.keptKey = random() % 0x7f900000u;
    window.spread = 0.01;
    window.keptBefore = random() % 2 == 0 ? 0 : 1;
  }
  checkRule(kTopKAfterCut, block);
  block.keeps = Keeps::kLadder;
  block.control.k = 5000;
  block.control.n = 1u << 20;
  block.control.selector.as<LadderState>().lowest = 1e-3;
  block.control.selector.as<LadderState>().factor = 1.02;
  for (uint32_t r = 0; r < 64; ++r)
    for (uint32_t j = 0; j < kTrials; ++j)
      block.survey[r * (kTrials + 1) + j] = static_cast<double>(160 - 3 * j - r % 2);
  const Block read = checkRule(kReadLadder, block);
  CHECK(read.control.threshold > 1e-3);
  checkRule(kMicroBefore, block);
}

TEST_CASE("ExDyna's borders") {
  for (const uint32_t blocks : {1u, 95u, 96u, 97u, 1000u, 1024u})
    for (const uint32_t ranks : {1u, 2u, 7u, 64u})
      for (const uint32_t share : {1u, 4u, 400u}) {  // of blocks without entries
        CAPTURE(blocks, ranks, share);
        Block block(1, ranks);
        std::mt19937_64 random(blocks + ranks);
        block.keeps = Keeps::kExDyna;
        block.control.selector.as<ExDynaState>().blocks = {32, blocks};
        block.control.n = uint64_t{blocks} * 32;
        block.blockCounts.resize(blocks);
        block.blockStarts.resize(ranks + 1);
        for (uint32_t& count : block.blockCounts)
          count = random() % share == 0 ? static_cast<uint32_t>(random() % 90) : 0;
        checkRule(kExDynaAfter, block);
      }
}

}  // namespace
}  // namespace sparsecoll::test
