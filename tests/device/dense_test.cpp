// Loops over dense vectors on device code: the host's bits, whatever is in them and however they lie.
#include "tests/device/two_back_ends.h"

namespace sparsecoll::test {
namespace {

constexpr sparsecollDataType_t kTypes[] = {sparsecollFloat16, sparsecollBfloat16, sparsecollFloat32, sparsecollFloat64};
constexpr uint64_t kLengths[] = {1, 3, 4, 1000, 5003};

WorkspaceNeed someNeed() { return {5003, 1, 1, 1}; }

// A vector with some elements before it, so that it lies anywhere.
template <class T>
std::vector<T> vectorOf(uint64_t n, Fill fill, uint64_t seed) {
  using A = typename Element<T>::Accumulate;
  Random random(seed);
  std::vector<T> values;
  for (uint64_t i = 0; i < n; ++i) values.push_back(Element<T>::store(filled<A>(fill, i, random)));
  return values;
}

// Calls test.template operator()<T>(n, off, fill): off elements stand before the vectors.
template <class Test>
void forVectors(Test test) {
  for (const sparsecollDataType_t type : kTypes)
    withElement(type, [&]<class T>(T) {
      for (const uint64_t n : kLengths)
        for (const uint64_t off : {0u, 1u})
          for (const Fill fill : {Fill::kSmooth, Fill::kRange, Fill::kHostile, Fill::kSubnormal}) {
            CAPTURE(type, n, off, static_cast<int>(fill));
            test.template operator()<T>(n, off, fill);
          }
    });
}

TEST_CASE("dense sums have the host's bits") {
  TwoBackEnds ends(someNeed());
  const size_t ranks = GENERATE(1u, 2u, 3u, 8u, 17u);
  forVectors([&]<class T>(uint64_t n, uint64_t off, Fill fill) {
    if (n == 5003 && ranks == 17 && fill != Fill::kHostile) return;
    std::vector<std::vector<T>> vectors;
    std::vector<const void*> in;
    for (size_t r = 0; r < ranks; ++r) vectors.push_back(vectorOf<T>(off + n, fill, n + r));
    for (const std::vector<T>& vector : vectors) in.push_back(vector.data() + off);
    for (const bool accumulate : {false, true}) {
      const Outcome host = ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
        void* const out[] = {outcome.copyOf(vectorOf<T>(off + n, Fill::kHostile, 77)) + off,
                             outcome.copyOf(vectorOf<T>(off + n, Fill::kSmooth, 78)) + off};
        DenseSumArgs args;
        args.in = in;
        args.out = out;
        args.type = Element<T>::kType;
        args.count = n;
        args.inputScale = off == 0 ? 0.3 : 1;
        args.finish = {static_cast<double>(ranks), accumulate ? 1.0 : 0.7};
        args.accumulate = accumulate;
        args.nonFinite = outcome.room<uint32_t>(1, 0);
        kernels.denseSum(args, stream);
      });
    }
  });
}

TEST_CASE("a dense sum may take the place of a vector of its own") {
  TwoBackEnds ends(someNeed());
  const std::vector<float> other = vectorOf<float>(1000, Fill::kHostile, 1);
  ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    float* const own = outcome.copyOf(vectorOf<float>(1000, Fill::kHostile, 2));
    const void* const in[] = {own, other.data()};
    void* const out[] = {own};
    kernels.denseSum({in, out, sparsecollFloat32, 1000, 1, {2, 1}, false, nullptr}, stream);
  });
}

// Every accumulate type with every type of x.
template <class Test>
void forPairs(Test test) {
  forVectors([&]<class T>(uint64_t n, uint64_t off, Fill fill) {
    test.template operator()<float, T>(n, off, fill);
    test.template operator()<double, T>(n, off, fill);
  });
}

TEST_CASE("what is given back and what is flushed has the host's bits") {
  TwoBackEnds ends(someNeed());
  forPairs([&]<class A, class T>(uint64_t n, uint64_t off, Fill fill) {
    ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      A* const acc = outcome.copyOf(vectorOf<A>(off + n, fill == Fill::kHostile ? Fill::kSmooth : fill, 5)) + off;
      T* const x = outcome.copyOf(vectorOf<T>(off + n, fill, 6)) + off;
      kernels.addFinite(acc, Element<A>::kType, x, Element<T>::kType, n, 0.3, 1, nullptr, stream);
      kernels.flush(acc, Element<A>::kType, x, Element<T>::kType, n, stream);
    });
  });
}

