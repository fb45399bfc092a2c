// The papers' table of costs, measured: for every P from 2 to 16 the rounds and bytes that each rank really sends,
// beside the bound of the method's paper. Bytes are compared with what the schedule says for the lists that there were;
// the words without headers and padding with the bound. SPARSECOLL_TABLE=1 prints the table.
#include "tests/support/catch.h"

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tests/oracle/blocks_reference.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kMostRanks = 16;
constexpr uint64_t kEntriesPerRank = 100;
constexpr double kDensity = 0.01;

uint64_t log2Up(uint64_t x) {
  uint64_t bits = 0;
  while ((uint64_t{1} << bits) < x) ++bits;
  return bits;
}

struct Sent {
  uint64_t bytes = 0;
  uint64_t words = 0;  // without headers and padding

  void list(uint64_t entries) {
    bytes += entries == 0 ? 32 : (32 + 4 * entries + 15) / 16 * 16 + 4 * entries;
    words += 2 * entries;
  }
  void indices(uint64_t entries) {
    bytes += 32 + 4 * entries;
    words += entries;
  }
  void values(uint64_t entries) {
    bytes += 32 + 4 * entries;
    words += entries;
  }
  void numbers(uint64_t words32) { bytes += 32 + 4 * words32; }  // not counted by the papers
};

struct Step {
  uint64_t n, ranks, k;
  std::vector<std::vector<uint64_t>> picked;  // by rank, before anything is sent
  std::vector<uint64_t> sumIndices;           // of the final sum
};

uint64_t within(const std::vector<uint64_t>& sorted, uint64_t begin, uint64_t end) {
  return static_cast<uint64_t>(std::lower_bound(sorted.begin(), sorted.end(), end) -
                               std::lower_bound(sorted.begin(), sorted.end(), begin));
}

uint64_t unionWithin(const Step& step, const std::vector<uint64_t>& ranks, uint64_t begin, uint64_t end) {
  std::vector<uint64_t> all;
  for (const uint64_t r : ranks)
    for (const uint64_t i : step.picked[r])
      if (i >= begin && i < end) all.push_back(i);
  std::sort(all.begin(), all.end());
  return static_cast<uint64_t>(std::unique(all.begin(), all.end()) - all.begin());
}

uint64_t evenBegin(uint64_t n, uint64_t parts, uint64_t part) { return part * (n / parts) + std::min(part, n % parts); }

// Bruck's gather in a ring: counts by position.
void gather(Sent& sent, const std::vector<uint64_t>& counts, uint64_t position) {
  const uint64_t q = counts.size();
  for (uint64_t gap = 1; gap < q; gap *= 2) {
    uint64_t entries = 0;
    for (uint64_t j = 0; j < std::min(gap, q - gap); ++j) entries += counts[(position + j) % q];
    sent.list(entries);
  }
}

Sent topka(const Step& step, uint64_t) {
  Sent sent;
  for (uint64_t peer = 1; peer < step.ranks; ++peer) sent.list(step.k);
  return sent;
}

Sent gtopk(const Step& step, uint64_t rank) {
  Sent sent;
  for (uint64_t bit = 1; bit < step.ranks; bit *= 2) {
    if (rank % (2 * bit) == bit) sent.list(step.k);                           // up
    if (rank % (2 * bit) == 0 && rank + bit < step.ranks) sent.list(step.k);  // down
  }
  return sent;
}

// d teams. The blocks' final counts are those of the sum.
Sent spardl(const Step& step, uint64_t rank, uint64_t teams, bool recursive) {
  const uint64_t q = step.ranks / teams;
  const uint64_t share = kEntriesPerRank * teams;
  Sent sent;
  const uint64_t rounds = log2Up(q);
  for (uint64_t i = 0; i < rounds; ++i) {
    const uint64_t gap = uint64_t{1} << (rounds - 1 - i);
    sent.list(share * (i == 0 ? q - gap : gap));
  }
  for (uint64_t gap = 1; gap < teams; gap *= 2)
    sent.list(recursive ? share : share / teams * std::min(gap, teams - gap));  // the first step's adaptive share
  std::vector<uint64_t> counts;
  const uint64_t length = (step.n + q - 1) / q;
  for (uint64_t b = 0; b < q; ++b) counts.push_back(within(step.sumIndices, b * length, (b + 1) * length));
  gather(sent, counts, rank % q);
  return sent;
}

