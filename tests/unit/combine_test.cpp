// P lists to a dense sum, against sums formed in a map, bit for bit.
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
using test::makeElements;
using test::someLists;

template <class T>
using Acc = typename Element<T>::Accumulate;

template <class T>
CombineArgs argsFor(const Lists<Acc<T>>& lists, T* out, uint64_t n) {
  CombineArgs args;
  args.lists = lists.views();
  args.accumulateType = Element<Acc<T>>::kType;
  args.out = out;
  args.outType = Element<T>::kType;
  args.n = n;
  return args;
}

// What out must hold afterwards; before: what it held.
template <class T>
std::vector<T> expectedOut(const Lists<Acc<T>>& lists, const CombineArgs& args, const std::vector<T>& before) {
  std::vector<T> out = before;
  if (!args.accumulate) std::fill(out.begin(), out.end(), Element<T>::store(0));
  for (const auto& [index, sum] : lists.sum(args.mode)) {
    const Acc<T> x = finished(sum, args.finish);
    out[index] = Element<T>::store(args.accumulate ? Element<T>::load(out[index]) + x : x);
  }
  return out;
}

// Runs one combine into an out that is full of something else, and compares all of it.
template <class T>
void checkCombine(Kernels& kernels, const Lists<Acc<T>>& lists, uint64_t n, CombineArgs options, uint64_t shift = 0) {
  Guarded<T> out(n, shift);
  const auto before = makeElements<T>(Fill::kSmooth, n, 99);
  out.fill(before);
  CombineArgs args = argsFor<T>(lists, out.data(), n);
  args.mode = options.mode;
  args.finish = options.finish;
  args.accumulate = options.accumulate;
  REQUIRE(kernels.combine(args, {}).ok());
  CHECK(difference(out.values(), expectedOut<T>(lists, args, before)) == "");
  CHECK(out.intact());
}

// Edges of lines (16), of words of the line map (1024) and of tiles (8192 floats, 4096 doubles).
constexpr uint64_t kLengths[] = {1, 15, 16, 17, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 8193, 20000};

TEMPLATE_TEST_CASE("the sum of any number of lists", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const uint64_t n : kLengths)
    for (const size_t ranks : {1, 2, 3, 8, 16})
      for (const double density : {0.001, 0.05, 1.0}) {
        CAPTURE(n, ranks, density);
        checkCombine<TestType>(*kernels, someLists<Acc<TestType>>(ranks, n, density, n), n, {});
      }
}

TEMPLATE_TEST_CASE("assigned lists and added lists are finished and accumulated", "", float, Half, Bfloat, double) {
  const uint64_t n = 9000;
  for (const host::Isa* isa : test::availableIsas()) {
    const auto kernels = makeHostKernels(*isa);
    for (const Combine mode : {Combine::kAdd, Combine::kAssign})
      for (const bool accumulate : {false, true})
        for (const double divisor : {1, 2, 3, 7, 1024})
          for (const double scale : {1.0, 0.125, 3.7}) {
            CAPTURE(isa->name, static_cast<int>(mode), accumulate, divisor, scale);
            CombineArgs options;
            options.mode = mode;
            options.accumulate = accumulate;
            options.finish = {divisor, scale};
            checkCombine<TestType>(*kernels, someLists<Acc<TestType>>(3, n, 0.02, 7), n, options);
          }
  }
}

TEMPLATE_TEST_CASE("NaN comes out canonical and sums start at plus zero", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const Fill fill : {Fill::kHostile, Fill::kZero, Fill::kRange, Fill::kSubnormal})
    for (const Combine mode : {Combine::kAdd, Combine::kAssign})
      for (const double divisor : {1, 3}) {
        CAPTURE(static_cast<int>(fill), static_cast<int>(mode), divisor);
        CombineArgs options;
        options.mode = mode;
        options.finish = {divisor, 1};
        checkCombine<TestType>(*kernels, someLists<Acc<TestType>>(3, 9000, 0.1, 8, fill), 9000, options);
      }
}

// From 4 MiB on the output is streamed past the caches where its alignment allows that.
TEMPLATE_TEST_CASE("outputs that are too large for the caches", "", float, Half, double) {
  const auto kernels = makeHostKernels();
  for (const uint64_t extra : {0, 1, 8197}) {
    const uint64_t n = (4u << 20) / sizeof(TestType) + extra;
    const auto lists = someLists<Acc<TestType>>(3, n, 0.003, extra);
    for (const uint64_t shift : {0, 1}) {
      CAPTURE(n, shift);
      checkCombine<TestType>(*kernels, lists, n, {}, shift);
    }
  }
}

TEMPLATE_TEST_CASE("no entries make zeros", "", float, Half, double) {
  const auto kernels = makeHostKernels();
  Lists<Acc<TestType>> lists;
  for (int rank = 0; rank < 3; ++rank) {
    lists.add({}, rank != 1);
    checkCombine<TestType>(*kernels, lists, 9000, {});
  }
}

TEST_CASE("zeros next to entries stay plus zero where the scale is positive") {
  Lists<float> lists;
  lists.add({{3, 20}, {-0.0F, 1.0F}});
  std::vector<float> out(64, 5.0F);
  CombineArgs args = argsFor<float>(lists, out.data(), 64);
  REQUIRE(makeHostKernels()->combine(args, {}).ok());
  for (size_t i = 0; i < 64; ++i) CHECK(test::bitsOf(out[i]) == (i == 20 ? 0x3f800000u : 0u));
}

