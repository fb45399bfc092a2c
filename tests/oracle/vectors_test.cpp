// The one-shot collectives on sparse vectors against maps.
#include "tests/support/catch.h"

#include <algorithm>

#include "tests/oracle/vector_oracle.h"

using namespace sparsecoll::test;

namespace {

struct Shape {
  uint64_t length;
  size_t entries;  // most on a rank
  sparsecollIndexType_t index;
};
const Shape kShapes[] = {
    {1, 3, sparsecollIndexU32},
    {100, 40, sparsecollIndexU32},
    {100, 40, sparsecollIndexU64},
    {100000, 3000, sparsecollIndexDefault},
    {0xffffffffull, 500, sparsecollIndexU32},
    {0x100000000ull, 500, sparsecollIndexU64},
    {1ull << 40, 500, sparsecollIndexU64},
    {~uint64_t{0}, 100, sparsecollIndexU64},
};

std::vector<Entries> randomRanks(Random& random, int ranks, const Shape& shape, sparsecollDataType_t type) {
  std::vector<Entries> lists;
  for (int rank = 0; rank < ranks; ++rank)
    lists.push_back(randomEntries(random, shape.length, random.below(shape.entries + 1), type));
  return lists;
}

struct Exchanged {
  Results results;
  std::vector<Entries> outs;
  std::vector<bool> sorted;
  std::vector<Entries> insAfter;
};

using Call = std::function<sparsecollResult_t(int, sparsecollVector_t*, sparsecollVector_t*, sparsecollComm_t)>;

// Runs call on every rank with its entries in and an out of the given capacity.
Exchanged exchange(const Ranks& ranks, const std::vector<Entries>& lists, sparsecollDataType_t type, const Shape& shape,
                   uint64_t capacity, const Call& call) {
  Exchanged done;
  done.outs.resize(lists.size());
  done.insAfter.resize(lists.size());
  std::vector<int> sorted(lists.size());
  done.results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    const auto in = vectorOf(lists[r], type, shape.length, shape.index);
    SparseVector out(type, shape.length, capacity, shape.index);
    const sparsecollResult_t result = call(rank, in->view(), out.view(), comm);
    if (result == sparsecollSuccess) done.outs[r] = entriesOf(out);
    done.insAfter[r] = entriesOf(*in);
    sorted[r] = isSorted(*out.view()) ? 1 : 0;
    return result;
  });
  done.sorted.assign(sorted.begin(), sorted.end());
  return done;
}

}  // namespace

TEST_CASE("AllReduceVector is the sum, as a sorted union with equal bits") {
#if defined(__SANITIZE_THREAD__)  // what threads do depends on how many there are alone
  const auto counts = {3};
#else
  const auto counts = {1, 2, 3, 4, 8};
#endif
  Random random(1);
  for (const int count : counts) {
    const Ranks ranks(count);
    for (const Shape& shape : kShapes)
      for (const sparsecollDataType_t type : kAllTypes)
        for (const bool average : {false, true}) {
          CAPTURE(count, shape.length, int(shape.index), nameOf(type), average);
          sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
          params.op = average ? sparsecollAvg : sparsecollSum;
          params.outputScale = average ? 0.1 : 0;
          const std::vector<Entries> lists = randomRanks(random, count, shape, type);
          const Entries wanted = finished(sumOf(lists, type), type, average ? count : 1, average ? 0.1 : 1);
          const Exchanged done =
              exchange(ranks, lists, type, shape, wanted.size() + 1, [&](int, auto* in, auto* out, auto comm) {
                return sparsecollAllReduceVector(in, out, average ? &params : nullptr, comm, nullptr);
              });
          REQUIRE(done.results == all(count, sparsecollSuccess));
          for (size_t r = 0; r < lists.size(); ++r) {
            CHECK((done.outs[r] == wanted));
            CHECK(done.sorted[r]);
            CHECK((done.insAfter[r] == lists[r]));
          }
        }
  }
}

