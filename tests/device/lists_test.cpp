// P lists to a dense sum and to one sorted list: device code against the host's kernels.
#include "tests/device/two_back_ends.h"

namespace sparsecoll {
namespace {

using test::Entries;
using test::Lists;
using test::listsOfAllKinds;
using test::Outcome;
using test::ReceivedFrame;
using test::TwoBackEnds;

constexpr uint64_t kLengths[] = {1, 16, 1031, 8192, 20011};
constexpr size_t kRanks[] = {1, 2, 3, 8, 17};
const Finish kFinishes[] = {{1, 1}, {8, 1}, {3, -0.25}};  // the last one makes sums of nothing -0

WorkspaceNeed needFor(uint64_t n, uint64_t lists) { return {n, 1, lists, n * lists}; }

// Indices that some ranks met NaN or Inf at.
struct Poisoned {
  explicit Poisoned(uint64_t n) : indices{0, static_cast<uint32_t>(n - 1), static_cast<uint32_t>(n / 2), 0} {
    control.anyNonFinite = 1;
    control.poison = indices.data();
    control.poisonCount = indices.size();
  }
  std::vector<uint32_t> indices;
  Control control{};
};

template <class A, class T>
void combineInto(Kernels& kernels, Stream stream, Outcome& outcome, CombineArgs args, uint64_t* touched) {
  std::vector<T> before(args.n);
  for (uint64_t i = 0; i < args.n; ++i) before[i] = Element<T>::store(static_cast<float>(i % 7) - 3);
  T* const out = touched == nullptr ? outcome.copyOf(before) : outcome.room<T>(args.n, 0);
  args.out = out;
  args.touchedLines = touched;
  args.accumulateType = Element<A>::kType;
  args.outType = Element<T>::kType;
  outcome.end(kernels.combine(args, stream));
}

template <class T>
void checkCombine(uint64_t n, size_t ranks) {
  using A = typename Element<T>::Accumulate;
  TwoBackEnds both(needFor(n, ranks));
  Poisoned poisoned(n);
  uint32_t turn = 0;
  for (const auto& [name, lists] : listsOfAllKinds<A>(ranks, n, n + ranks)) {
    CAPTURE(name, ranks, n);
    CombineArgs args;
    args.lists = lists.views();
    args.n = n;
    args.finish = kFinishes[turn % 3];
    args.overContributors = turn % 4 == 1;
    args.accumulate = turn % 5 == 2;
    args.mode = turn % 4 == 3 ? Combine::kAssign : Combine::kAdd;
    args.control = turn % 2 == 0 ? &poisoned.control : nullptr;
    poisoned.control.anyNonFinite = turn % 4 == 0 ? 1 : 0;
    const Outcome expected = both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      combineInto<A, T>(kernels, stream, outcome, args, nullptr);
    });
    CHECK(expected.status().ok());
    ++turn;
  }
}

TEST_CASE("combine writes what the host writes, for every type") {
  for (const uint64_t n : kLengths)
    for (const size_t ranks : kRanks) {
      if (n == 20011 && ranks == 17) continue;
      checkCombine<float>(n, ranks);
      if (ranks == 2 || ranks == 8) {
        checkCombine<double>(n, ranks);
        checkCombine<Half>(n, ranks);
        checkCombine<Bfloat>(n, ranks);
      }
    }
}

TEST_CASE("combine keeps an out that nobody else writes, step after step") {
  constexpr uint64_t kN = 20011;
  const auto run = [&]<class T>(T, Finish finish) {
    using A = typename Element<T>::Accumulate;
    TwoBackEnds both(needFor(kN, 3));
    Poisoned poisoned(kN);
    both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      uint64_t* const touched = outcome.room<uint64_t>(kN / 1024 + 1, 0);
      T* const out = outcome.room<T>(kN, 0);
      for (uint64_t step = 0; step < 5; ++step) {
        const auto lists = test::someLists<A>(3, kN, step == 2 ? 0.3 : 0.0008, step);
        CombineArgs args;
        args.lists = lists.views();
        args.n = kN;
        args.finish = finish;
        args.out = out;
        args.touchedLines = touched;
        args.accumulateType = Element<A>::kType;
        args.outType = Element<T>::kType;
        args.control = step == 3 ? &poisoned.control : nullptr;
        outcome.end(kernels.combine(args, stream));
        std::copy_n(out, kN, outcome.room<T>(kN));
        std::copy_n(touched, kN / 1024 + 1, outcome.room<uint64_t>(kN / 1024 + 1));
      }
    });
  };
  for (const Finish& finish : kFinishes) {
    run(float{}, finish);
    run(double{}, finish);
  }
  run(Half{}, kFinishes[2]);
}

