// Select, Merge and ScatterAdd against maps and the reference; and what all calls on vectors refuse.
#include "tests/support/catch.h"

#include <algorithm>

#include "tests/oracle/vector_oracle.h"

using namespace sparsecoll::test;

namespace {

// What Select should give: the k largest (NaN above Inf above finite), or all of at least a threshold.
Entries selected(const Elements& in, double scale, uint64_t k, double least) {
  std::vector<uint64_t> order;
  std::vector<double> acc;
  for (uint64_t i = 0; i < in.size(); ++i) {
    acc.push_back(roundTo(accumulateType(in.type()), in[i] * roundTo(accumulateType(in.type()), scale)));
    if (!(std::abs(acc[i]) < least)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    if (std::isnan(acc[a]) || std::isnan(acc[b])) return std::isnan(acc[a]) && !std::isnan(acc[b]);
    return std::abs(acc[a]) > std::abs(acc[b]);
  });
  order.resize(std::min<uint64_t>(order.size(), k));
  std::sort(order.begin(), order.end());
  Entries entries;
  for (const uint64_t i : order) entries.push_back({i, roundTo(in.type(), acc[i])});
  return entries;
}

bool same(const Entries& a, const Entries& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool equal = a[i].second == b[i].second || (std::isnan(a[i].second) && std::isnan(b[i].second));
    if (a[i].first != b[i].first || !equal) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("Select picks what the selector says, in index order") {
  const Ranks ranks(1);
  Random random(4);
  for (const sparsecollDataType_t type : kAllTypes)
    for (const uint64_t n : {1, 2, 31, 100, 1000, 8193, 20000})
      for (const bool threshold : {false, true})
        for (const double scale : {0.0, 1.0, -0.5, 0.3})
          for (const sparsecollIndexType_t indexType : {sparsecollIndexU32, sparsecollIndexU64}) {
            CAPTURE(nameOf(type), n, threshold, scale, int(indexType));
            Elements in(type, n);
            for (uint64_t i = 0; i < n; ++i) in.set(i, random.chance(0.3) ? 1 : random.bell());
            if (n > 100) in.set(random.below(n), std::nan(""));
            if (n > 100) in.set(random.below(n), -HUGE_VAL);
            sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
            params.selector = threshold ? sparsecollSelectThreshold : sparsecollSelectDefault;
            params.k = 1 + random.below(n + 2);
            params.threshold = threshold ? 0.8 : 0;
            params.inputScale = scale;
            const uint64_t k = std::min(params.k, n);
            const Entries wanted =
                selected(in, scale == 0 ? 1 : scale, threshold ? std::min(n, 4 * k) : k, threshold ? 0.8 : 0);
            SparseVector out(type, n, wanted.size(), indexType);
            const Elements before = in;
            REQUIRE(sparsecollSelect(in.data(), n, type, &params, out.view(), ranks[0], nullptr) == sparsecollSuccess);
            CHECK(same(entriesOf(out), wanted));
            CHECK(isSorted(*out.view()));
            CHECK((in == before));
            if (wanted.empty()) continue;
            SparseVector small(type, n, wanted.size() - 1, indexType);
            CHECK(sparsecollSelect(in.data(), n, type, &params, small.view(), ranks[0], nullptr) == sparsecollCapacity);
            CHECK(small.count() == wanted.size());
          }
}

TEST_CASE("Merge is the sum of two vectors") {
  const Ranks ranks(1);
  Random random(5);
  for (const sparsecollDataType_t type : kAllTypes)
    for (const uint64_t length : {uint64_t{1}, uint64_t{300}, uint64_t{50000}, uint64_t{1} << 40})
      for (const size_t most : {size_t{0}, size_t{5}, size_t{2000}}) {
        CAPTURE(nameOf(type), length, most);
        const Entries a = randomEntries(random, length, random.below(most + 1), type);
        const Entries b = randomEntries(random, length, random.below(most + 1), type);
        const Entries wanted = finished(sumOf({a, b}, type), type);
        const auto left = vectorOf(a, type, length, sparsecollIndexU64, 2);
        const auto right = vectorOf(b, type, length, sparsecollIndexU64);
        SparseVector out(type, length, wanted.size(), sparsecollIndexU64);
        REQUIRE(sparsecollMerge(left->view(), right->view(), out.view(), ranks[0], nullptr) == sparsecollSuccess);
        CHECK((entriesOf(out) == wanted));
        CHECK(isSorted(*out.view()));
        const Entries twice = finished(sumOf({a, a}, type), type);
        SparseVector doubled(type, length, twice.size(), sparsecollIndexU64);
        REQUIRE(sparsecollMerge(left->view(), left->view(), doubled.view(), ranks[0], nullptr) == sparsecollSuccess);
        CHECK((entriesOf(doubled) == twice));
        if (wanted.empty()) continue;
        SparseVector small(type, length, wanted.size() - 1, sparsecollIndexU64);
        CHECK(sparsecollMerge(left->view(), right->view(), small.view(), ranks[0], nullptr) == sparsecollCapacity);
        CHECK(small.count() == wanted.size());
      }
}

TEST_CASE("ScatterAdd adds every entry in turn") {
  const Ranks ranks(1);
  Random random(6);
  for (const sparsecollDataType_t type : kAllTypes)
    for (const double scale : {1.0, -2.0, 0.1, 0.0}) {
      CAPTURE(nameOf(type), scale);
      constexpr uint64_t kLength = 500;
      const Entries entries = randomEntries(random, kLength, 300, type);
      const auto in = vectorOf(entries, type, kLength, sparsecollIndexU32);
      Elements dense(type, kLength);
      for (uint64_t i = 0; i < kLength; ++i) dense.set(i, random.bell());
      Elements wanted = dense;
      for (const auto& [index, value] : entries) {
        const double rounded = roundTo(accumulateType(type), scale);
        const double sum = type == sparsecollFloat64
                               ? std::fma(rounded, value, wanted[index])
                               : static_cast<double>(std::fmaf(static_cast<float>(rounded), static_cast<float>(value),
                                                               static_cast<float>(wanted[index])));
        wanted.set(index, sum);
      }
      REQUIRE(sparsecollScatterAdd(in->view(), dense.data(), kLength, scale, ranks[0], nullptr) == sparsecollSuccess);
      CHECK((dense == wanted));
      const auto bad = vectorOf({{1, 1}, {kLength, 1}}, type, kLength, sparsecollIndexU32);
      CHECK(sparsecollScatterAdd(bad->view(), dense.data(), kLength, scale, ranks[0], nullptr) ==
            sparsecollInvalidArgument);
      for (const double huge : {1e39, 1e-60, -1e300}) {
        if (type == sparsecollFloat64) continue;
        CHECK(sparsecollScatterAdd(in->view(), dense.data(), kLength, huge, ranks[0], nullptr) ==
              sparsecollInvalidArgument);
      }
      CHECK((dense == wanted));
    }
  const auto none = vectorOf({}, sparsecollFloat32, 0, sparsecollIndexU32);
  CHECK(sparsecollScatterAdd(none->view(), nullptr, 0, 1, ranks[0], nullptr) == sparsecollSuccess);
}

namespace {

constexpr uint64_t kLength = 100;

// A good pair of vectors that one mutation makes bad.
struct Pair {
  std::unique_ptr<SparseVector> in = vectorOf({{3, 1}, {70, 2}}, sparsecollFloat32, kLength, sparsecollIndexU32, 2);
  std::unique_ptr<SparseVector> out = vectorOf({}, sparsecollFloat32, kLength, sparsecollIndexU32, 8);
};

struct BadVector {
  const char* name;
  std::function<void(sparsecollVector_t& in, sparsecollVector_t& out)> spoil;
};

template <class T>
void setAt(void* memory, size_t i, T value) {
  std::memcpy(static_cast<std::byte*>(memory) + i * sizeof(T), &value, sizeof(T));
}

void shift(void*& pointer, size_t bytes) { pointer = static_cast<std::byte*>(pointer) + bytes; }

const BadVector kBadVectors[] = {
    {"in.values NULL", [](auto& in, auto&) { in.values = nullptr; }},
    {"in.indices NULL", [](auto& in, auto&) { in.indices = nullptr; }},
    {"in.count NULL", [](auto& in, auto&) { in.count = nullptr; }},
    {"out.values NULL", [](auto&, auto& out) { out.values = nullptr; }},
    {"out.indices NULL", [](auto&, auto& out) { out.indices = nullptr; }},
    {"out.count NULL", [](auto&, auto& out) { out.count = nullptr; }},
    {"in.dataType -1", [](auto& in, auto&) { in.dataType = -1; }},
    {"in.dataType 255", [](auto& in, auto&) { in.dataType = 255; }},
    {"in.dataType max", [](auto& in, auto&) { in.dataType = 0x7fffffff; }},
    {"in.dataType other", [](auto& in, auto&) { in.dataType = sparsecollFloat16; }},
    {"out.indexType -1", [](auto&, auto& out) { out.indexType = -1; }},
    {"out.indexType 3", [](auto&, auto& out) { out.indexType = 3; }},
    {"in.indexType max", [](auto& in, auto&) { in.indexType = 0x7fffffff; }},
    {"in.flags", [](auto& in, auto&) { in.flags = 2; }},
    {"out.flags", [](auto&, auto& out) { out.flags = 0x80000001u; }},
    {"in.reserved0", [](auto& in, auto&) { in.reserved0 = 1; }},
    {"count above capacity", [](auto& in, auto&) { in.capacity = 1; }},
    {"other length", [](auto& in, auto&) { in.length = kLength + 1; }},
    {"u32 names 2^32", [](auto& in, auto& out) { in.length = out.length = 1ull << 33; }},
    {"index = length", [](auto& in, auto&) { setAt<uint32_t>(in.indices, 1, kLength); }},
    {"index = 2^32 - 1", [](auto& in, auto&) { setAt<uint32_t>(in.indices, 0, 0xffffffffu); }},
    {"not SORTED",
     [](auto& in, auto&) {
       setAt<uint32_t>(in.indices, 0, 71);
       in.flags = SPARSECOLL_SORTED;
     }},
    {"SORTED, twice one index",
     [](auto& in, auto&) {
       setAt<uint32_t>(in.indices, 0, 70);
       in.flags = SPARSECOLL_SORTED;
     }},
    {"out is in", [](auto& in, auto& out) { out = in; }},
    {"values overlap by one",
     [](auto& in, auto& out) {
       out.values = in.values;
       shift(out.values, 12);
     }},
    {"indices overlap by one",
     [](auto& in, auto& out) {
       out.indices = in.indices;
       shift(out.indices, 12);
     }},
    {"out.values in in.indices", [](auto& in, auto& out) { out.values = in.indices; }},
    {"shared count", [](auto& in, auto& out) { out.count = in.count; }},
    {"in.values misaligned",
     [](auto& in, auto&) {
       shift(in.values, 2);
       in.capacity = 2;
     }},
    {"out.indices misaligned",
     [](auto&, auto& out) {
       shift(out.indices, 1);
       out.capacity = 2;
     }},
};

}  // namespace

TEST_CASE("calls on vectors refuse bad ones without effect, and the next call works") {
  const Ranks ranks(2);
  for (const BadVector& bad : kBadVectors)
    for (const int which : {0, 1, 2, 3}) {
      CAPTURE(bad.name, which);
      Results first(2, sparsecollSuccess);
      std::vector<uint64_t> counts(2);
      const auto call = [&](Pair& pair, sparsecollComm_t comm) {
        if (which == 0) return sparsecollAllReduceVector(pair.in->view(), pair.out->view(), nullptr, comm, nullptr);
        if (which == 1) return sparsecollAllGatherVector(pair.in->view(), pair.out->view(), comm, nullptr);
        if (which == 2) return sparsecollReduceScatterVector(pair.in->view(), pair.out->view(), nullptr, comm, nullptr);
        Pair other;
        return sparsecollMerge(pair.in->view(), other.in->view(), pair.out->view(), comm, nullptr);
      };
      const Results second = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
        if (rank == 1) {  // one rank errs; the others only wait until it has got it right
          Pair spoilt;
          bad.spoil(*spoilt.in->view(), *spoilt.out->view());
          first[1] = call(spoilt, comm);
        }
        Pair good;
        const sparsecollResult_t result = call(good, comm);
        counts[static_cast<size_t>(rank)] = good.out->count();
        return result;
      });
      CHECK(first[1] == sparsecollInvalidArgument);
      REQUIRE(second == all(2, sparsecollSuccess));
      CHECK(counts[1] == (which == 1 ? 4 : which == 2 ? 1 : 2));
    }
}