Sent recursiveDoubling(const Step& step, uint64_t rank) {
  Sent sent;
  uint64_t core = 1;
  while (core * 2 <= step.ranks) core *= 2;
  const auto group = [&](uint64_t first, uint64_t count) {  // who is in the streams of these ranks
    std::vector<uint64_t> members;
    for (uint64_t r = first; r < first + count; ++r) {
      members.push_back(r);
      if (r + core < step.ranks) members.push_back(r + core);
    }
    return members;
  };
  if (rank >= core) {
    sent.list(step.k);
    return sent;
  }
  for (uint64_t bit = 1; bit < core; bit *= 2) sent.list(unionWithin(step, group(rank / bit * bit, bit), 0, step.n));
  if (rank + core < step.ranks) sent.list(step.sumIndices.size());
  return sent;
}

// Even regions; the owners' sums are gathered. counted: a round of counts comes first.
Sent splitGather(const Step& step, uint64_t rank, bool counted) {
  Sent sent;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> everyone;
  for (uint64_t r = 0; r < step.ranks; ++r) everyone.push_back(r);
  for (uint64_t r = 0; r < step.ranks; ++r) {
    const uint64_t begin = evenBegin(step.n, step.ranks, r);
    const uint64_t end = evenBegin(step.n, step.ranks, r + 1);
    if (r != rank) sent.list(within(step.picked[rank], begin, end));
    counts.push_back(unionWithin(step, everyone, begin, end));
  }
  for (uint64_t gap = 1; counted && gap < step.ranks; gap *= 2) sent.numbers(std::min(gap, step.ranks - gap));
  gather(sent, counts, rank);
  return sent;
}

struct Row {
  const char* name;
  const char* preset;
  int32_t teams;
  std::function<bool(uint64_t ranks)> fits;
  std::function<Sent(const Step&, uint64_t rank)> sent;
  std::function<uint64_t(uint64_t ranks)> rounds;
  std::function<double(double ranks)> low, high;  // words in units of k; equal where the bound is exact
};

bool always(uint64_t) { return true; }

// What is the same for all methods: the gradients, and what is picked from them.
struct Given {
  std::vector<Elements> gradients;
  Step step;
};

std::vector<Given> allGivens() {  // by the number of ranks
  std::vector<Given> givens(kMostRanks + 1);
  for (uint64_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    auto& [gradients, step] = givens[ranks];
    step.ranks = ranks;
    step.k = kEntriesPerRank * ranks;
    step.n = static_cast<uint64_t>(static_cast<double>(step.k) / kDensity);
    gradients.assign(ranks, Elements(sparsecollFloat32, step.n));
    fillIntegers(gradients, ranks, 1 << 20);
    for (const Elements& gradient : gradients) {
      Vector acc(step.n);
      for (uint64_t i = 0; i < step.n; ++i) acc[i] = gradient[i];
      step.picked.push_back(largestIn(acc, 0, step.n, step.k));
    }
  }
  return givens;
}

// 2 (P - 1) for a power of two. Else a stream may hold two lists from the start, and the sum goes back to those beyond.
double doublingMost(double p) {
  double core = 1;
  while (core * 2 <= p) core *= 2;
  return core == p ? 2 * (p - 1) : 4 * (core - 1) + 2 * p;
}

