// Everything that goes into acc, on device code: scale, clipping, momentum, decay. What is sampled, measured, collected
// and cut from it has the host's bits, however the vectors lie.
#include "tests/device/two_back_ends.h"

namespace sparsecoll::test {
namespace {

struct Form {
  const char* name;
  bool momentum;
  bool nesterov;
  double decay;
  bool clips;
};
constexpr Form kForms[] = {{"none", false, false, 1, false},
                           {"momentum", true, false, 1, false},
                           {"nesterov", true, true, 1, false},
                           {"decay", false, false, 0.75, false},
                           {"nesterov, decay and clip", true, true, 0.9, true},
                           {"clip", false, false, 1, true}};

// The vectors that can lie off their alignment; bits of one number.
enum Vector : uint32_t { kGradient = 1, kIn = 2, kOut = 4, kVelocityIn = 8, kVelocityOut = 16, kAllVectors = 31 };

// One step's pass over two windows: of the whole vector, or with gaps.
template <class T>
class PassCase {
  using A = typename Element<T>::Accumulate;

 public:
  PassCase(uint64_t n, const Form& form, double scale, uint32_t off, Fill fill = Fill::kSmooth)
      : n_(n),
        form_(form),
        scale_(scale),
        off_(off),
        gradient_(makeElements<T>(fill, n, n)),
        in_(makeVector<A>(fill, n, n + 1)),
        velocity_(makeVector<A>(fill, n, n + 2)) {}

  // What DEFT asks for.
  void measure(Kernels& kernels, Stream stream, Outcome& outcome) const {
    Windows windows(n_, 0);
    PassArgs args = argsOf(kernels, stream, outcome, windows);
    args.norms = outcome.room<double>(2);
    kernels.pass(args, stream);
    windows.tell(outcome);
  }

  // A sample, the pass, and a cut.
  void select(Kernels& kernels, Stream stream, Outcome& outcome) {
    Windows windows(n_, 3);
    PassArgs args = argsOf(kernels, stream, outcome, windows);
    windows.control.histogram = outcome.room<uint32_t>(kHistogramBins);
    kernels.sample(args, stream);
    std::vector<uint32_t> indices(2 * kSlots);
    std::vector<A> values(2 * kSlots);
    args.candidateIndices = indices.data();
    args.candidateValues = values.data();
    kernels.pass(args, stream);
    windows.tell(outcome);
    CutArgs cut;
    cut.acc = args.out;
    cut.accumulateType = Element<A>::kType;
    cut.control = &windows.control;
    cut.candidateIndices = indices.data();
    cut.candidateValues = values.data();
    constexpr uint64_t kRoom = 2 * kLimit;
    cut.target = {outcome.room<uint32_t>(kRoom), outcome.room<A>(kRoom), outcome.room<uint32_t>(1), kRoom};
    kernels.cut(cut, stream);
    windows.tell(outcome);
  }

 private:
  static constexpr uint64_t kSlots = 100, kLimit = 40;

  struct Windows {
    Windows(uint64_t n, uint64_t gap) {
      windows[0].begin = gap;
      windows[0].end = n / 2;
      windows[1].begin = n / 2 + gap;
      windows[1].end = n - gap;
      windows[1].firstSlot = kSlots;
      windows[1].exact = 1;
      for (Window& window : windows) {
        window.slots = kSlots;
        window.limit = kLimit;
        window.key = keyOfThreshold(4, sizeof(A) == 8);
        window.forced = kNoForcedIndex;
      }
      control.windows = windows;
      control.windowCount = 2;
      control.n = n;
      control.iteration = 5;
      control.isDouble = sizeof(A) == 8 ? 1 : 0;
    }
    void tell(Outcome& outcome) const {
      const uint64_t facts[] = {control.nonFinite.count, control.sampled,    control.selected,   control.candidates,
                                control.overflows,       windows[0].found,   windows[1].found,   windows[0].kept,
                                windows[1].kept,         windows[0].keptKey, windows[1].keptKey, control.fallbacks};
      outcome.copyOf(std::vector<uint64_t>(std::begin(facts), std::end(facts)));
    }
    Window windows[2] = {};
    Control control = {};
  };

