// Loops over dense vectors: the sum of ranks, giving back, flushing.
#include "tests/support/catch.h"

#include "host/host_kernels.h"
#include "tests/unit/isas.h"
#include "tests/unit/lists.h"

namespace sparsecoll {
namespace {

using host::makeHostKernels;
using test::difference;
using test::Fill;
using test::finished;
using test::Guarded;
using test::makeElements;
using test::makeVector;

template <class T>
using Acc = typename Element<T>::Accumulate;

struct Options {
  size_t ranks = 3;
  double inputScale = 1;
  Finish finish;
  bool accumulate = false;
  bool inPlace = false;  // out r is in r
  size_t outs = 1;
  uint64_t shift = 0;  // outs lie this many elements off a 16-byte boundary
};

// What out o must hold: ranks in order, scaled before and finished after, all in the accumulate type.
template <class T>
std::vector<T> expectedSum(const std::vector<std::vector<T>>& in, const std::vector<T>& before,
                           const Options& options) {
  std::vector<T> out(before.size());
  for (size_t i = 0; i < out.size(); ++i) {
    Acc<T> sum{};
    for (size_t r = 0; r < in.size(); ++r) {
      Acc<T> value = Element<T>::load(in[r][i]);
      if (options.inputScale != 1) value *= static_cast<Acc<T>>(options.inputScale);
      sum = r == 0 ? value : sum + value;
    }
    sum = finished(sum, options.finish);
    const T rounded = Element<T>::store(sum);
    out[i] = options.accumulate ? Element<T>::store(Element<T>::load(before[i]) + Element<T>::load(rounded)) : rounded;
  }
  return out;
}

template <class T>
void checkSum(Kernels& kernels, uint64_t n, const Options& options, Fill fill = Fill::kSmooth) {
  std::vector<std::vector<T>> in;
  std::vector<Guarded<T>> sources;
  for (size_t r = 0; r < options.ranks; ++r) {
    in.push_back(makeElements<T>(fill, n, r + 1));
    sources.emplace_back(n, options.shift);
    sources.back().fill(in.back());
  }
  const auto before = makeElements<T>(Fill::kSmooth, n, 55);
  std::vector<Guarded<T>> targets(options.outs, Guarded<T>(n, options.shift));
  std::vector<std::vector<T>> held(options.outs, before);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (auto& source : sources) from.push_back(source.data());
  for (size_t o = 0; o < options.outs; ++o) {
    if (options.inPlace && o < options.ranks) {
      to.push_back(sources[o].data());
      held[o] = in[o];
    } else {
      targets[o].fill(before);
      to.push_back(targets[o].data());
    }
  }
  kernels.denseSum({from, to, Element<T>::kType, n, options.inputScale, options.finish, options.accumulate}, {});
  for (size_t o = 0; o < options.outs; ++o) {
    const bool own = options.inPlace && o < options.ranks;
    CHECK(difference(own ? sources[o].values() : targets[o].values(), expectedSum(in, held[o], options)) == "");
    CHECK(sources[o % sources.size()].intact());
    if (!own) CHECK(targets[o].intact());
  }
}

TEMPLATE_TEST_CASE("ranks are added in order", "", float, Half, Bfloat, double) {
  for (const host::Isa* isa : test::availableIsas()) {
    const auto kernels = makeHostKernels(*isa);
    for (const uint64_t n : {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000})
      for (const size_t ranks : {1, 2, 3, 8})
        for (const uint64_t shift : {0, 1, 3}) {
          CAPTURE(isa->name, n, ranks, shift);
          Options options;
          options.ranks = ranks;
          options.shift = shift;
          checkSum<TestType>(*kernels, n, options);
        }
  }
}

TEMPLATE_TEST_CASE("sums are scaled and divided and accumulated", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const double inputScale : {1.0, -0.3})
    for (const double divisor : {1, 2, 3, 7})
      for (const double scale : {1.0, 2.5})
        for (const bool accumulate : {false, true}) {
          CAPTURE(inputScale, divisor, scale, accumulate);
          Options options;
          options.inputScale = inputScale;
          options.finish = {divisor, scale};
          options.accumulate = accumulate;
          checkSum<TestType>(*kernels, 2500, options);
        }
}

TEMPLATE_TEST_CASE("every out gets the sum and may be an in", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const size_t outs : {1, 2, 4})
    for (const bool inPlace : {false, true})
      for (const bool accumulate : {false, true}) {
        CAPTURE(outs, inPlace, accumulate);
        Options options;
        options.ranks = 4;
        options.outs = outs;
        options.inPlace = inPlace;
        options.accumulate = accumulate;
        options.finish = {4, 1};
        checkSum<TestType>(*kernels, 3000, options);
      }
}

// From 4 MiB of outputs on they are streamed past the caches where alignment allows that.
TEMPLATE_TEST_CASE("sums that are too large for the caches", "", float, Half, double) {
  const auto kernels = makeHostKernels();
  for (const uint64_t extra : {0, 3})
    for (const uint64_t shift : {0, 1}) {
      const uint64_t n = (2u << 20) / sizeof(TestType) + extra;
      CAPTURE(n, shift);
      Options options;
      options.ranks = options.outs = 2;
      options.shift = shift;
      checkSum<TestType>(*kernels, n, options);
      options.inPlace = true;
      checkSum<TestType>(*kernels, n, options);
    }
}