TEST_CASE("NaN and Inf leave the residual where some rank has met them, and only then") {
  TwoBackEnds ends(someNeed());
  for (const uint32_t met : {0u, 1u})
    forVectors([&]<class T>(uint64_t n, uint64_t off, Fill fill) {
      if constexpr (std::is_floating_point_v<T>)
        ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
          Control control{};
          control.anyNonFinite = met;
          T* const acc = outcome.copyOf(vectorOf<T>(off + n, fill, 9)) + off;
          kernels.clearNonFinite(acc, Element<T>::kType, n, &control, stream);
        });
    });
}

TEST_CASE("what a step changed is put back where it came to nothing, and only there") {
  TwoBackEnds ends(someNeed());
  for (const uint32_t met : {0u, 1u})
    for (const bool undoes : {false, true})
      forVectors([&]<class T>(uint64_t n, uint64_t off, Fill fill) {
        if constexpr (std::is_floating_point_v<T>)
          ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
            Control control{};
            control.anyNonFinite = met;
            outcome.end(kernels.conclude({&control, {}, undoes, false}, stream));
            *outcome.room<uint32_t>(1) = control.takesEffect;
            const std::vector<T> before = vectorOf<T>(off + n, fill, 10);
            T* const acc = outcome.copyOf(vectorOf<T>(off + n, fill, 11)) + off;
            kernels.restore(acc, before.data() + off, Element<T>::kType, n, &control, stream);
          });
      });
}

TEST_CASE("NonFinite is told once and keeps no kernel from its work") {
  TwoBackEnds ends(someNeed());
  Kernels& device = ends.device();
  Control control{};
  control.anyNonFinite = 1;
  REQUIRE(device.conclude({&control, {41, 0}, true, true}, ends.stream()).ok());
  CHECK(control.takesEffect == 0);
  std::vector<float> acc(100, HUGE_VALF);
  device.clearNonFinite(acc.data(), sparsecollFloat32, acc.size(), &control, ends.stream());
  CHECK(acc == std::vector<float>(100, 0.0f));
  const Status told = device.findings(ends.stream(), Deadline::in(600000));
  CHECK(told.result() == sparsecollNonFinite);
  CHECK(std::string(told.failure().text.c_str()).find("operation 41") != std::string::npos);
  CHECK(device.findings(ends.stream(), Deadline::in(600000)).ok());
}

TEST_CASE("once something is wrong the residual stays as it is, and keeps no NaN") {
  TwoBackEnds ends(someNeed());
  Kernels& device = ends.device();
  const Stream stream = ends.stream();
  Lists<float> wrong;
  wrong.add({{5, 5}, {1, 1}});
  std::vector<float> acc = vectorOf<float>(1000, Fill::kHostile, 3);
  std::vector<float> x = vectorOf<float>(1000, Fill::kSmooth, 4);
  const std::vector<float> accBefore = acc;
  const std::vector<float> xBefore = x;
  const Control control{};  // nobody was told of what acc has
  REQUIRE(device.checkOrder(wrong.views()[0], 1000, stream).ok());
  device.addFinite(acc.data(), sparsecollFloat32, x.data(), sparsecollFloat32, 1000, 1, 1, nullptr, stream);
  CHECK(difference(acc, accBefore) == "");
  CHECK(difference(x, xBefore) == "");
  // What ends a communicator is not forgotten when it was told.
  for (int told = 0; told < 2; ++told)
    CHECK(device.findings(stream, Deadline::in(600000)).result() == sparsecollCorrupted);
  device.clearNonFinite(acc.data(), sparsecollFloat32, 1000, &control, stream);
  std::vector<float> finite = accBefore;
  for (float& value : finite)
    if (!isFinite(value)) value = 0;
  CHECK(difference(finite, accBefore) != "");
  CHECK(difference(acc, finite) == "");
  // What was not sent can still be had.
  std::vector<float> rescued(1000, -0.0f);  // which zeros of either sign are added to
  device.flush(acc.data(), sparsecollFloat32, rescued.data(), sparsecollFloat32, 1000, stream);
  CHECK(difference(rescued, finite) == "");
}

}  // namespace
}  // namespace sparsecoll::test