const Row kRows[] = {
    {"TopkA", "topka", 0, always, topka, [](uint64_t) { return 1; }, [](double p) { return 2 * (p - 1); },
     [](double p) { return 2 * (p - 1); }},
    {"gTop-k", "gtopk", 0, always, gtopk, [](uint64_t p) { return 2 * log2Up(p); }, [](double) { return 2.0; },
     [](double p) { return 4 * static_cast<double>(log2Up(static_cast<uint64_t>(p))); }},
    {"SparDL", "spardl", 1, always, [](const Step& s, uint64_t r) { return spardl(s, r, 1, true); },
     [](uint64_t p) { return 2 * log2Up(p); }, [](double p) { return 4 * (p - 1) / p; },
     [](double p) { return 4 * (p - 1) / p; }},
    {"SparDL R-SAG 2", "spardl-rsag", 2, [](uint64_t p) { return p % 2 == 0; },
     [](const Step& s, uint64_t r) { return spardl(s, r, 2, true); }, [](uint64_t p) { return 2 * log2Up(p / 2) + 1; },
     [](double p) { return 2 * (2 * (p - 2) / p + 2 / p); }, [](double p) { return 2 * (2 * (p - 2) / p + 2 / p); }},
    {"SparDL R-SAG 4", "spardl-rsag", 4, [](uint64_t p) { return p % 4 == 0; },
     [](const Step& s, uint64_t r) { return spardl(s, r, 4, true); }, [](uint64_t p) { return 2 * log2Up(p / 4) + 2; },
     [](double p) { return 2 * (2 * (p - 4) / p + 4 / p * 2); },
     [](double p) { return 2 * (2 * (p - 4) / p + 4 / p * 2); }},
    {"SparDL B-SAG 2", "spardl-bsag", 2, [](uint64_t p) { return p % 2 == 0; },
     [](const Step& s, uint64_t r) { return spardl(s, r, 2, false); }, [](uint64_t p) { return 2 * log2Up(p / 2) + 1; },
     [](double p) { return 2 * (2 * p - 3) / p; }, [](double p) { return 2 * (4 + 2 * p - 6) / p; }},
    {"SparDL B-SAG 3", "spardl-bsag", 3, [](uint64_t p) { return p % 3 == 0; },
     [](const Step& s, uint64_t r) { return spardl(s, r, 3, false); }, [](uint64_t p) { return 2 * log2Up(p / 3) + 2; },
     [](double p) { return 2 * (2 * p - 4) / p; }, [](double p) { return 2 * (9 + 2 * p - 9) / p; }},
    {"SparCML doubling", "sparcml-rd", 0, always, recursiveDoubling,
     [](uint64_t p) { return (p & (p - 1)) == 0 ? log2Up(p) : log2Up(p) - 1 + 2; }, [](double) { return 2.0; },
     doublingMost},
    {"SparCML split", "sparcml-split", 0, always, [](const Step& s, uint64_t r) { return splitGather(s, r, true); },
     [](uint64_t p) { return 1 + 2 * log2Up(p); }, [](double p) { return 2 * (p - 1) / p; },
     [](double p) { return 2 * (p - 1) / p * (1 + p) + 2; }},
    {"TopkDSA", "topkdsa", 0, always, [](const Step& s, uint64_t r) { return splitGather(s, r, true); },
     [](uint64_t p) { return 1 + 2 * log2Up(p); }, [](double p) { return 2 * (p - 1) / p; },
     [](double p) { return (2 + 1 / kDensity) * (p - 1) / p + 2; }},
    {"Ok-Topk, all", "oktopk", 0, always, [](const Step& s, uint64_t r) { return splitGather(s, r, false); },
     [](uint64_t p) { return 1 + log2Up(p); }, [](double p) { return 2 * (p - 1) / p; },
     [](double p) { return 2 * (p - 1) / p * (1 + p) + 2; }},
};

}  // namespace

TEST_CASE("rounds and bytes are the schedule's, and the words the papers'") {
  const bool table = std::getenv("SPARSECOLL_TABLE") != nullptr;
  if (table)
    std::printf("| method | P | rounds | bytes a rank, most | words / k, most | bound |\n|---|--:|--:|--:|--:|--:|\n");
  const std::vector<Given> givens = allGivens();
  for (const Row& row : kRows)
    for (uint64_t ranks = 2; ranks <= kMostRanks; ++ranks) {
      if (!row.fits(ranks)) continue;
      CAPTURE(row.name, ranks);
      Step step = givens[ranks].step;
      sparsecollParams_t params = preset(row.preset, kDensity);
      params.teams = row.teams;
      Group group(static_cast<int>(ranks), step.n, sparsecollFloat32, params);
      group.gradients = givens[ranks].gradients;
      REQUIRE(group.step() == all(static_cast<int>(ranks), sparsecollSuccess));
      for (uint64_t i = 0; i < step.n; ++i)
        if (group.outs[0][i] != 0) step.sumIndices.push_back(i);
      // Sums of whole numbers may cancel out; where lists are gathered after a reduction an entry then travels unseen.
      uint64_t mostBytes = 0;
      double mostWords = 0;
      for (uint64_t r = 0; r < ranks; ++r) {
        const sparsecollStats_t stats = group.stats(static_cast<int>(r));
        const Sent sent = row.sent(step, r);
        CHECK(stats.lastBytesSent == sent.bytes);
        CHECK(stats.lastRounds == row.rounds(ranks));
        mostBytes = std::max(mostBytes, stats.lastBytesSent);
        mostWords = std::max(mostWords, static_cast<double>(sent.words) / static_cast<double>(step.k));
      }
      const auto p = static_cast<double>(ranks);
      CHECK(mostWords >= 0.98 * row.low(p));
      CHECK(mostWords <= 1.02 * row.high(p));
      if (table)
        std::printf("| %s | %d | %d | %d | %.2f | %.2f to %.2f |\n", row.name, static_cast<int>(ranks),
                    static_cast<int>(row.rounds(ranks)), static_cast<int>(mostBytes), mostWords, row.low(p),
                    row.high(p));
    }
}