TEMPLATE_TEST_CASE("NaN in a dense sum comes out canonical", "", float, Half, Bfloat, double) {
  const auto kernels = makeHostKernels();
  for (const size_t ranks : {1, 3}) {
    Options options;
    options.ranks = ranks;
    checkSum<TestType>(*kernels, 2000, options, Fill::kHostile);
    checkSum<TestType>(*kernels, 2000, options, Fill::kRange);
  }
}

template <class A, class T>
void checkAddFinite(Fill fill, double scale) {
  const uint64_t n = 2500;
  const auto x = makeElements<T>(fill, n, 1);
  const auto before = makeVector<A>(Fill::kSmooth, n, 2);
  std::vector<A> wanted = before;
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<A>(Element<T>::load(x[i]));
    const A sum = std::fma(static_cast<A>(scale), value, before[i]);
    if (std::isfinite(sum)) wanted[i] = sum;
  }
  for (const host::Isa* isa : test::availableIsas()) {
    Guarded<A> acc(n);
    acc.fill(before);
    makeHostKernels(*isa)->addFinite(acc.data(), Element<A>::kType, x.data(), Element<T>::kType, n, scale, 1, nullptr,
                                     {});
    CHECK(difference(acc.values(), wanted) == "");
    CHECK(acc.intact());
  }
}

TEST_CASE("addFinite leaves out NaN and Inf, and what would become one") {
  for (const Fill fill : {Fill::kSmooth, Fill::kHostile, Fill::kZero})
    for (const double scale : {1.0, -1.0, 0.25, 3.3, 1e38, HUGE_VAL}) {
      CAPTURE(static_cast<int>(fill), scale);
      checkAddFinite<float, float>(fill, scale);
      checkAddFinite<float, Half>(fill, scale);
      checkAddFinite<float, Bfloat>(fill, scale);
      checkAddFinite<double, double>(fill, scale);
    }
}

// x + residual before and after, exact in long double for what this test feeds it.
template <class A, class T>
void checkFlush(const std::vector<T>& x, const std::vector<A>& residual) {
  using Exact = long double;
  const uint64_t n = x.size();
  for (const host::Isa* isa : test::availableIsas()) {
    Guarded<T> to(n);
    to.fill(x);
    Guarded<A> rest(n);
    rest.fill(residual);
    makeHostKernels(*isa)->flush(rest.data(), Element<A>::kType, to.data(), Element<T>::kType, n, {});
    CHECK(to.intact());
    CHECK(rest.intact());
    uint64_t wrong = 0;
    for (size_t i = 0; i < n; ++i) {
      const A before = Element<T>::load(x[i]);
      const A after = Element<T>::load(to[i]);
      const Exact had = Exact{before} + Exact{residual[i]};
      const bool rounded = test::sameBits(to[i], Element<T>::store(before + residual[i]));
      const bool conserved = Exact{after} + Exact{rest[i]} == had;
      if ((!rounded || !conserved) && wrong++ == 0)
        UNSCOPED_INFO(fmt::format("{} + {} became {} + {}", before, residual[i], after, rest[i]));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("flush conserves integers exactly in every type") {
  test::Random random(1);
  std::vector<float> residual(2500);
  std::vector<Half> halves(2500);
  std::vector<Bfloat> bfloats(2500);
  std::vector<float> floats(2500);
  std::vector<double> doubles(2500);
  std::vector<double> wide(2500);
  for (size_t i = 0; i < residual.size(); ++i) {
    residual[i] = static_cast<float>(test::below(random, 40001)) - 20000;
    wide[i] = static_cast<double>(residual[i]) * 1e9;
    floats[i] = static_cast<float>(test::below(random, 40001)) - 20000;
    halves[i] = toHalf(floats[i]);
    bfloats[i] = toBfloat(floats[i]);
    doubles[i] = static_cast<double>(floats[i]) * 3;
  }
  checkFlush<float, Half>(halves, residual);
  checkFlush<float, Bfloat>(bfloats, residual);
  checkFlush<float, float>(floats, residual);
  checkFlush<double, double>(doubles, wide);
}

// The rounding of a 16-bit x stays in the residual: nothing is lost where residual and x are of similar size.
TEST_CASE("flush keeps the rounding of 16-bit types in the residual") {
  const auto residual = makeVector<float>(Fill::kSmooth, 2500, 2);
  checkFlush<float, Half>(makeElements<Half>(Fill::kSmooth, 2500, 3), residual);
  checkFlush<float, Bfloat>(makeElements<Bfloat>(Fill::kSmooth, 2500, 4), residual);
}

// x += acc, acc = what rounding left over (core/kernels.h), also where the residual is the larger of the two.
TEMPLATE_TEST_CASE("flush leaves the rounding error of a sum in the residual", "", float, double) {
  const std::vector<TestType> large(1, TestType{1});
  const std::vector<TestType> small(1, std::numeric_limits<TestType>::epsilon() / 16 * 3);
  checkFlush<TestType, TestType>(large, small);
  checkFlush<TestType, TestType>(small, large);
}

TEST_CASE("flush keeps no NaN or Inf in the residual") {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 3e38F, 1};
  std::vector<float> residual = {1, 2, 3, 3e38F, 2};
  makeHostKernels()->flush(residual.data(), sparsecollFloat32, x.data(), sparsecollFloat32, 5, {});
  CHECK(residual == std::vector<float>{0, 0, 0, 0, 0});
  CHECK(x[0] == infinity);
  CHECK(x[3] == infinity);
  CHECK(x[4] == 3);
}

}  // namespace
}  // namespace sparsecoll
