// Finished sums of every instruction set: the formula bit for bit, wherever the vectors lie and whether they are
// streamed.
#include <limits>
#include "tests/support/catch.h"

#include "host/store.h"
#include "tests/unit/isas.h"
#include "tests/unit/lists.h"

namespace sparsecoll {
namespace {

using host::Isa;
using test::difference;
using test::Fill;
using test::finished;
using test::Guarded;
using test::makeVector;

constexpr uint64_t kSizes[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1000};

template <class A>
void checkFinish(const Isa& isa, const std::vector<A>& sums, const Finish& finish, uint64_t shift, bool stream) {
  const uint64_t n = sums.size();
  CAPTURE(isa.name, n, finish.divisor, finish.scale.value, shift, stream);
  std::vector<A> wanted;
  for (const A sum : sums) wanted.push_back(finished(sum, finish));
  Guarded<A> tile(n);
  tile.fill(sums);
  Guarded<A> out(n, shift);
  host::finishTile(isa, factorsOf<A>(finish), tile.data(), out.data(), n, stream);
  host::streamFence();
  CHECK(difference(out.values(), wanted) == "");
  CHECK(difference(tile.values(), std::vector<A>(n, 0)) == "");
  CHECK(out.intact());
  CHECK(tile.intact());
}

TEMPLATE_TEST_CASE("a tile is finished and cleared alike on every instruction set", "", float, double) {
  for (const Isa* isa : test::availableIsas())
    for (const Finish finish : {Finish{1, 1}, Finish{4, 1}, Finish{3, 1}, Finish{7, 2.5}, Finish{1024, -0.3}})
      for (const Fill fill : {Fill::kSmooth, Fill::kHostile, Fill::kZero, Fill::kSubnormal, Fill::kRange}) {
        for (const uint64_t n : kSizes) {
          const auto sums = makeVector<TestType>(fill, n, n);
          for (const uint64_t shift : {0, 1, 5}) checkFinish(*isa, sums, finish, shift, false);
          checkFinish(*isa, sums, finish, 0, true);
        }
      }
}

// One in `gap` elements of a tile is marked, from none to all.
TEMPLATE_TEST_CASE("touched elements are collected in order on every instruction set", "", float, double) {
  constexpr uint64_t kBlock = 64;
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t n : {kBlock, 2 * kBlock, 16 * kBlock})
      for (const uint64_t gap : {1, 2, 7, 15, 40, 100, 5000}) {
        CAPTURE(isa->name, n, gap);
        const auto sums = makeVector<TestType>(Fill::kHostile, n, gap);
        Guarded<TestType> tile(n);
        Guarded<uint8_t> marks(n);
        tile.fill(std::vector<TestType>(n, 0));
        marks.fill(std::vector<uint8_t>(n, 0));
        std::vector<uint32_t> offsets;
        std::vector<TestType> values;
        test::Random random(n + gap);
        for (uint64_t i = test::below(random, gap); i < n; i += 1 + test::below(random, 2 * gap - 1)) {
          offsets.push_back(static_cast<uint32_t>(i));
          values.push_back(sums[i]);
          tile.data()[i] = sums[i];
          marks.data()[i] = 1;
        }
        Guarded<uint32_t> gotOffsets(offsets.size() + kBlock);
        Guarded<TestType> gotValues(offsets.size() + kBlock);
        REQUIRE(host::collectFor<TestType>(*isa)({tile.data(), marks.data(), n, gotOffsets.data(), gotValues.data()}) ==
                offsets.size());
        CHECK(difference(gotOffsets.data(), offsets.data(), offsets.size()) == "");
        CHECK(difference(gotValues.data(), values.data(), values.size()) == "");
        CHECK(difference(tile.values(), std::vector<TestType>(n, 0)) == "");
        CHECK(marks.values() == std::vector<uint8_t>(n, 0));
        CHECK(tile.intact());
        CHECK(marks.intact());
        CHECK(gotOffsets.intact());
        CHECK(gotValues.intact());
      }
}

template <class A>
struct DenseCase {
  uint64_t n;
  size_t ins, outs;
  double inputScale;
  Finish finish;
  uint64_t shift;
  bool stream, inPlace;
};

template <class A>
std::vector<A> expectedSum(const std::vector<std::vector<A>>& in, const DenseCase<A>& row) {
  std::vector<A> out(row.n);
  for (uint64_t i = 0; i < row.n; ++i) {
    A sum = static_cast<A>(row.inputScale) * in[0][i];
    for (size_t r = 1; r < in.size(); ++r) sum += static_cast<A>(row.inputScale) * in[r][i];
    out[i] = finished(sum, row.finish);
  }
  return out;
}

template <class A>
void checkDense(const Isa& isa, const DenseCase<A>& row, Fill fill) {
  CAPTURE(isa.name, row.n, row.ins, row.outs, row.inputScale, row.finish.divisor, row.shift, row.stream, row.inPlace);
  std::vector<std::vector<A>> in;
  std::vector<Guarded<A>> sources;
  std::vector<Guarded<A>> targets(row.outs, Guarded<A>(row.n, row.shift));
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t r = 0; r < row.ins; ++r) {
    in.push_back(makeVector<A>(fill, row.n, r));
    sources.emplace_back(row.n, row.shift);
    sources.back().fill(in.back());
  }
  for (auto& source : sources) from.push_back(source.data());
  for (size_t o = 0; o < row.outs; ++o)
    to.push_back(row.inPlace && o < row.ins ? sources[o].data() : targets[o].data());
  const host::DenseSpan<A> span{
      from.data(), to.data(), row.ins, row.outs, row.n, static_cast<A>(row.inputScale), factorsOf<A>(row.finish),
      row.stream};
  if constexpr (std::is_same_v<A, double>)
    isa.denseSumDouble(span);
  else
    isa.denseSumFloat(span);
  host::streamFence();
  const std::vector<A> wanted = expectedSum(in, row);
  for (size_t o = 0; o < row.outs; ++o) CHECK(difference(static_cast<const A*>(to[o]), wanted.data(), row.n) == "");
  for (const auto& source : sources) CHECK(source.intact());
  for (const auto& target : targets) CHECK(target.intact());
}

