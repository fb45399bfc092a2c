// Velocity and acc: the formula on every instruction set, and a pass by tiles that selects what a pass over the same
// acc would.
#include "tests/support/catch.h"

#include <cmath>
#include <vector>

#include "host/host_kernels.h"
#include "tests/unit/data.h"
#include "tests/unit/isas.h"

namespace sparsecoll {
namespace {

using host::Isa;
using test::Fill;
using test::Guarded;
using test::makeElements;
using test::makeVector;

template <class T>
using Acc = typename Element<T>::Accumulate;

// All bits agree; which NaN comes out of two of them is up to the machine.
template <class A>
std::string difference(const std::vector<A>& got, const std::vector<A>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!test::sameBits(got[i], wanted[i]) && !(std::isnan(got[i]) && std::isnan(wanted[i])))
      return fmt::format("element {} is {}, not {}", i, got[i], wanted[i]);
  return "";
}

struct Form {
  bool momentum;
  bool nesterov;
  double decay;
};
constexpr Form kForms[] = {
    {true, false, 1}, {true, true, 1}, {false, false, 0.75}, {true, false, 0.9}, {true, true, 0.5}};
constexpr double kScale = 0.3;
constexpr double kFactor = 0.9;

template <class T>
struct Case {
  std::vector<T> gradient;
  std::vector<Acc<T>> in, velocity;
};

template <class T>
Case<T> makeCase(Fill fill, uint64_t n) {
  return {makeElements<T>(fill, n, 1), makeVector<Acc<T>>(fill, n, 2), makeVector<Acc<T>>(fill, n, 3)};
}

// The formula, one element after the other.
template <class T>
void expect(const Case<T>& from, const Form& form, std::vector<Acc<T>>& acc, std::vector<Acc<T>>& velocity) {
  using A = Acc<T>;
  const auto scale = static_cast<A>(kScale);
  const auto factor = static_cast<A>(kFactor);
  for (size_t i = 0; i < from.in.size(); ++i) {
    const A g = Element<T>::load(from.gradient[i]);
    const A kept = static_cast<A>(form.decay) * from.in[i];
    const A v = std::fma(scale, g, factor * from.velocity[i]);
    const A step = form.nesterov ? std::fma(scale, g, factor * v) : v;
    acc.push_back(form.momentum ? kept + step : std::fma(scale, g, kept));
    velocity.push_back(form.momentum ? v : from.velocity[i]);
  }
}

template <class T>
void checkSpan(const Isa& isa, const Case<T>& from, const Form& form) {
  using A = Acc<T>;
  CAPTURE(isa.name, from.in.size(), form.momentum, form.nesterov, form.decay);
  Guarded<A> acc(from.in.size());
  Guarded<A> velocity(from.in.size());
  acc.fill(from.in);
  velocity.fill(from.velocity);
  host::MomentumSpan<A> span;
  span.gradient = from.gradient.data();
  span.in = span.out = acc.data();
  if (form.momentum) span.velocityIn = span.velocityOut = velocity.data();
  span.n = from.in.size();
  span.scale = static_cast<A>(kScale);
  span.factor = static_cast<A>(kFactor);
  span.decay = static_cast<A>(form.decay);
  span.nesterov = form.nesterov;
  host::momentumFor<T>(isa)(span);
  std::vector<A> wantedAcc, wantedVelocity;
  expect(from, form, wantedAcc, wantedVelocity);
  CHECK(difference(acc.values(), wantedAcc) == "");
  CHECK(difference(velocity.values(), wantedVelocity) == "");
  CHECK(acc.intact());
  CHECK(velocity.intact());
}

TEMPLATE_TEST_CASE("velocity and acc follow the formula on every instruction set", "", float, double, Half, Bfloat) {
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 64, 1000})
      for (const Fill fill : {Fill::kSmooth, Fill::kRange, Fill::kSubnormal, Fill::kHostile})
        for (const Form& form : kForms) checkSpan(*isa, makeCase<TestType>(fill, n), form);
}