TEST_CASE("combine writes to memory of any alignment") {
  constexpr uint64_t kN = 9001;
  TwoBackEnds both(needFor(kN, 2));
  const auto lists = test::someLists<float>(2, kN, 0.1, 5);
  both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    CombineArgs args;
    args.lists = lists.views();
    args.n = kN;
    args.out = outcome.room<float>(kN + 1) + 1;
    outcome.end(kernels.combine(args, stream));
    args.outType = sparsecollFloat16;
    args.out = outcome.room<Half>(kN + 1) + 1;
    outcome.end(kernels.combine(args, stream));
  });
}

template <class T, class Index>
void mergeInto(Kernels& kernels, Stream stream, Outcome& outcome, MergeArgs args) {
  args.accumulateType = Element<typename Element<T>::Accumulate>::kType;
  args.outType = Element<T>::kType;
  args.indexBytes = sizeof(Index);
  args.outIndices = outcome.room<Index>(args.outCapacity);
  args.outValues = outcome.room<T>(args.outCapacity);
  args.outCount = outcome.room<uint64_t>(1);
  outcome.end(kernels.merge(args, stream));
}

template <class T, class Index>
void checkMerge(uint64_t n, size_t ranks, const WorkspaceNeed& need) {
  using A = typename Element<T>::Accumulate;
  TwoBackEnds both(need);
  Poisoned poisoned(std::min<uint64_t>(n, 1u << 30));
  uint32_t turn = 0;
  for (const auto& [name, lists] : listsOfAllKinds<A, Index>(ranks, n, 7 * n + ranks)) {
    CAPTURE(name, ranks, n);
    MergeArgs args;
    args.lists = lists.views();
    args.n = n;
    args.finish = kFinishes[turn % 3];
    args.overContributors = turn % 4 == 1;
    args.mode = turn % 4 == 3 ? Combine::kAssign : Combine::kAdd;
    args.control = turn % 2 == 0 ? &poisoned.control : nullptr;
    poisoned.control.anyNonFinite = turn % 4 == 2 ? 1 : 0;
    // Enough, one more than enough, too little.
    const uint64_t entries = lists.sum(args.mode).size() + (turn % 4 == 2 ? 3 : 0);
    args.outCapacity = turn % 3 == 0 ? entries : turn % 3 == 1 ? entries + 1 : entries * 2 / 3;
    both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      mergeInto<T, Index>(kernels, stream, outcome, args);
    });
    ++turn;
  }
}

TEST_CASE("merge writes what the host writes") {
  for (const uint64_t n : kLengths)
    for (const size_t ranks : kRanks) {
      if (n == 20011 && ranks == 17) continue;
      checkMerge<float, uint32_t>(n, ranks, needFor(n, ranks));
      if (ranks != 3) continue;
      checkMerge<double, uint32_t>(n, ranks, needFor(n, ranks));
      checkMerge<Half, uint32_t>(n, ranks, needFor(n, ranks));
      checkMerge<Bfloat, uint64_t>(n, ranks, needFor(n, ranks));
      checkMerge<double, uint64_t>(n, ranks, needFor(n, ranks));
    }
}

// Stretches of many ranges, which a workspace for less than this comes to.
TEST_CASE("very long vectors take as many entries as they have") {
  constexpr uint64_t kN = uint64_t{1} << 41;
  TwoBackEnds both({1, 1, 4, 100});
  Lists<float, uint64_t> lists;
  lists.add({{0, 7, kN / 3, kN / 3 + 1, kN - 1}, {1, 2, 3, 4, 5}});
  lists.add({});
  lists.add({{7, 8191, 8192, kN / 3, kN / 2, kN - 1}, {1, -2, 3, -4, 5, 6}}, false);
  Poisoned poisoned(123456789);
  MergeArgs args;
  args.lists = lists.views();
  args.n = kN;
  args.outCapacity = 30;
  for (const Control* control :
       {static_cast<const Control*>(nullptr), static_cast<const Control*>(&poisoned.control)}) {
    args.control = control;
    const Outcome expected = both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      mergeInto<float, uint64_t>(kernels, stream, outcome, args);
    });
    CHECK(expected.status().ok());
  }
}

TEST_CASE("stretches of several ranges are summed range by range") {
  constexpr uint64_t kN = 64 * 8192 * 2 + 77;
  TwoBackEnds both({1, 1, 3, 1000});
  const auto lists = test::someLists<float>(3, kN, 0.0003, 11);
  both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    CombineArgs args;
    args.lists = lists.views();
    args.n = kN;
    combineInto<float, float>(kernels, stream, outcome, args, outcome.room<uint64_t>(kN / 1024 + 1, 0));
    MergeArgs merge;
    merge.lists = lists.views();
    merge.n = kN;
    merge.outCapacity = 2000;
    mergeInto<float, uint32_t>(kernels, stream, outcome, merge);
  });
}

