// Bits that stand for zeros in acc do what the zeros would: in the pass, in its sample, and where sums are settled.
#include <vector>
#include "tests/support/catch.h"

#include "core/kernels.h"
#include "host/deferred_zeros.h"
#include "host/host_kernels.h"
#include "tests/unit/data.h"
#include "tests/unit/isas.h"
#include "tests/unit/lists.h"

namespace sparsecoll {
namespace {

using host::Isa;
using test::below;
using test::difference;
using test::Fill;
using test::makeElements;
using test::makeVector;
using test::Random;

using Bits = std::vector<uint64_t>;

Bits noBits(uint64_t n) { return Bits(Kernels::deferredZerosBytes(n) / sizeof(uint64_t)); }

// One element in `every`, and the last one.
Bits someBits(uint64_t n, uint64_t every, uint64_t seed) {
  Random random(seed);
  Bits bits = noBits(n);
  for (uint64_t i = 0; i < n; ++i)
    if (below(random, every) == 0 || i + 1 == n) host::deferZero(bits.data(), i);
  return bits;
}

template <class A>
std::vector<A> withZeros(std::vector<A> acc, const Bits& bits) {
  for (uint64_t i = 0; i < acc.size(); ++i)
    if ((bits[i / 64] >> i % 64 & 1) != 0) acc[i] = 0;
  return acc;
}

// Two windows that begin and end anywhere; where their norms are taken they cover everything.
template <class A>
struct Step {
  Step(uint64_t n, bool measures) : counts(kHistogramBins), norms(2), indices(2 * n), values(2 * n) {
    windows[0].begin = measures ? 0 : n / 7;
    windows[0].end = n / 2;
    windows[1].begin = measures ? n / 2 : n / 2 + n / 9;
    windows[1].end = n;
    windows[1].firstSlot = n;
    for (Window& window : windows) {
      window.slots = n;
      window.key = keyOfThreshold(1.5, sizeof(A) == 8);
    }
    control.windows = windows;
    control.windowCount = 2;
    control.histogram = counts.data();
    control.n = n;
  }

  template <class T>
  void run(const Isa& isa, const std::vector<T>& gradient, std::vector<A>& acc, Bits* bits, bool measures) {
    PassArgs args;
    args.gradient = gradient.data();
    args.gradientType = Element<T>::kType;
    args.in = args.out = acc.data();
    args.deferredZeros = bits != nullptr ? bits->data() : nullptr;
    args.scale = 0.75;
    args.n = acc.size();
    args.control = &control;
    args.candidateIndices = indices.data();
    args.candidateValues = values.data();
    if (measures) args.norms = norms.data();
    const auto kernels = host::makeHostKernels(isa);
    kernels->sample(args, {});
    kernels->pass(args, {});
  }

  // Behind what was found anything may lie.
  std::vector<uint32_t> indicesOf(size_t w) const { return found(indices, w); }
  std::vector<A> valuesOf(size_t w) const { return found(values, w); }

  std::vector<uint32_t> counts;
  std::vector<double> norms;
  std::vector<uint32_t> indices;
  std::vector<A> values;
  Window windows[2] = {};
  Control control{};

