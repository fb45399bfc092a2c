// P lists to one sorted list, against a map, bit for bit.
#include "tests/support/catch.h"

#include "host/host_kernels.h"
#include "tests/unit/isas.h"
#include "tests/unit/lists.h"

namespace sparsecoll {
namespace {

using host::makeHostKernels;
using test::difference;
using test::Entries;
using test::Fill;
using test::finished;
using test::Guarded;
using test::Lists;
using test::someLists;

template <class T>
using Acc = typename Element<T>::Accumulate;

// A merge's output, with marks around it.
template <class T, class Index>
struct Output {
  explicit Output(uint64_t capacity) : indices(capacity), values(capacity) {}
  Guarded<Index> indices;
  Guarded<T> values;
  uint64_t count = 12345;
};

template <class T, class Index>
MergeArgs argsFor(const Lists<Acc<T>, Index>& lists, Output<T, Index>& out, uint64_t n) {
  MergeArgs args;
  args.lists = lists.views();
  args.accumulateType = Element<Acc<T>>::kType;
  args.n = n;
  args.indexBytes = sizeof(Index);
  args.outIndices = out.indices.data();
  args.outValues = out.values.data();
  args.outType = Element<T>::kType;
  args.outCount = &out.count;
  args.outCapacity = out.indices.size();
  return args;
}

// Merges into an output with `spare` more slots than the union needs.
template <class T, class Index>
void checkMerge(Kernels& kernels, const Lists<Acc<T>, Index>& lists, uint64_t n, MergeArgs options,
                uint64_t spare = 0) {
  const auto sums = lists.sum(options.mode);
  Output<T, Index> out(sums.size() + spare);
  MergeArgs args = argsFor<T, Index>(lists, out, n);
  args.mode = options.mode;
  args.finish = options.finish;
  REQUIRE(kernels.merge(args, {}).ok());
  CHECK(out.count == sums.size());
  uint64_t at = 0;
  uint64_t wrong = 0;
  for (const auto& [index, sum] : sums) {
    const T wanted = Element<T>::store(finished(sum, args.finish));
    wrong += out.indices[at] != index || !test::sameBits(out.values[at], wanted) ? 1 : 0;
    ++at;
  }
  CHECK(wrong == 0);
  CHECK(out.indices.intact());
  CHECK(out.values.intact());
}

constexpr uint64_t kLengths[] = {1, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 8193, 30000};

TEMPLATE_TEST_CASE("the union of any number of lists", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const uint64_t n : kLengths)
    for (const size_t ranks : {1, 2, 3, 8, 16})
      for (const double density : {0.001, 0.05, 1.0})
        for (const Combine mode : {Combine::kAdd, Combine::kAssign}) {
          CAPTURE(n, ranks, density, static_cast<int>(mode));
          MergeArgs options;
          options.mode = mode;
          options.finish = {ranks == 3 ? 3.0 : 1.0, 1};
          checkMerge<TestType, uint32_t>(*kernels, someLists<Acc<TestType>>(ranks, n, density, n), n, options, 3);
        }
}

TEMPLATE_TEST_CASE("the union is finished and NaN canonical", "", float, Half, Bfloat, double) {
  for (const host::Isa* isa : test::availableIsas()) {
    const auto kernels = makeHostKernels(*isa);
    for (const Fill fill : {Fill::kSmooth, Fill::kHostile, Fill::kZero, Fill::kSubnormal})
      for (const double divisor : {1, 2, 3, 7}) {
        CAPTURE(isa->name, static_cast<int>(fill), divisor);
        MergeArgs options;
        options.finish = {divisor, 1.7};
        checkMerge<TestType, uint32_t>(*kernels, someLists<Acc<TestType>>(3, 10000, 0.1, 5, fill), 10000, options);
      }
  }
}

// Two lists are merged piece by piece; the pieces' ends meet in every way.
TEMPLATE_TEST_CASE("the union of two lists of any lengths", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  const uint64_t n = 20000;
  for (const double first : {0.0001, 0.03, 0.5, 1.0})
    for (const double second : {0.0001, 0.03, 0.5, 1.0})
      for (const Fill fill : {Fill::kSmooth, Fill::kHostile, Fill::kZero}) {
        CAPTURE(first, second, static_cast<int>(fill));
        Lists<Acc<TestType>> lists;
        lists.add(test::someEntries<Acc<TestType>>(n, first, 1, fill));
        lists.add(test::someEntries<Acc<TestType>>(n, second, 2, fill), false);
        checkMerge<TestType, uint32_t>(*kernels, lists, n, {}, lists.entries().front().indices.size());
      }
  Lists<Acc<TestType>> apart;
  apart.add(test::someEntries<Acc<TestType>>(n / 2, 0.3, 3));
  Entries<Acc<TestType>> later = test::someEntries<Acc<TestType>>(n / 2, 0.3, 4);
  for (uint32_t& index : later.indices) index += n / 2;
  apart.add(later);
  checkMerge<TestType, uint32_t>(*kernels, apart, n, {}, n);
}

TEMPLATE_TEST_CASE("indices beyond 32 bits", "", float, double) {
  const auto kernels = makeHostKernels();
  const uint64_t n = uint64_t{1} << 40;
  for (const size_t ranks : {1, 3}) {
    auto lists = someLists<Acc<TestType>, uint64_t>(ranks, n, 1e-9, 3);
    lists.add({{0, 0xffffffff, 0x100000000, 0x100000001, n - 1}, {1, 2, 3, 4, 5}});
    checkMerge<TestType, uint64_t>(*kernels, lists, n, {}, 10);
  }
  // Neighbours around a tile edge, far out.
  Lists<Acc<TestType>, uint64_t> lists;
  const uint64_t edge = (uint64_t{1} << 39) + 8192;
  lists.add({{edge - 1, edge, edge + 1}, {1, 2, 3}});
  lists.add({{edge - 4096, edge - 1, edge}, {4, 5, 6}}, false);
  checkMerge<TestType, uint64_t>(*kernels, lists, n, {});
}

TEST_CASE("short vectors with 64-bit indices") {
  const auto kernels = makeHostKernels();
  for (const uint64_t n : kLengths) {
    CAPTURE(n);
    checkMerge<float, uint64_t>(*kernels, someLists<float, uint64_t>(4, n, 0.05, n), n, {}, 1);
  }
}

TEST_CASE("empty lists make an empty union") {
  const auto kernels = makeHostKernels();
  Lists<float> lists;
  for (int rank = 0; rank < 3; ++rank) {
    lists.add({}, rank != 1);
    checkMerge<float, uint32_t>(*kernels, lists, 100, {}, 5);
  }
}

TEMPLATE_TEST_CASE("an output too small holds nothing past its end and the count is the need", "", float, double) {
  const auto kernels = makeHostKernels();
  const uint64_t n = 30000;
  const auto lists = someLists<TestType>(3, n, 0.01, 6);
  const uint64_t need = lists.sum(Combine::kAdd).size();
  for (const uint64_t capacity : {uint64_t{0}, uint64_t{1}, need / 2, need - 1}) {
    CAPTURE(need, capacity);
    Output<TestType, uint32_t> out(capacity);
    const Status status = kernels->merge(argsFor<TestType, uint32_t>(lists, out, n), {});
    CHECK(status.result() == sparsecollCapacity);
    CHECK(out.count == need);
    CHECK(out.indices.intact());
    CHECK(out.values.intact());
  }
}

// Whether or not they travelled: in the union they become NaN, and those that are not in it join it.
TEST_CASE("poisoned indices are NaN in the union") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Lists<float> lists;
  lists.add({{2, 5, 9000}, {1, 2, 3}});
  lists.add({{5, 7}, {4, 5}});
  std::vector<uint32_t> poison = {9000, 6, 5, 0, 6, 9999, 8192};
  Control control{};
  control.poison = poison.data();
  control.poisonCount = poison.size();
  for (const uint32_t poisoned : {1u, 0u}) {
    control.anyNonFinite = poisoned;
    Output<float, uint32_t> out(10);
    MergeArgs args = argsFor<float, uint32_t>(lists, out, 10000);
    args.control = &control;
    args.finish = {2, 1};
    REQUIRE(makeHostKernels()->merge(args, {}).ok());
    const std::vector<uint32_t> indices =
        poisoned != 0 ? std::vector<uint32_t>{0, 2, 5, 6, 7, 8192, 9000, 9999} : std::vector<uint32_t>{2, 5, 7, 9000};
    const std::vector<float> values = poisoned != 0 ? std::vector<float>{nan, 0.5F, nan, nan, 2.5F, nan, nan, nan}
                                                    : std::vector<float>{0.5F, 3, 2.5F, 1.5F};
    REQUIRE(out.count == indices.size());
    CHECK(difference(out.indices.data(), indices.data(), out.count) == "");
    CHECK(difference(out.values.data(), values.data(), out.count) == "");
  }
}