// Lines (16 elements) that the sum touches, one bit each.
template <class A>
std::vector<uint64_t> linesOf(const Lists<A>& lists, uint64_t n) {
  std::vector<uint64_t> lines((n + 1023) / 1024);
  for (const auto& list : lists.entries())
    for (const uint32_t i : list.indices) lines[i / 1024] |= uint64_t{1} << (i / 16 % 64);
  return lines;
}

TEMPLATE_TEST_CASE("a preserved out is cleared where the last sum was", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const uint64_t n : kLengths) {
    Guarded<TestType> out(n);
    out.fill(std::vector<TestType>(n, Element<TestType>::store(0)));
    Guarded<uint64_t> touched((n + 1023) / 1024);
    touched.fill(std::vector<uint64_t>(touched.size(), 0));
    const double densities[] = {0.3, 0.01, 0.0005, 1.0, 0.0005, 0.02};
    for (size_t step = 0; step < std::size(densities); ++step) {
      CAPTURE(n, step);
      const auto lists = someLists<Acc<TestType>>(1 + step % 3, n, densities[step], 10 + step);
      CombineArgs args = argsFor<TestType>(lists, out.data(), n);
      args.touchedLines = touched.data();
      args.finish = {3, 2};
      REQUIRE(kernels->combine(args, {}).ok());
      CHECK(difference(out.values(), expectedOut<TestType>(lists, args, out.values())) == "");
      CHECK(touched.values() == linesOf(lists, n));
      CHECK(out.intact());
      CHECK(touched.intact());
    }
  }
}

TEMPLATE_TEST_CASE("poisoned indices become NaN and are cleared in the next step", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  const uint64_t n = 9000;
  std::vector<uint32_t> poison = {8999, 17, 17, 8192};
  Control control{};
  control.n = n;
  control.poison = poison.data();
  control.poisonCount = poison.size();
  for (const bool preserved : {false, true}) {
    std::vector<TestType> out(n, Element<TestType>::store(0));
    std::vector<uint64_t> touched(9);
    for (const uint32_t poisoned : {1u, 0u}) {
      CAPTURE(preserved, poisoned);
      control.anyNonFinite = poisoned;
      const auto lists = someLists<Acc<TestType>>(2, n, 0.001, 3 + poisoned);
      CombineArgs args = argsFor<TestType>(lists, out.data(), n);
      args.control = &control;
      if (preserved) args.touchedLines = touched.data();
      std::vector<TestType> wanted = expectedOut<TestType>(lists, args, out);
      const auto nan = Element<TestType>::store(std::numeric_limits<Acc<TestType>>::quiet_NaN());
      if (poisoned != 0)
        for (const uint32_t i : poison) wanted[i] = nan;
      REQUIRE(kernels->combine(args, {}).ok());
      CHECK(difference(out, wanted) == "");
    }
  }
}

// What is wrong with a list: its indices, for a vector of n elements.
struct BadList {
  const char* name;
  std::vector<uint32_t> indices;
};

template <class T>
void checkRefused(const BadList& bad, uint64_t n) {
  using A = Acc<T>;
  for (const size_t place : {0, 1, 2})  // the bad list among good ones
    for (const bool accumulate : {false, true}) {
      Lists<A> lists;
      for (size_t l = 0; l < 3; ++l) {
        Entries<A> entries = test::someEntries<A>(n, 0.01, l);
        if (l == place) entries = {bad.indices, std::vector<A>(bad.indices.size(), A{1})};
        lists.add(entries, l != 1);
      }
      Guarded<T> out(n);
      Guarded<uint64_t> touched((n + 1023) / 1024);
      touched.fill(std::vector<uint64_t>(touched.size(), 0));
      CombineArgs args = argsFor<T>(lists, out.data(), n);
      args.accumulate = accumulate;
      args.touchedLines = accumulate ? nullptr : touched.data();
      const Status status = makeHostKernels()->combine(args, {});
      INFO(bad.name << ", rank " << place << ", accumulate " << accumulate);
      REQUIRE(status.result() == sparsecollCorrupted);
      CHECK(status.failure().peer == static_cast<int>(place));
      CHECK(out.intact());
      CHECK(touched.intact());
    }
}

TEMPLATE_TEST_CASE("indices out of range and lists out of order are refused", "", float, Half, double) {
  const uint64_t n = 20000;
  const BadList rows[] = {
      {"one past the end", {20000}},
      {"one past the end, later", {1, 2, 20000}},
      {"in the last tile but past the end", {19999, 20479}},
      {"far away", {5, 0x80000000}},
      {"the highest index", {0xffffffff}},
      {"the highest index in the middle", {5, 0xffffffff, 7}},
      {"back to an earlier tile", {9000, 5}},
      {"back to an earlier tile and forth", {9000, 5, 9001}},
      {"back by one tile edge", {8192, 8191}},
  };
  for (const BadList& row : rows) checkRefused<TestType>(row, n);
  checkRefused<TestType>({"a vector of one element", {1}}, 1);
}

// Lists are strictly increasing and checked where they are used (core/kernels.h). Disorder inside a tile, and an index
// that comes twice, used to pass unnoticed: an entry of a damaged list was added twice.
TEMPLATE_TEST_CASE("lists out of order inside a tile are refused", "", float, Half, double) {
  const BadList rows[] = {
      {"an index twice", {5, 5}},
      {"an index twice in the middle", {1, 9000, 9000, 9001}},
      {"back by one", {6, 5}},
      {"back within a line", {100, 103, 101, 120}},
  };
  for (const BadList& row : rows) checkRefused<TestType>(row, 20000);
}

}  // namespace
}  // namespace sparsecoll