 private:
  template <class X>
  std::vector<X> found(const std::vector<X>& all, size_t w) const {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(windows[w].firstSlot);
    return {begin, begin + static_cast<std::ptrdiff_t>(windows[w].found)};
  }
};

template <class T>
void checkPass(const Isa& isa, uint64_t n, uint64_t every, bool norms) {
  using A = typename Element<T>::Accumulate;
  CAPTURE(isa.name, n, every, norms);
  const std::vector<T> gradient = makeElements<T>(Fill::kSmooth, n, 1);
  std::vector<A> acc = makeVector<A>(norms ? Fill::kSmooth : Fill::kHostile, n, 2);
  Bits bits = someBits(n, every, 3);
  std::vector<A> wantedAcc = withZeros(acc, bits);
  Step<A> got(n, norms);
  Step<A> wanted(n, norms);
  got.run(isa, gradient, acc, &bits, norms);
  wanted.run(host::kScalar, gradient, wantedAcc, nullptr, norms);
  CHECK(got.counts == wanted.counts);
  CHECK(got.norms == wanted.norms);
  for (size_t w = 0; w < 2; ++w) {
    REQUIRE(got.windows[w].found == wanted.windows[w].found);
    CHECK(got.indicesOf(w) == wanted.indicesOf(w));
    CHECK(difference(got.valuesOf(w), wanted.valuesOf(w)) == "");
  }
  CHECK(difference(acc, wantedAcc) == "");
  CHECK(bits == noBits(n));
}

TEMPLATE_TEST_CASE("a pass takes entries with deferred zeros for zeros", "", float, double, Half, Bfloat) {
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t n : {18u, 63u, 64u, 129u, 1000u, 5003u, 600001u})
      for (const uint64_t every : {1u, 3u, 100u})
        for (const bool norms : {false, true}) {
          if (n > 10000 && (every == 1 || norms)) continue;
          checkPass<TestType>(*isa, n, every, norms);
        }
}

TEMPLATE_TEST_CASE("bits become zeros, and nothing else changes", "", float, double) {
  const auto kernels = host::makeHostKernels();
  for (const uint64_t n : {1u, 63u, 64u, 65u, 1000u}) {
    test::Guarded<TestType> acc(n);
    acc.fill(makeVector<TestType>(Fill::kHostile, n, 1));
    Bits bits = someBits(n, 5, n);
    const std::vector<TestType> wanted = withZeros(acc.values(), bits);
    kernels->writeDeferredZeros(acc.data(), Element<TestType>::kType, n, bits.data(), {});
    CHECK(difference(acc.values(), wanted) == "");
    CHECK(acc.intact());
    CHECK(bits == noBits(n));
  }
}

TEST_CASE("bits are noted for what the list names, inside the vector, if the step takes effect") {
  constexpr uint64_t kN = 1000;
  const std::vector<uint32_t> indices = {0, 63, 64, 999, 1000, 0xffffffff};
  const uint32_t count = 6;
  const ListView list{indices.data(), nullptr, &count};
  const auto kernels = host::makeHostKernels();
  Bits bits = noBits(kN);
  Control decision{};
  kernels->deferZeros(bits.data(), kN, list, &decision, {});
  CHECK(bits == noBits(kN));
  decision.takesEffect = 1;
  kernels->deferZeros(bits.data(), kN, list, &decision, {});
  Bits wanted = noBits(kN);
  for (const uint64_t i : {0, 63, 64, 999}) host::deferZero(wanted.data(), i);
  CHECK(bits == wanted);
}

TEMPLATE_TEST_CASE("settling with bits is settling with zeros", "", float, double) {
  using A = TestType;
  constexpr uint64_t kN = 50000;
  const auto kernels = host::makeHostKernels();
  for (const double density : {0.01, 0.1, 0.5}) {
    CAPTURE(density);
    const auto lists = test::someLists<A>(5, kN, density, 4, Fill::kHostile);
    const std::vector<A> before = makeVector<A>(Fill::kSmooth, kN, 5);
    std::vector<A> wanted = before;
    SettleArgs args;
    args.acc = wanted.data();
    args.accumulateType = Element<A>::kType;
    args.n = kN;
    args.sum = lists.views()[0];
    args.sent = lists.views().subspan(1, 2);
    args.dropped = lists.views().subspan(2, 3);  // one list is both: what was sent comes back in part
    kernels->settle(args, {});
    CHECK(difference(wanted, before) != "");

    std::vector<A> acc = before;
    Bits bits = noBits(kN);
    args.acc = acc.data();
    args.deferredZeros = bits.data();
    kernels->settle(args, {});
    CHECK(bits != noBits(kN));
    kernels->writeDeferredZeros(acc.data(), Element<A>::kType, kN, bits.data(), {});
    CHECK(difference(acc, wanted) == "");
  }
}

}  // namespace
}  // namespace sparsecoll