template <class T, class Index>
void checkRefused(const char* name, const std::vector<Index>& indices, uint64_t n) {
  using A = Acc<T>;
  INFO(name << ", " << sizeof(Index) << "-byte indices");
  for (const size_t place : {0, 1, 2}) {
    Lists<A, Index> lists;
    for (size_t l = 0; l < 3; ++l) {
      Entries<A, Index> entries = test::someEntries<A, Index>(n, 0.01, l);
      if (l == place) entries = {indices, std::vector<A>(indices.size(), A{1})};
      lists.add(entries, l != 1);
    }
    for (const uint64_t capacity : {uint64_t{3}, uint64_t{2000}}) {
      Output<T, Index> out(capacity);
      const Status status = makeHostKernels()->merge(argsFor<T, Index>(lists, out, n), {});
      REQUIRE(status.result() == sparsecollCorrupted);
      CHECK(out.indices.intact());
      CHECK(out.values.intact());
    }
  }
}

TEST_CASE("indices out of range and unions out of order are refused") {
  struct Row {
    const char* name;
    std::vector<uint32_t> indices;
  };
  const Row rows[] = {
      {"one past the end", {20000}},
      {"past the end, later", {1, 2, 20000}},
      {"in the last tile but past the end", {19999, 20479}},
      {"the highest index", {0xffffffff}},
      {"the highest index in the middle", {5, 0xffffffff, 7}},
      {"back to an earlier tile", {9000, 5}},
      {"back to an earlier tile and forth", {9000, 5, 9001}},
      {"back by one tile edge", {8192, 8191}},
  };
  for (const Row& row : rows) {
    checkRefused<float, uint32_t>(row.name, row.indices, 20000);
    checkRefused<double, uint64_t>(row.name, {row.indices.begin(), row.indices.end()}, 20000);
  }
  checkRefused<float, uint64_t>("the highest of 64 bits", {~uint64_t{0}}, 20000);
  checkRefused<float, uint64_t>("the highest of 64 bits in the middle", {5, ~uint64_t{0}, 7}, 20000);
  checkRefused<float, uint64_t>("low bits in range, high bits not", {uint64_t{1} << 32}, 20000);
}