// Two windows with gaps around them, over more than a tile, and a control block for them.
struct Windows {
  explicit Windows(uint64_t n, uint64_t slots) : counts(kHistogramBins), indices(2 * slots), values(2 * slots) {
    windows[0].begin = 3;
    windows[0].end = n / 2;
    windows[1].begin = n / 2 + 5;
    windows[1].end = n - 1;
    windows[1].firstSlot = slots;
    for (Window& window : windows) {
      window.slots = slots;
      window.key = keyOfThreshold(2, false);
    }
    control.windows = windows;
    control.windowCount = 2;
    control.histogram = counts.data();
    control.n = n;
  }
  PassArgs args() {
    PassArgs args;
    args.n = control.n;
    args.control = &control;
    args.candidateIndices = indices.data();
    args.candidateValues = values.data();
    return args;
  }
  std::vector<uint32_t> counts, indices;
  std::vector<float> values;
  Window windows[2] = {};
  Control control{};
};

void checkPass(const Isa& isa, Fill fill, uint64_t n, uint64_t slots, const Form& form) {
  CAPTURE(isa.name, static_cast<int>(fill), n, slots, form.momentum, form.nesterov, form.decay);
  const Case<float> from = makeCase<float>(fill, n);
  std::vector<float> wantedAcc, wantedVelocity;
  expect(from, form, wantedAcc, wantedVelocity);
  for (float& x : wantedAcc) x = canonical(x);
  if (form.momentum)
    for (float& x : wantedVelocity) x = canonical(x);
  const auto kernels = host::makeHostKernels(isa);
  std::vector<float> acc(n), velocity = from.velocity;
  Windows got(n, slots);
  PassArgs args = got.args();
  args.gradient = from.gradient.data();
  args.in = from.in.data();
  args.out = acc.data();
  args.scale = kScale;
  if (form.momentum) args.momentum.velocityIn = args.momentum.velocityOut = velocity.data();
  args.momentum.factor = kFactor;
  args.momentum.nesterov = form.nesterov;
  args.momentum.decay = form.decay;
  kernels->sample(args, {});
  CHECK(test::difference(velocity, from.velocity) == "");  // a look
  kernels->pass(args, {});
  CHECK(test::difference(acc, wantedAcc) == "");
  CHECK(test::difference(velocity, wantedVelocity) == "");

  Windows wanted(n, slots);
  PassArgs plain = wanted.args();
  plain.gradient = wantedAcc.data();
  kernels->sample(plain, {});
  kernels->pass(plain, {});
  CHECK(got.counts == wanted.counts);
  for (int w = 0; w < 2; ++w) {
    const Window& window = got.windows[w];
    CHECK(window.found == wanted.windows[w].found);
    const uint64_t listed = std::min(window.found, window.slots);  // behind it anything may lie
    CHECK(test::difference(&got.indices[window.firstSlot], &wanted.indices[window.firstSlot], listed) == "");
    CHECK(test::difference(&got.values[window.firstSlot], &wanted.values[window.firstSlot], listed) == "");
  }
}

TEST_CASE("a pass with momentum selects and samples what it leaves in acc") {
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t n : {40u, 16390u, 40000u})
      for (const uint64_t slots : {1u, 70u, 100000u})
        for (const Form& form : kForms) checkPass(*isa, Fill::kSmooth, n, slots, form);
}

// Also where the list is too short to show that there is some.
TEST_CASE("NaN that a pass leaves in acc, velocity and candidates is canonical") {
  for (const Isa* isa : test::availableIsas())
    for (const uint64_t n : {40u, 16390u, 140000u})
      for (const uint64_t slots : {1u, 70u, 100000u})
        for (const Form& form : kForms) checkPass(*isa, Fill::kHostile, n, slots, form);
}

}  // namespace
}  // namespace sparsecoll