TEST_CASE("more lists than travel with one launch") {
  constexpr uint64_t kN = 9000;
  constexpr size_t kMany = 300;
  TwoBackEnds both(needFor(kN, kMany));
  const auto lists = test::someLists<float>(kMany, kN, 0.002, 3);
  both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    CombineArgs args;
    args.lists = lists.views();
    args.n = kN;
    args.overContributors = true;
    combineInto<float, float>(kernels, stream, outcome, args, nullptr);
    MergeArgs merge;
    merge.lists = lists.views();
    merge.n = kN;
    merge.outCapacity = kN;
    mergeInto<float, uint32_t>(kernels, stream, outcome, merge);
  });
}

TEST_CASE("runs and lists that are equal parts of one") {
  constexpr uint64_t kN = 20011;
  TwoBackEnds both(needFor(kN, 6));
  std::vector<float> values(9001);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 3 == 0 ? (i % 2 == 0 ? -0.0f : 0.0f) : static_cast<float>(i);
  const auto run = ReceivedFrame<float>::run(values);
  const auto list = ReceivedFrame<float>::list(test::someEntries<float>(kN, 0.1, 1));
  auto entries = test::someEntries<float>(kN, 0.02, 2);
  const auto more = test::someEntries<float>(kN, 0.02, 3);
  const size_t each = std::min(entries.indices.size(), more.indices.size());
  entries.indices.resize(each);
  entries.values.resize(each);
  entries.indices.insert(entries.indices.end(), more.indices.begin(), more.indices.begin() + static_cast<long>(each));
  entries.values.insert(entries.values.end(), more.values.begin(), more.values.begin() + static_cast<long>(each));
  const auto twoParts = ReceivedFrame<float>::list(entries);
  std::vector<ListView> views = {run.view(5), list.view(), twoParts.view(), twoParts.view(), run.view(), list.view()};
  views[2].parts = views[3].parts = 2;
  views[3].part = 1;
  views[4].form = ListView::Form::kRun;
  views[4].first = 8000;
  views[4].runBegin = 100;
  views[4].runLength = 5000;
  views[5].form = ListView::Form::kRun;  // which it is not
  for (const Combine mode : {Combine::kAdd, Combine::kAssign})
    both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      CombineArgs args;
      args.lists = views;
      args.n = kN;
      args.mode = mode;
      combineInto<float, float>(kernels, stream, outcome, args, nullptr);
      MergeArgs merge;
      merge.lists = views;
      merge.n = kN;
      merge.mode = mode;
      merge.outCapacity = kN;
      mergeInto<float, uint32_t>(kernels, stream, outcome, merge);
    });
}

TEST_CASE("lists that are not sound are found out, and nothing is written") {
  constexpr uint64_t kN = 10000;
  TwoBackEnds both(needFor(kN, 3));
  const auto good = test::someEntries<float>(kN, 0.1, 1);
  const auto spoil = [&](auto change) {
    Entries<float> bad = good;
    change(bad.indices);
    Lists<float> lists;
    lists.add(good);
    lists.add(bad);
    lists.add(good);
    const Outcome expected = both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      CombineArgs args;
      args.lists = lists.views();
      args.n = kN;
      combineInto<float, float>(kernels, stream, outcome, args, nullptr);
    });
    CHECK(expected.status().result() == sparsecollCorrupted);
    CHECK(expected.status().failure().peer == 1);
    const Outcome merged = both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      MergeArgs args;
      args.lists = lists.views();
      args.n = kN;
      args.outCapacity = kN;
      mergeInto<float, uint32_t>(kernels, stream, outcome, args);
    });
    CHECK(merged.status().result() == sparsecollCorrupted);
    std::vector<float> out(kN, 7);
    CombineArgs args;
    args.lists = lists.views();
    args.n = kN;
    args.out = out.data();
    (void)both.device().combine(args, both.stream());
    CHECK(both.device().findings(both.stream(), Deadline::in(600000)).result() == sparsecollCorrupted);
    CHECK(std::count(out.begin(), out.end(), 7.0f) == static_cast<long>(kN));
  };
  spoil([](auto& indices) { std::swap(indices[3], indices[4]); });
  spoil([](auto& indices) { indices[9] = indices[8]; });
  spoil([](auto& indices) { indices.back() = kN; });
  spoil([](auto& indices) { indices[5] = ~0u; });
  spoil([](auto& indices) { indices.front() = kN - 1; });
}

TEST_CASE("a workspace for fewer lists is refused") {
  TwoBackEnds both(needFor(100, 1));
  const auto lists = test::someLists<float>(2, 100, 0.1, 1);
  std::vector<float> out(100);
  CombineArgs args;
  args.lists = lists.views();
  args.n = 100;
  args.out = out.data();
  CHECK(both.device().combine(args, both.stream()).result() == sparsecollCudaError);
  CHECK(both.device().combine(args, {}).result() == sparsecollCudaError);
}

}  // namespace
}  // namespace sparsecoll