// The walk stopped at the first step back, and the first list that was not used up by then was blamed.
TEST_CASE("a union names the list that is out of range or out of order") {
  const std::vector<std::vector<uint32_t>> rows = {{20000}, {5, 20001}, {9000, 5}, {9000, 5, 9001}, {8192, 8191}};
  for (const auto& indices : rows)
    for (const size_t place : {0, 1, 2}) {
      CAPTURE(indices.front(), place);
      Lists<float> lists;
      for (size_t l = 0; l < 3; ++l)
        lists.add(l == place ? Entries<float>{indices, std::vector<float>(indices.size(), 1)}
                             : test::someEntries<float>(20000, 0.01, l));
      Output<float, uint32_t> out(2000);
      const Status status = makeHostKernels()->merge(argsFor<float, uint32_t>(lists, out, 20000), {});
      REQUIRE(status.result() == sparsecollCorrupted);
      CHECK(status.failure().peer == static_cast<int>(place));
    }
}

// As in combine_test: these used to pass, and an entry of a damaged list was added twice.
TEST_CASE("unions out of order inside a tile are refused") {
  checkRefused<float, uint32_t>("an index twice", {5, 5}, 20000);
  checkRefused<float, uint32_t>("an index twice in the middle", {1, 9000, 9000, 9001}, 20000);
  checkRefused<float, uint32_t>("back by one", {6, 5}, 20000);
  checkRefused<double, uint64_t>("back within a word", {100, 103, 101, 120}, 20000);
}

}  // namespace
}  // namespace sparsecoll
