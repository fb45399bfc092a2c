// Every instruction set gives the bits of the scalar reference, and the reference is the formula.
#include "host/isa.h"

#include <set>
#include <string>
#include <vector>
#include "tests/support/catch.h"

#include "tests/unit/data.h"
#include "tests/unit/isas.h"

namespace sparsecoll {
namespace {

using host::Isa;
using host::PassSpan;
using test::difference;
using test::Fill;
using test::Guarded;
using test::makeElements;
using test::makeVector;
using test::Random;

template <class T>
using Acc = typename Element<T>::Accumulate;

template <class T>
host::PassFunction<Acc<T>> passOf(const Isa& isa) {
  if constexpr (std::is_same_v<T, float>) return isa.passFloat;
  if constexpr (std::is_same_v<T, Half>) return isa.passHalf;
  if constexpr (std::is_same_v<T, Bfloat>) return isa.passBfloat;
  if constexpr (std::is_same_v<T, double>) return isa.passDouble;
}

enum class Mode {
  kInOut,    // acc = in + scale * gradient goes elsewhere
  kAliased,  // acc replaces in
  kNoIn,     // acc = scale * gradient
  kNeither,  // acc is the gradient as it stands, the sign of its zeros included: an exact cut may read it again
};

template <class T>
struct Input {
  std::vector<T> gradient;
  std::vector<Acc<T>> in;
};

template <class T>
Input<T> makeInput(Fill fill, uint64_t n, uint64_t seed) {
  return {makeElements<T>(fill, n, seed), makeVector<Acc<T>>(fill, n, seed + 1)};
}

template <class A>
struct Span {
  Mode mode = Mode::kInOut;
  uint64_t begin = 0;
  uint64_t end = 0;
  A scale = 1;
  typename Magnitude<A>::Key key = 0;
  uint64_t room = 0;
};

template <class A>
struct Outcome {
  uint64_t found = 0;
  std::vector<uint32_t> indices;
  std::vector<A> values;
  std::vector<A> out;
  bool insideItsRoom = true;
};

// The formula, one element after the other.
template <class T>
Outcome<Acc<T>> expected(const Input<T>& input, const Span<Acc<T>>& span) {
  using A = Acc<T>;
  Outcome<A> outcome;
  outcome.out = span.mode == Mode::kAliased ? input.in : std::vector<A>(input.in.size(), A{7});
  for (uint64_t i = span.begin; i < span.end; ++i) {
    const bool hasIn = span.mode == Mode::kInOut || span.mode == Mode::kAliased;
    A acc = Element<T>::load(input.gradient[i]);
    if (span.mode != Mode::kNeither) {
      acc = std::fma(span.scale, acc, hasIn ? input.in[i] : A{0});
      outcome.out[i] = acc;
    }
    if (Magnitude<A>::of(acc) < span.key) continue;
    if (outcome.found++ >= span.room) continue;
    outcome.indices.push_back(static_cast<uint32_t>(i));
    outcome.values.push_back(acc);
  }
  return outcome;
}

template <class T>
Outcome<Acc<T>> run(const Isa& isa, const Input<T>& input, const Span<Acc<T>>& span) {
  using A = Acc<T>;
  Guarded<uint32_t> indices(span.room);
  Guarded<A> values(span.room);
  Outcome<A> outcome;
  outcome.out = span.mode == Mode::kAliased ? input.in : std::vector<A>(input.in.size(), A{7});
  PassSpan<A> pass;
  pass.gradient = input.gradient.data();
  if (span.mode == Mode::kInOut) pass.in = input.in.data();
  if (span.mode == Mode::kAliased) pass.in = outcome.out.data();
  if (span.mode != Mode::kNeither) pass.out = outcome.out.data();
  pass.begin = span.begin;
  pass.end = span.end;
  pass.scale = span.scale;
  pass.key = span.key;
  pass.indices = indices.data();
  pass.values = values.data();
  pass.room = span.room;
  outcome.found = passOf<T>(isa)(pass);
  const uint64_t stored = std::min(outcome.found, span.room);
  outcome.indices.assign(indices.data(), indices.data() + stored);
  outcome.values.assign(values.data(), values.data() + stored);
  outcome.insideItsRoom = indices.intact() && values.intact();
  return outcome;
}

template <class A>
std::string difference(const Outcome<A>& got, const Outcome<A>& expected) {
  if (got.found != expected.found) return fmt::format("{} found, expected {}", got.found, expected.found);
  if (!got.insideItsRoom) return "wrote behind its room";
  if (const auto text = difference(got.out, expected.out); !text.empty()) return "out: " + text;
  if (got.indices != expected.indices) return "other indices";
  if (const auto text = difference(got.values, expected.values); !text.empty()) return "values: " + text;
  return "";
}

template <class A>
void checkSame(const Outcome<A>& got, const Outcome<A>& wanted, const Span<A>& span, const Isa& isa) {
  const std::string text = difference(got, wanted);
  if (text.empty()) return;
  FAIL(fmt::format("{}: {} (mode {}, [{}, {}), scale {}, key {:#x}, room {})", isa.name, text,
                   static_cast<int>(span.mode), span.begin, span.end, span.scale, span.key, span.room));
}

// Edges of blocks (of 16, 32 and 64 elements) and their neighbours.
#ifdef __SANITIZE_ADDRESS__  // without the length that takes longer than all others: it goes round the same loops once more
constexpr uint64_t kSizes[] = {0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 1000};
#else
constexpr uint64_t kSizes[] = {0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 1000, 4099};
#endif
constexpr uint64_t kBegins[] = {0, 1, 3, 16, 33};

// Every instruction set gives the formula's outcome for every size, offset, key and room.
template <class T>
void checkSpans(const Input<T>& input, Mode mode, Acc<T> scale) {
  static const std::vector<const Isa*> isas = test::availableIsas();
  using A = Acc<T>;
  const typename Magnitude<A>::Key keys[] = {0,
                                             1,
                                             Magnitude<A>::of(A{0.01F}),
                                             Magnitude<A>::of(A{2.5F}),
                                             Magnitude<A>::kInfinity,
                                             Magnitude<A>::kInfinity + 1};
  for (const uint64_t size : kSizes)
    for (const uint64_t begin : kBegins)
      for (const auto key : keys) {
        Span<A> span{mode, begin, begin + size, scale, key, input.in.size()};
        const uint64_t all = expected(input, span).found;
        for (const uint64_t room :
             {uint64_t{0}, uint64_t{5}, all - std::min<uint64_t>(all, 1), all, all + 1, all + 70, all + 100}) {
          span.room = room;
          const auto wanted = expected(input, span);
          for (const Isa* isa : isas) checkSame(run(*isa, input, span), wanted, span, *isa);
        }
      }
}

TEMPLATE_TEST_CASE("the pass of every instruction set is the formula", "", float, Half, Bfloat, double) {
#if defined(__SANITIZE_ADDRESS__)  // where it reads and writes follows from how many entries there are
  const auto fills = {Fill::kSmooth, Fill::kZero};
#else
  const auto fills = {Fill::kSmooth, Fill::kTies, Fill::kZero, Fill::kSubnormal};
#endif
  for (const Fill fill : fills) {
    const auto input = makeInput<TestType>(fill, 4200, 11);
    INFO("fill " << static_cast<int>(fill));
    for (const Mode mode : {Mode::kInOut, Mode::kAliased, Mode::kNoIn}) checkSpans(input, mode, Acc<TestType>{-0.7F});
    SUCCEED();
  }
}

// An exact cut may read acc, which is the gradient here, instead of the candidates; both must have the same bits. The
// scalar pass used to turn -0 into +0 (and signalling NaNs into quiet ones), the vector passes did not.
TEMPLATE_TEST_CASE("without an out the candidates are the gradient as it stands", "", float, double) {
  for (const Fill fill : {Fill::kSmooth, Fill::kZero, Fill::kHostile}) {
    INFO("fill " << static_cast<int>(fill));
    checkSpans(makeInput<TestType>(fill, 4200, 15), Mode::kNeither, TestType{1});
    SUCCEED();
  }
}

// A residual never holds NaN or Inf, so only the gradient has them here.
TEMPLATE_TEST_CASE("NaN and Inf and extremes pass alike on every instruction set", "", float, Half, Bfloat, double) {
  for (const Mode mode : {Mode::kInOut, Mode::kNoIn}) {
    auto input = makeInput<TestType>(Fill::kHostile, 4200, 12);
    input.in = makeVector<Acc<TestType>>(Fill::kSmooth, 4200, 13);
    for (const double scale : {1.0, -0.5, 1e10}) checkSpans(input, mode, static_cast<Acc<TestType>>(scale));
    SUCCEED();
  }
}

TEMPLATE_TEST_CASE("the pass reads and writes any element-aligned address", "", float, Half, Bfloat, double) {
  using A = Acc<TestType>;
  const uint64_t n = 500;
  const auto input = makeInput<TestType>(Fill::kSmooth, n, 14);
  const Span<A> span{Mode::kInOut, 0, n, A{0.5}, Magnitude<A>::of(A{1}), n};
  const auto wanted = expected(input, span);
  for (const Isa* isa : test::availableIsas())
    for (uint64_t shift = 0; shift < 9; ++shift) {
      INFO(isa->name << ", shift " << shift);
      Guarded<TestType> gradient(n, shift);
      gradient.fill(input.gradient);
      Guarded<A> in(n, shift / 2);
      in.fill(input.in);
      Guarded<A> out(n, shift / 3);
      Guarded<A> values(n, shift);
      Guarded<uint32_t> indices(n, shift);
      const PassSpan<A> pass{gradient.data(), in.data(),      out.data(),    0, n, span.scale,
                             span.key,        indices.data(), values.data(), n};
      CHECK(passOf<TestType>(*isa)(pass) == wanted.found);
      CHECK(difference(out.values(), wanted.out) == "");
      CHECK(difference(values.data(), wanted.values.data(), wanted.found) == "");
      CHECK(difference(indices.data(), wanted.indices.data(), wanted.found) == "");
      CHECK(out.intact());
      CHECK(values.intact());
      CHECK(indices.intact());
    }
}

template <class A, class Function>
void checkSquareLanes(Function function, const Isa& isa) {
  for (const Fill fill : {Fill::kSmooth, Fill::kRange, Fill::kSubnormal})
    for (const uint64_t rows : {0, 1, 2, 7, 256}) {
      INFO(isa.name << ", rows " << rows);
      const std::vector<A> x = makeVector<A>(fill, rows * 32 + 1, rows);
      std::vector<double> lanes = makeVector<double>(Fill::kSmooth, 32, 5);
      std::vector<double> wanted = lanes;
      for (uint64_t i = 0; i < rows * 32; ++i) {
        const auto v = static_cast<double>(x[i + 1]);
        wanted[i % 32] = std::fma(v, v, wanted[i % 32]);
      }
      function(x.data() + 1, rows, lanes.data());
      CHECK(difference(lanes, wanted) == "");
    }
}

TEST_CASE("square lanes of every instruction set are the formula") {
  for (const Isa* isa : test::availableIsas()) {
    checkSquareLanes<float>(isa->squareLanesFloat, *isa);
    checkSquareLanes<double>(isa->squareLanesDouble, *isa);
  }
}

TEMPLATE_TEST_CASE("the pass that squares is the pass, and adds acc's squares to their lanes", "", float, Half, Bfloat,
                   double) {
  using A = Acc<TestType>;
  constexpr uint64_t kBegin = 3;
  for (const uint64_t length : {0, 1, 31, 32, 63, 64, 65, 500, 1024})
    for (const bool hasIn : {true, false})
      for (const Isa* isa : test::availableIsas()) {
        CAPTURE(isa->name, length, hasIn);
        const uint64_t n = kBegin + length;
        const auto input = makeInput<TestType>(Fill::kSmooth, n, 15);
        const Span<A> span{hasIn ? Mode::kInOut : Mode::kNoIn, kBegin, n, A{0.5}, Magnitude<A>::of(A{1}), n};
        const auto wanted = expected(input, span);
        std::vector<A> out = wanted.out;
        std::fill(out.begin() + kBegin, out.end(), A{9});
        std::vector<A> values(n + 64);
        std::vector<uint32_t> indices(n + 64);
        std::vector<double> lanes = makeVector<double>(Fill::kSmooth, host::kSquareLanes, 6);
        std::vector<double> wantedLanes = lanes;
        for (uint64_t i = 0; i < length; ++i) {
          const auto v = static_cast<double>(wanted.out[kBegin + i]);
          wantedLanes[i % host::kSquareLanes] = std::fma(v, v, wantedLanes[i % host::kSquareLanes]);
        }
        const PassSpan<A> pass{input.gradient.data(),
                               hasIn ? input.in.data() : nullptr,
                               out.data(),
                               kBegin,
                               n,
                               span.scale,
                               span.key,
                               indices.data(),
                               values.data(),
                               n};
        CHECK(host::passSquaresFor<TestType>(*isa)(pass, lanes.data()) == wanted.found);
        CHECK(difference(out, wanted.out) == "");
        CHECK(difference(lanes, wantedLanes) == "");
        CHECK(difference(indices.data(), wanted.indices.data(), wanted.found) == "");
      }
}

TEST_CASE("every half widens alike on every instruction set") {
  std::vector<Half> halves(65536 + 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> wanted;
  for (const Half half : halves) wanted.push_back(toFloat(half));
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t first : {0, 1, 5})
      for (const uint64_t n : {0, 1, 7, 8, 15, 16, 17, 65536}) {
        INFO(isa->name << ", from " << first << ", n " << n);
        Guarded<float> wide(n, first);
        isa->widenHalf(halves.data() + first, wide.data(), n);
        CHECK(difference(wide.data(), wanted.data() + first, n) == "");
        CHECK(wide.intact());
      }
}

// Numbers of halves, what lies around and between them, and everything else a float can be.
std::vector<float> floatsToNarrow() {
  std::vector<float> floats;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float x = toFloat(Half{static_cast<uint16_t>(bits)});
    const float next = toFloat(Half{static_cast<uint16_t>(bits + 1)});
    for (const float near : {x, x + (next - x) / 2, std::nextafterf(x, 0), std::nextafterf(x + (next - x) / 2, next)})
      floats.push_back(near);
  }
  Random random(6);
  for (int i = 0; i < 300000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return floats;
}

TEST_CASE("floats narrow alike on every instruction set") {
  const std::vector<float> floats = floatsToNarrow();
  std::vector<Half> wanted;
  for (const float x : floats) wanted.push_back(toHalf(x));
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t first : {0, 1, 5})
      for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{8}, uint64_t{15}, uint64_t{16},
                               uint64_t{17}, floats.size() - 5}) {
        INFO(isa->name << ", from " << first << ", n " << n);
        Guarded<Half> narrow(n, first);
        isa->narrowHalf(floats.data() + first, narrow.data(), n);
        CHECK(difference(narrow.data(), wanted.data() + first, n) == "");
        CHECK(narrow.intact());
      }
}

TEST_CASE("instruction sets have names of their own and the best one runs here") {
  std::set<std::string> names;
  for (const Isa* isa : test::availableIsas()) CHECK(names.insert(isa->name).second);
  CHECK(host::bestIsa().supported());
  CHECK(names.count(host::bestIsa().name) == 1);
}

}  // namespace
}  // namespace sparsecoll