TEST_CASE("a vector of 2^40 with a thousand entries at both ends") {
  const uint64_t length = 1ull << 40;
  const Ranks ranks(3);
  std::vector<Entries> lists(3);
  for (uint64_t i = 0; i < 500; ++i)
    for (size_t r = 0; r < 3; ++r) {
      lists[r].push_back({i * (r + 1), static_cast<double>(i)});
      lists[r].push_back({length - 1 - i * (r + 1), 1.0});
    }
  const Entries wanted = finished(sumOf(lists, sparsecollFloat32), sparsecollFloat32);
  const Exchanged done = exchange(
      ranks, lists, sparsecollFloat32, {length, 0, sparsecollIndexU64}, 3000,
      [](int, auto* in, auto* out, auto comm) { return sparsecollAllReduceVector(in, out, nullptr, comm, nullptr); });
  REQUIRE(done.results == all(3, sparsecollSuccess));
  CHECK((done.outs[2] == wanted));
  CHECK(wanted.back().first == length - 1);
}

TEST_CASE("empty vectors on some ranks, on all, and of no length") {
  const Ranks ranks(3);
  for (const uint64_t length : {uint64_t{0}, uint64_t{10}, uint64_t{1} << 40})
    for (const int full : {-1, 0, 2}) {
      if (length == 0 && full >= 0) continue;
      CAPTURE(length, full);
      std::vector<Entries> lists(3);
      if (full >= 0) lists[static_cast<size_t>(full)] = {{3, 1.5}, {9, -2}};
      const Entries wanted = finished(sumOf(lists, sparsecollFloat16), sparsecollFloat16);
      const Shape shape{length, 0, sparsecollIndexU64};
      for (const int which : {0, 1, 2}) {
        CAPTURE(which);
        const Exchanged done =
            exchange(ranks, lists, sparsecollFloat16, shape, wanted.size(), [&](int, auto* in, auto* out, auto comm) {
              if (which == 0) return sparsecollAllReduceVector(in, out, nullptr, comm, nullptr);
              if (which == 1) return sparsecollAllGatherVector(in, out, comm, nullptr);
              return sparsecollReduceScatterVector(in, out, nullptr, comm, nullptr);
            });
        REQUIRE(done.results == all(3, sparsecollSuccess));
        if (which != 2) CHECK((done.outs[1] == wanted));
        CHECK(done.sorted[1]);
      }
    }
}

TEST_CASE("ranks may use other index types and claim SORTED or not") {
  const Ranks ranks(2);
  std::vector<Entries> outs(2);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    const auto type = rank == 0 ? sparsecollIndexU32 : sparsecollIndexU64;
    const auto in = vectorOf({{1, 1}, {5, 2}}, sparsecollFloat32, 8, type);
    if (rank == 0) in->view()->flags = SPARSECOLL_SORTED;
    SparseVector out(sparsecollFloat32, 8, 4, rank == 0 ? sparsecollIndexU64 : sparsecollIndexU32);
    const sparsecollResult_t result = sparsecollAllReduceVector(in->view(), out.view(), nullptr, comm, nullptr);
    outs[static_cast<size_t>(rank)] = entriesOf(out);
    return result;
  });
  CHECK(results == all(2, sparsecollSuccess));
  CHECK((outs[0] == Entries{{1, 2}, {5, 4}}));
  CHECK((outs[1] == outs[0]));
}

TEST_CASE("ReduceScatterVector gives every rank its part of the sum") {
  Random random(2);
  for (const int count : {1, 2, 3, 4, 7}) {
    const Ranks ranks(count);
    for (const Shape& shape : kShapes)
      for (const sparsecollDataType_t type : kAllTypes)
        for (const bool own : {false, true}) {
          CAPTURE(count, shape.length, nameOf(type), own);
          std::vector<uint64_t> bounds{0};
          for (int r = 1; r < count; ++r)
            bounds.push_back(random.chance(0.3) ? bounds.back() : random.below(shape.length));
          bounds.push_back(shape.length);
          std::sort(bounds.begin(), bounds.end());
          if (!own)
            for (size_t r = 0; r < bounds.size(); ++r)
              bounds[r] = static_cast<uint64_t>(static_cast<unsigned __int128>(shape.length) * r / ranks.count());
          const std::vector<Entries> lists = randomRanks(random, count, shape, type);
          const Entries sum = finished(sumOf(lists, type), type);
          const Exchanged done =
              exchange(ranks, lists, type, shape, sum.size(), [&](int, auto* in, auto* out, auto comm) {
                return sparsecollReduceScatterVector(in, out, own ? bounds.data() : nullptr, comm, nullptr);
              });
          REQUIRE(done.results == all(count, sparsecollSuccess));
          for (size_t r = 0; r < lists.size(); ++r) {
            Entries part;
            for (const auto& entry : sum)
              if (entry.first >= bounds[r] && entry.first < bounds[r + 1]) part.push_back(entry);
            CHECK((done.outs[r] == part));
            CHECK(done.sorted[r]);
          }
        }
  }
}