  template <class E>
  E* place(Outcome& outcome, uint32_t which, std::vector<E> elements) const {
    const uint32_t before = (off_ & which) != 0 ? 1 : 0;
    elements.insert(elements.begin(), before, E{});
    return outcome.copyOf(elements) + before;
  }

  // Vectors that all lie well are written in place.
  PassArgs argsOf(Kernels& kernels, Stream stream, Outcome& outcome, Windows& windows) const {
    PassArgs args;
    args.gradient = place<T>(outcome, kGradient, gradient_);
    args.gradientType = Element<T>::kType;
    A* const in = place<A>(outcome, kIn, in_);
    args.in = in;
    args.out = off_ == 0 ? in : place<A>(outcome, kOut, std::vector<A>(n_));
    args.scale = scale_;
    args.n = n_;
    args.control = &windows.control;
    if (form_.momentum) {
      A* const velocity = place<A>(outcome, kVelocityIn, velocity_);
      args.momentum.velocityIn = velocity;
      args.momentum.velocityOut = off_ == 0 ? velocity : place<A>(outcome, kVelocityOut, std::vector<A>(n_));
    }
    args.momentum.factor = 0.9;
    args.momentum.nesterov = form_.nesterov;
    args.momentum.decay = form_.decay;
    if (!form_.clips) return args;
    auto* const squares = outcome.scratch<double>(1);
    auto* const scaleAt = outcome.room<double>(1);
    kernels.squares(args.gradient, args.gradientType, n_, squares, stream);
    kernels.clip({squares, 1}, scale_, 20, scaleAt, stream);
    args.scale = Scale::standingAt(scaleAt);
    return args;
  }

  uint64_t n_;
  Form form_;
  double scale_;
  uint32_t off_;
  std::vector<T> gradient_;
  std::vector<A> in_, velocity_;
};

template <class T>
void check(TwoBackEnds& ends, PassCase<T> pass) {
  ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    pass.measure(kernels, stream, outcome);
    pass.select(kernels, stream, outcome);
  });
}

constexpr uint64_t kLength = kTile + 3;

TEMPLATE_TEST_CASE("acc and what is found in it have the host's bits", "", float, double, Half, Bfloat) {
  TwoBackEnds ends({kLength, 2, 1, 1});
  for (const Form& form : kForms)
    for (const uint32_t off : {0u, kAllVectors + 0u})
      for (const double scale : {0.3, 0.0}) {
        CAPTURE(form.name, off, scale);
        check(ends, PassCase<TestType>(scale == 0 ? 515 : off == 0 ? kLength / 2 : kLength, form, scale, off));
      }
}

// More of it than the windows keep: which stay is decided by its bits. In the second case it finds no room in the list.
TEMPLATE_TEST_CASE("NaN and Inf from gradient, residual and velocity", "", float, double, Half, Bfloat) {
  TwoBackEnds ends({kLength, 2, 1, 1});
  for (const Form& form : kForms)
    for (const uint32_t off : {0u, kAllVectors + 0u})
      for (const uint64_t n : {uint64_t{1000}, kLength}) {
        CAPTURE(form.name, off, n);
        check(ends, PassCase<TestType>(n, form, 0.3, off, Fill::kHostile));
      }
}

// Tiles are added up in groups, here in three of them.
TEST_CASE("norms and clipping of long vectors") {
  constexpr uint64_t kLong = 2 * (513 * kTile + 5);
  TwoBackEnds ends({kLong, 2, 1, 1});
  const PassCase<Half> pass(kLong, kForms[5], 0.3, 0);
  ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) { pass.measure(kernels, stream, outcome); });
}

// What is read in fours lies on their alignment: sanitizers see to that.
TEST_CASE("one vector alone lies off its alignment") {
  TwoBackEnds ends({kLength, 2, 1, 1});
  for (uint32_t off = 1; off < kAllVectors; off *= 2) {
    CAPTURE(off);
    check(ends, PassCase<Half>(1001, kForms[2], 0.3, off));
    check(ends, PassCase<float>(1001, kForms[2], 0.3, off));
  }
}

}  // namespace
}  // namespace sparsecoll::test
