// DEFT's parts on the specification's vectors V1 to V3, and the selector made of them.
#include "selectors/deft.h"

#include "tests/support/catch.h"

#include <numeric>

#include "host/statistics.h"
#include "tests/support/solo.h"
#include "tests/unit/cut_step.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;
using test::solo;

const std::vector<uint64_t> kTensors = {432, 16, 2304, 16, 4608, 32, 9216, 32, 640, 10};
const std::vector<double> kNorms = {3, .9, 2, .4, 1.5, .5, .7, .8, .9, 1, .6, 1.2, 1.1, .3, .3, .3};

std::vector<uint64_t> lengthsOf(const std::vector<uint64_t>& ends) {
  std::vector<uint64_t> lengths = ends;
  std::adjacent_difference(ends.begin(), ends.end(), lengths.begin());
  return lengths;
}

struct Assigned {
  std::vector<uint64_t> entries;
  std::vector<uint32_t> order;
};

Assigned assign(const std::vector<double>& norms, const std::vector<uint64_t>& lengths, uint64_t k) {
  Assigned assigned{std::vector<uint64_t>(lengths.size()), std::vector<uint32_t>(lengths.size())};
  assignEntries(norms, lengths, k, assigned.entries, assigned.order, solo());
  return assigned;
}

uint64_t sumOf(const std::vector<uint64_t>& x) { return std::accumulate(x.begin(), x.end(), uint64_t{0}); }

TEST_CASE("V1: fragments of ten tensors on four ranks") {
  const std::vector<uint64_t> ends = {432,  448,  2752,  2768,  3920,  5072,  6224,  7376,
                                      7408, 9712, 12016, 14320, 16624, 16656, 17296, 17306};
  CHECK(fragmentEnds(kTensors, 4) == ends);
  CHECK(fragmentEnds(kTensors, 1).size() == kTensors.size());
  CHECK(fragmentEnds(std::vector<uint64_t>{2}, 5) == std::vector<uint64_t>{1, 2});  // no empty pieces
}

TEST_CASE("V2: entries by falling norm") {
  const std::vector<uint64_t> lengths = lengthsOf(fragmentEnds(kTensors, 4));
  const std::vector<uint64_t> of173 = {33, 10, 22, 4, 16, 6, 8, 9, 10, 11, 7, 13, 12, 4, 4, 3};
  CHECK(assign(kNorms, lengths, 173).entries == of173);
  std::vector<uint64_t> of17(16, 1);
  of17[0] = 3;
  of17[2] = 2;
  CHECK(assign(kNorms, lengths, 17).entries == of17);
  CHECK(assign(kNorms, lengths, 8).entries == std::vector<uint64_t>(16, 1));
}

TEST_CASE("evened out, the entries are k, or one a fragment") {
  const std::vector<uint64_t> lengths = lengthsOf(fragmentEnds(kTensors, 4));
  for (const uint64_t k : {1, 8, 16, 17, 18, 40, 173, 5000, 17000, 17306, 20000}) {
    CAPTURE(k);
    Assigned assigned = assign(kNorms, lengths, k);
    evenOut(lengths, k, assigned.entries, assigned.order, solo());
    CHECK(sumOf(assigned.entries) == std::clamp<uint64_t>(k, 16, 17306));
    for (size_t f = 0; f < lengths.size(); ++f) {
      CHECK(assigned.entries[f] >= 1);
      CHECK(assigned.entries[f] <= lengths[f]);
    }
  }
}

TEST_CASE("V3: bins by falling cost") {
  const std::vector<uint64_t> lengths = lengthsOf(fragmentEnds(kTensors, 4));
  const auto pack = [&](uint64_t k, std::vector<double>& loads) {
    Assigned assigned = assign(kNorms, lengths, k);
    std::vector<uint32_t> bins(16);
    std::vector<double> costs(16);
    loads.assign(4, 0);
    packBins(lengths, assigned.entries, bins, loads, assigned.order, costs, solo());
    std::vector<std::vector<size_t>> fragments(4);
    for (size_t f = 0; f < 16; ++f) fragments[bins[f]].push_back(f);
    return fragments;
  };
  std::vector<double> loads;
  using Bins = std::vector<std::vector<size_t>>;
  CHECK(pack(173, loads) == Bins{{2, 6, 14}, {5, 7, 11}, {0, 4, 12}, {1, 3, 8, 9, 10, 13, 15}});
  const double wanted[] = {15010.53, 15155.44, 15046.93, 14709.98};
  for (size_t b = 0; b < 4; ++b) CHECK(loads[b] == Approx(wanted[b]).margin(0.006));
  CHECK(pack(17, loads) == Bins{{2, 12}, {4, 7, 9}, {0, 1, 3, 5, 10}, {6, 8, 11, 13, 14, 15}});
}

TEST_CASE("norms that are all zero, or of which one is huge, leave every fragment an entry") {
  const std::vector<uint64_t> lengths = {10, 20, 30};
  CHECK(assign({0, 0, 0}, lengths, 12).entries == std::vector<uint64_t>{1, 1, 1});
  CHECK(assign({1e308, 1, 1}, lengths, 12).entries == std::vector<uint64_t>{10, 1, 1});
}