// MiCRO and its relatives: exact bytes on the lists that there were, and 3 words an entry where these are even.
TEST_CASE("the index union sends three words for an entry") {
  for (uint64_t ranks = 2; ranks <= 16; ++ranks) {
    CAPTURE(ranks);
    const uint64_t k = kEntriesPerRank * ranks;
    const auto n = static_cast<uint64_t>(static_cast<double>(k) / kDensity);
    Group group(static_cast<int>(ranks), n, sparsecollFloat32, preset("micro", kDensity));
    group.fillRandom(ranks);
    REQUIRE(group.step() == all(static_cast<int>(ranks), sparsecollSuccess));
    for (uint64_t r = 0; r < ranks; ++r) {  // the first step: everyone sends its share
      Sent sent;
      for (uint64_t peer = 1; peer < ranks; ++peer) {
        sent.indices(kEntriesPerRank);
        sent.values(kEntriesPerRank);
        sent.values(kEntriesPerRank);
      }
      const uint64_t ladder = (ranks - 1) * (32 + 49 * 8);
      const sparsecollStats_t stats = group.stats(static_cast<int>(r));
      CHECK(stats.lastBytesSent == sent.bytes + ladder);
      CHECK(stats.lastRounds == 4);
      CHECK(static_cast<double>(sent.words) / static_cast<double>(k) ==
            Approx(3.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks)));
    }
  }
}

// The paper's bound is 6 k (P - 1) / P words for k entries everywhere: 2 for the split, 2 for the gather, and as many
// again for balancing. With the entries there were: those selected, and those of the sum.
TEST_CASE("Ok-Topk stays inside its bound between evaluations") {
  for (const uint64_t ranks : {2, 4, 7, 8, 14, 16}) {
    CAPTURE(ranks);
    const uint64_t k = kEntriesPerRank * ranks;
    const auto n = static_cast<uint64_t>(static_cast<double>(k) / kDensity);
    Group group(static_cast<int>(ranks), n, sparsecollFloat32, preset("oktopk", kDensity));
    const auto p = static_cast<double>(ranks);
    int steps = 0;
    for (uint64_t step = 0; step < 28; ++step) {
      group.fillRandom(step);
      REQUIRE(group.step() == all(static_cast<int>(ranks), sparsecollSuccess));
      const uint64_t sum = group.stats(0).lastUnion;
      if (sum == k) continue;  // everything was gathered, and cut to k
      ++steps;
      double words = 0;
      double selected = 0;
      for (uint64_t r = 0; r < ranks; ++r) {
        const sparsecollStats_t stats = group.stats(static_cast<int>(r));
        CHECK(stats.lastRounds == 1 + log2Up(ranks));
        CHECK(stats.lastMessagesSent == ranks - 1 + log2Up(ranks));
        words += static_cast<double>(stats.lastBytesSent - 32 * stats.lastMessagesSent) / 4 / p;
        selected += static_cast<double>(stats.lastSelected) / p;
      }
      const double entries = 2 * selected * (p - 1) / p;
      CHECK(words >= entries);
      CHECK(words <= 1.05 * (entries + 2 * static_cast<double>(sum) * (p - 1) / p) + 4 * p);  // and padding
    }
    CHECK(steps > 5);
  }
}