// The parts of a list, one entry after the other.
template <class A>
struct Parts {
  std::vector<uint32_t> keptIndices, restIndices;
  std::vector<A> keptValues, restValues;

  explicit Parts(const host::SplitSpan<A>& span) {
    uint64_t equals = span.equals;
    for (uint64_t i = 0; i < span.count; ++i) {
      const auto key = Magnitude<A>::of(span.values[i]);
      const bool equal = key == span.key && equals != 0;
      equals -= equal ? 1 : 0;
      if (equal || key > span.key) {
        keptIndices.push_back(span.indexAt(i));
        keptValues.push_back(span.values[i]);
      } else {
        restIndices.push_back(span.indexAt(i));
        restValues.push_back(span.values[i] * span.restScale);
      }
    }
  }
};

template <class A>
void checkSplit(const Isa& isa, host::SplitSpan<A> span, bool withRest) {
  CAPTURE(isa.name, span.count, span.key, span.equals, span.indices != nullptr, withRest);
  const Parts<A> wanted(span);
  span.kept = wanted.keptIndices.size();
  const uint64_t rest = span.count - span.kept;
  Guarded<uint32_t> keptIndices(span.kept);
  Guarded<A> keptValues(span.kept);
  Guarded<uint32_t> restIndices(rest);
  Guarded<A> restValues(rest);
  span.keptIndices = keptIndices.data();
  span.keptValues = keptValues.data();
  if (withRest) span.restIndices = restIndices.data();
  if (withRest) span.restValues = restValues.data();
  host::splitFor<A>(isa)(span);
  REQUIRE((keptIndices.intact() && keptValues.intact() && restIndices.intact() && restValues.intact()));
  REQUIRE(keptIndices.values() == wanted.keptIndices);
  REQUIRE(difference(keptValues.values(), wanted.keptValues) == "");
  if (withRest) REQUIRE(restIndices.values() == wanted.restIndices);
  if (withRest) REQUIRE(difference(restValues.values(), wanted.restValues) == "");
}

TEMPLATE_TEST_CASE("a boundary divides a list alike on every instruction set", "", float, double) {
  using A = TestType;
  const A nan = std::numeric_limits<A>::quiet_NaN();
  test::Random random(9);
  for (const uint64_t count : {0, 1, 7, 8, 16, 17, 63, 100, 1000}) {
    std::vector<uint32_t> indices(count);
    std::vector<A> values(count);
    for (uint64_t i = 0; i < count; ++i) indices[i] = static_cast<uint32_t>(3 * i + random() % 3);
    for (A& value : values) value = static_cast<A>(static_cast<int>(random() % 13) - 6) / 4;  // many equals
    if (count > 20) values[5] = nan;
    for (const A at : {A{0}, A{0.5}, A{1.5}, A{100}, nan})
      for (const uint64_t equals : {uint64_t{0}, uint64_t{1}, uint64_t{9}, count})
        for (const bool listed : {true, false}) {
          host::SplitSpan<A> span;
          span.indices = listed ? indices.data() : nullptr;
          span.values = values.data();
          span.first = 11;
          span.count = count;
          span.key = Magnitude<A>::of(at);
          span.equals = equals;
          span.restScale = A{0.5};
          for (const Isa* isa : test::availableIsas())
            for (const bool withRest : {true, false}) checkSplit(*isa, span, withRest);
        }
  }
}

TEMPLATE_TEST_CASE("a dense sum is formed alike on every instruction set", "", float, double) {
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t n : kSizes)
      for (const size_t ins : {1, 2, 5})
        for (const Finish finish : {Finish{1, 1}, Finish{3, 0.5}})
          for (const Fill fill : {Fill::kSmooth, Fill::kHostile, Fill::kRange})
            for (const double inputScale : {1.0, -0.7}) {
              checkDense<TestType>(*isa, {n, ins, 1, inputScale, finish, 1, false, false}, fill);
              checkDense<TestType>(*isa, {n, ins, 3, inputScale, finish, 0, true, false}, fill);
              checkDense<TestType>(*isa, {n, ins, 2, inputScale, finish, 0, true, true}, fill);
            }
}

TEST_CASE("division by a power of two becomes a multiplication and no other does") {
  struct Row {
    double divisor;
    bool divide;
    double factor;
  };
  for (const Row& row : {Row{1, false, 1}, Row{2, false, 0.5}, Row{1024, false, 1.0 / 1024}, Row{3, true, 3},
                         Row{6, true, 6}, Row{1000, true, 1000}, Row{0.5, true, 0.5}, Row{2.5, true, 2.5}}) {
    CAPTURE(row.divisor);
    const auto factors = factorsOf<float>({row.divisor, 0.25});
    CHECK(factors.divide == row.divide);
    CHECK(static_cast<double>(factors.factor) == row.factor);
    CHECK(factors.scale == 0.25F);
  }
}

}  // namespace
}  // namespace sparsecoll