TEST_CASE("a sum of norms that has lost its digits gives nobody more than is left") {
  const Assigned assigned = assign({9007199254740992.0, 2.9}, {10, 20000}, 1000);
  CHECK(assigned.entries == std::vector<uint64_t>{10, 990});
}

TEST_CASE("evening out takes as many rounds as fragments fill up, not as many as entries are missing") {
  std::vector<uint64_t> lengths(20000, 1);
  lengths.push_back(4000000);
  std::vector<uint64_t> entries(lengths.size(), 1);
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  evenOut(lengths, 402000, entries, order, solo());
  CHECK(sumOf(entries) == 402000);
  CHECK(entries.back() == 382000);
}

SelectionRequest requestOf(uint64_t n, int ranks, double density, std::span<const sparsecollSegment_t> segments,
                           bool faithful = false) {
  SelectionRequest request;
  request.n = n;
  request.ranks = ranks;
  request.density = request.maxDensity = density;
  request.params.faithful = faithful ? 1 : 0;
  request.segments = segments;
  return request;
}

TEST_CASE("the ranks select disjoint lists of k entries together, the largest of each fragment") {
  std::vector<sparsecollSegment_t> segments;
  for (const uint64_t length : kTensors) segments.push_back({length, 0, 0, 0});
  const uint64_t n = 17306;
  for (const int ranks : {1, 2, 4, 7}) {
    SelectionRun<float> run(selectorRow(sparsecollSelectDeft)->plan, requestOf(n, ranks, 0.01, segments), true);
    const std::vector<uint64_t> ends = fragmentEnds(kTensors, static_cast<uint64_t>(ranks));
    for (uint64_t step = 0; step < 6; ++step) {
      CAPTURE(ranks, step);
      CHECK(run.step(gradientsOf<float>(run.ranks(), n, step)) == 173);
      std::vector<int> owners(ends.size(), -1);
      for (size_t r = 0; r < run.ranks(); ++r) {
        std::vector<uint32_t> wanted;
        for (size_t f = 0; f < ends.size(); ++f) {
          const uint64_t begin = f == 0 ? 0 : ends[f - 1];
          const auto count = std::count_if(run.lists[r].begin(), run.lists[r].end(),
                                           [&](uint32_t i) { return i >= begin && i < ends[f]; });
          if (count == 0) continue;
          CHECK(owners[f] == -1);
          owners[f] = static_cast<int>(r);
          const auto part =
              test::expectedSelection(run.accumulated[r], {{begin, ends[f], static_cast<uint64_t>(count)}});
          wanted.insert(wanted.end(), part.indices.begin(), part.indices.end());
        }
        CHECK(test::difference(run.lists[r], wanted) == "");
        CHECK(run.control(r).fallbacks == 0);
      }
      CHECK(std::count(owners.begin(), owners.end(), -1) == 0);
    }
  }
}

TEST_CASE("the norms are those of acc, with the bits of segmentSquares") {
  const uint64_t n = 40000;
  const sparsecollSegment_t segments[] = {{100, 0, 0, 0}, {29901, 0, 0, 0}, {9999, 0, 0, 0}};
  SelectionRun<float> run(selectorRow(sparsecollSelectDeft)->plan, requestOf(n, 1, 0.01, segments), true);
  run.step(gradientsOf<float>(1, n, 3));
  double squares[3];
  const uint64_t bounds[] = {0, 100, 30001, 40000};
  host::segmentSquares(run.accumulated[0].data(), sparsecollFloat32, bounds, squares, host::bestIsa());
  // One rank has one piece of every tensor, so there are three fragments.
  for (size_t s = 0; s < 3; ++s) CHECK(test::sameBits(run[0].surveyRows()[s], std::sqrt(squares[s])));
}

TEST_CASE("faithful: the leader's norms make the bins, the own ones the entries") {
  const sparsecollSegment_t segments[] = {{500, 0, 0, 0}, {500, 0, 0, 0}, {500, 0, 0, 0}, {500, 0, 0, 0}};
  SelectionRun<float> run(selectorRow(sparsecollSelectDeft)->plan, requestOf(2000, 2, 0.05, segments, true), true);
  std::vector<std::vector<float>> gradients(2, std::vector<float>(2000));
  for (size_t i = 0; i < 2000; ++i) {
    const auto wave = static_cast<float>(1 + i % 7);
    gradients[0][i] = wave * (i < 500 ? 100.0F : 1.0F);    // rank 0: nearly everything to the first fragment
    gradients[1][i] = wave * (i >= 1500 ? 100.0F : 1.0F);  // rank 1: to the last
  }
  run.step(gradients);
  // Rank 0 leads: fragment 0 is by far the dearest and alone in bin 0, which is rank 0's in step 0.
  CHECK(run.lists[0].size() == assign({100, 1, 1, 1}, {500, 500, 500, 500}, 100).entries[0]);
  uint64_t last = 0;
  for (const uint32_t i : run.lists[1]) last += i >= 1500 ? 1 : 0;
  CHECK(last == run.lists[0].size());
}

}  // namespace
}  // namespace sparsecoll