TEST_CASE("AllGatherVector puts the ranks' entries one after the other, unchanged") {
  Random random(3);
  for (const int count : {1, 2, 3, 5}) {
    const Ranks ranks(count);
    for (const Shape& shape : kShapes)
      for (const sparsecollDataType_t type : kAllTypes) {
        CAPTURE(count, shape.length, nameOf(type));
        const std::vector<Entries> lists = randomRanks(random, count, shape, type);
        Entries wanted;
        for (const Entries& list : lists) wanted.insert(wanted.end(), list.begin(), list.end());
        const Exchanged done = exchange(
            ranks, lists, type, shape, wanted.size(),
            [&](int, auto* in, auto* out, auto comm) { return sparsecollAllGatherVector(in, out, comm, nullptr); });
        REQUIRE(done.results == all(count, sparsecollSuccess));
        for (size_t r = 0; r < lists.size(); ++r) {
          CHECK((done.outs[r] == wanted));
          bool increasing = true;
          for (size_t i = 1; i < wanted.size(); ++i) increasing = increasing && wanted[i - 1].first < wanted[i].first;
          CHECK(done.sorted[r] == increasing);
        }
      }
  }
}

TEST_CASE("an out that is too small gets Capacity and the need, on the rank that has it") {
  const Ranks ranks(3);
  const std::vector<Entries> lists = {{{1, 1}, {2, 1}}, {{2, 1}, {3, 1}}, {{7, 1}}};
  const uint64_t bounds[] = {0, 8, 8, 8};  // all of it for rank 0
  for (const int which : {0, 1, 2})
    for (const bool everywhere : {false, true}) {
      CAPTURE(which, everywhere);
      const uint64_t need = which == 1 ? 5 : 4;
      std::vector<uint64_t> counts(3);
      const auto attempt = [&](uint64_t smallCapacity) {
        return onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          const auto in = vectorOf(lists[static_cast<size_t>(rank)], sparsecollFloat32, 8, sparsecollIndexU32);
          SparseVector out(sparsecollFloat32, 8, rank == 0 || everywhere ? smallCapacity : need);
          sparsecollResult_t result;
          if (which == 0)
            result = sparsecollAllReduceVector(in->view(), out.view(), nullptr, comm, nullptr);
          else if (which == 1)
            result = sparsecollAllGatherVector(in->view(), out.view(), comm, nullptr);
          else
            result = sparsecollReduceScatterVector(in->view(), out.view(), bounds, comm, nullptr);
          counts[static_cast<size_t>(rank)] = out.count();
          return result;
        });
      };
      Results wanted = all(3, everywhere && which != 2 ? sparsecollCapacity : sparsecollSuccess);
      wanted[0] = sparsecollCapacity;
      for (const uint64_t capacity : {need - 1, uint64_t{0}}) {
        CHECK(attempt(capacity) == wanted);
        CHECK(counts[0] == need);
      }
      CHECK(attempt(need) == all(3, sparsecollSuccess));
      CHECK(counts[0] == need);
    }
}

TEST_CASE("values pass unharmed: infinities add up, NaN stays NaN, zeros are entries") {
  const Ranks ranks(2);
  const std::vector<Entries> lists = {{{0, HUGE_VAL}, {1, HUGE_VAL}, {2, std::nan("")}, {3, 0}, {4, 5}},
                                      {{0, 1}, {1, -HUGE_VAL}, {2, 1}, {3, 0}, {4, -5}}};
  for (const sparsecollDataType_t type : kAllTypes) {
    CAPTURE(nameOf(type));
    const Exchanged done = exchange(
        ranks, lists, type, {5, 0, sparsecollIndexU32}, 5,
        [](int, auto* in, auto* out, auto comm) { return sparsecollAllReduceVector(in, out, nullptr, comm, nullptr); });
    REQUIRE(done.results == all(2, sparsecollSuccess));
    REQUIRE(done.outs[0].size() == 5);
    CHECK(done.outs[0][0].second == HUGE_VAL);
    CHECK(std::isnan(done.outs[0][1].second));
    CHECK(std::isnan(done.outs[0][2].second));
    CHECK(done.outs[0][3] == std::pair<uint64_t, double>(3, 0));
    CHECK(done.outs[0][4] == std::pair<uint64_t, double>(4, 0));
  }
}
