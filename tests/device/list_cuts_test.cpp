// Sums that are cut or become runs, lists joined, and what lists do to acc: device code against the host's kernels.
#include "core/list_span.h"
#include "tests/device/two_back_ends.h"

namespace sparsecoll {
namespace {

using test::Entries;
using test::Fill;
using test::Lists;
using test::listsOfAllKinds;
using test::Outcome;
using test::ReceivedFrame;
using test::TwoBackEnds;

WorkspaceNeed needFor(uint64_t n, uint64_t lists) { return {n, 1, lists, n}; }

template <class A>
List listIn(Outcome& outcome, uint64_t capacity, List::Values where) {
  List list;
  list.capacity = capacity;
  list.where = where;
  list.count = outcome.room<uint32_t>(1);
  if (where == List::Values::kPacked) {
    list.indices = reinterpret_cast<uint32_t*>(
        outcome.room<std::byte>(alignUp(capacity * sizeof(uint32_t), 16) + capacity * sizeof(A)));
  } else {
    list.indices = outcome.room<uint32_t>(capacity);
    if (where == List::Values::kApart) list.values = outcome.room<A>(capacity);
  }
  return list;
}

// Slots behind a list's last entry may hold anything.
template <class A>
void forgetSpare(const List& list) {
  if (list.indices == nullptr) return;
  std::memset(list.indices + *list.count, 0xa5, (list.capacity - *list.count) * sizeof(uint32_t));
  std::memset(static_cast<A*>(list.values) + *list.count, 0xa5, (list.capacity - *list.count) * sizeof(A));
}

template <class A>
void checkMergeCut(uint64_t n, size_t ranks, uint64_t limit, uint64_t key) {
  TwoBackEnds both(needFor(n, ranks));
  uint32_t turn = 0;
  for (const auto& [name, lists] : listsOfAllKinds<A>(ranks, n, 5 * n + ranks)) {
    CAPTURE(name, ranks, n, limit, key);
    const uint64_t room = lists.sum(Combine::kAdd).size();
    const Outcome expected = both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      MergeCutArgs args;
      args.lists = lists.views();
      args.accumulateType = Element<A>::kType;
      args.n = n;
      args.limit = &limit;
      if (turn % 2 == 0) args.key = &key;
      args.scratch = listIn<A>(outcome, room, List::Values::kApart);
      args.target = listIn<A>(outcome, room, turn % 3 == 0 ? List::Values::kPacked : List::Values::kApart);
      if (turn % 3 != 1) {
        args.dropped = listIn<A>(outcome, room, List::Values::kApart);
        args.droppedScale = 0.3;
      }
      if (turn % 2 == 1) args.keptKey = outcome.room<uint64_t>(1);
      outcome.end(kernels.mergeCut(args, stream));
      forgetSpare<A>(args.dropped);
    });
    CHECK(expected.status().ok());
    ++turn;
  }
}

TEST_CASE("mergeCut keeps what the host keeps") {
  for (const uint64_t n : {uint64_t{1}, uint64_t{999}, uint64_t{12345}})
    for (const size_t ranks : {1, 2, 5})
      for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, n / 60 + 1, n / 5, n}) {
        checkMergeCut<float>(n, ranks, limit, Magnitude<float>::of(0.7f));
        if (ranks == 2) checkMergeCut<double>(n, ranks, limit, Magnitude<double>::of(0.7));
      }
}

// Boundaries in every digit: magnitudes that differ in their lowest bits only, and ties at the boundary.
TEST_CASE("mergeCut finds boundaries between neighbouring magnitudes") {
  constexpr uint64_t kN = 5000;
  TwoBackEnds both(needFor(kN, 1));
  const auto run = [&]<class A>(A) {
    using Key = typename Magnitude<A>::Key;
    for (const uint32_t spread : {1u, 3u, 700u, 4000u}) {
      Entries<A> entries;
      for (uint32_t i = 0; i < kN; ++i) {
        const Key key = Magnitude<A>::of(A{1}) + (i * 2654435761u >> 7) % spread;
        entries.indices.push_back(i);
        entries.values.push_back(i % 2 == 0 ? Magnitude<A>::value(key) : -Magnitude<A>::value(key));
      }
      Lists<A> lists;
      lists.add(entries);
      for (const uint64_t limit : {uint64_t{1}, uint64_t{1234}, kN - 1, kN})
        both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
          MergeCutArgs args;
          args.lists = lists.views();
          args.accumulateType = Element<A>::kType;
          args.n = kN;
          args.limit = &limit;
          args.scratch = listIn<A>(outcome, kN, List::Values::kApart);
          args.target = listIn<A>(outcome, limit, List::Values::kPacked);
          args.dropped = listIn<A>(outcome, kN, List::Values::kApart);
          args.keptKey = outcome.room<uint64_t>(1);
          outcome.end(kernels.mergeCut(args, stream));
          forgetSpare<A>(args.dropped);
        });
    }
  };
  run(float{});
  run(double{});
}

TEST_CASE("mergeCut refuses more entries than there can be") {
  constexpr uint64_t kN = 1000;
  TwoBackEnds both(needFor(kN, 2));
  const auto lists = test::someLists<float>(2, kN, 0.2, 1);
  const uint64_t limit = kN;
  both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    MergeCutArgs args;
    args.lists = lists.views();
    args.n = kN;
    args.limit = &limit;
    args.scratch = listIn<float>(outcome, lists.sum(Combine::kAdd).size() - 1, List::Values::kApart);
    args.target = listIn<float>(outcome, kN, List::Values::kApart);
    outcome.end(kernels.mergeCut(args, stream));
  });
}

template <class A>
FrameLayout layoutFor(uint64_t capacity, uint64_t dense) {
  return {capacity, 4, sizeof(A), dense};
}

template <class A>
void checkStream(std::span<const ListView> views, uint64_t first, uint64_t length, uint64_t denseFrom,
                 TwoBackEnds& both) {
  const FrameLayout layout = layoutFor<A>(length, length);
  both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    StreamArgs args;
    args.lists = views;
    args.accumulateType = Element<A>::kType;
    args.first = first;
    args.length = length;
    args.denseFrom = denseFrom;
    args.layout = layout;
    std::vector<std::byte> frame(layout.capacityBytes());
    args.frame = frame.data();
    outcome.end(kernels.stream(args, stream));
    // What lies behind the frame's end is nobody's.
    const uint64_t used = layout.usedBytes(readHeader(frame.data()));
    outcome.copyOf(std::vector<std::byte>(frame.begin(), frame.begin() + static_cast<long>(used)));
  });
}

TEST_CASE("stream makes a list or a run of a sum") {
  for (const uint64_t n : {uint64_t{1}, uint64_t{999}, uint64_t{12345}})
    for (const size_t ranks : {1, 2, 5}) {
      TwoBackEnds both(needFor(n, ranks));
      for (const auto& [name, lists] : listsOfAllKinds<float>(ranks, n, n + ranks)) {
        CAPTURE(name, ranks, n);
        checkStream<float>(lists.views(), 0, n, n / 7 + 1, both);
      }
      const auto doubles = test::someLists<double>(ranks, n, 0.05, n);
      for (const uint64_t denseFrom : {uint64_t{1}, n + 1}) checkStream<double>(doubles.views(), 0, n, denseFrom, both);
    }
}

TEST_CASE("stream adds to runs, and knows where they begin") {
  constexpr uint64_t kFirst = 700, kLength = 9000;
  TwoBackEnds both(needFor(kFirst + kLength, 3));
  std::vector<float> values(kLength);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? -0.0f : static_cast<float>(i) / 7;
  auto entries = test::someEntries<float>(kLength, 0.05, 1);
  for (uint32_t& index : entries.indices) index += kFirst;
  const auto run = ReceivedFrame<float>::run(values);
  const auto list = ReceivedFrame<float>::list(entries);
  checkStream<float>(std::vector<ListView>{run.view(), list.view(), run.view()}, kFirst, kLength, kLength, both);
  checkStream<float>(std::vector<ListView>{list.view(), list.view()}, kFirst, kLength, kLength, both);
  checkStream<float>(std::vector<ListView>{list.view(), list.view()}, kFirst, kLength, 1, both);
}

template <class A>
void checkConcatenate(std::span<const ListPart> parts, uint64_t capacity, TwoBackEnds& both) {
  for (const List::Values where : {List::Values::kPacked, List::Values::kApart})
    both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      outcome.end(kernels.concatenate(parts, Element<A>::kType, listIn<A>(outcome, capacity, where), stream));
    });
}

TEST_CASE("concatenate takes the parts of lists that lie in their ranges") {
  constexpr uint64_t kN = 5000;
  TwoBackEnds both(needFor(kN, 60));
  const auto run = [&]<class A>(A) {
    const auto lists = test::someLists<A>(3, kN, 0.1, 9);
    const uint64_t bounds[] = {0, 1000, 1000, 4321, kN};
    std::vector<ListPart> parts;
    uint64_t entries = 0;
    for (const ListView& list : lists.views()) {
      parts.push_back({list, 17, 2222});
      parts.push_back({list});
      for (size_t b = 0; b + 1 < std::size(bounds); ++b) parts.push_back({list, 0, 0, bounds + b, bounds + b + 1});
      parts.push_back({list, 4000, 100});
      entries += 3 * uint64_t{*list.count};
    }
    checkConcatenate<A>(parts, entries, both);
    checkConcatenate<A>(std::span(parts).first(1), entries, both);
    checkConcatenate<A>({}, entries, both);
    checkConcatenate<A>(parts, 300, both);
    std::vector<ListPart> many;
    for (uint64_t i = 0; i < 270; ++i) many.push_back({lists.views()[i % 3], i * 10, i * 10 + 25});
    checkConcatenate<A>(many, entries, both);
  };
  run(float{});
  run(double{});
}

template <class A>
void checkJoin(std::span<const ListPart> parts, uint32_t dense, const FrameLayout& layout, TwoBackEnds& both) {
  both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    JoinArgs args;
    args.parts = parts;
    args.accumulateType = Element<A>::kType;
    args.dense = &dense;
    args.layout = layout;
    std::vector<std::byte> frame(layout.capacityBytes());
    args.frame = frame.data();
    outcome.end(kernels.join(args, stream));
    if (!outcome.status().ok()) return;
    const uint64_t used = layout.usedBytes(readHeader(frame.data()));
    outcome.copyOf(std::vector<std::byte>(frame.begin(), frame.begin() + static_cast<long>(used)));
  });
}

TEST_CASE("join puts lists or runs of neighbouring ranges together") {
  constexpr uint64_t kLow = 1000, kMiddle = 4500, kHigh = 9001;
  TwoBackEnds both(needFor(kHigh, 8));
  const auto run = [&]<class A>(A) {
    const auto entries = test::someEntries<A>(kHigh, 0.05, 3);
    const auto list = ReceivedFrame<A>::list(entries);
    std::vector<A> values(kHigh - kMiddle);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<A>(i % 11) - 5;
    const auto received = ReceivedFrame<A>::run(values);
    ListPart asList{list.view(), kLow, kMiddle};
    ListPart asRun{received.view(), kMiddle, kHigh};
    std::vector<ListPart> parts = {asList, asRun};
    checkJoin<A>(parts, 1, layoutFor<A>(500, kHigh), both);
    checkJoin<A>(parts, 1, layoutFor<A>(500, 100), both);
    parts[1].high += 3;  // values that the run does not have
    checkJoin<A>(parts, 1, layoutFor<A>(500, 2 * kHigh), both);
    // A frame that may be one or the other is taken as both.
    parts.assign(2, asRun);
    parts[0].list.form = ListView::Form::kList;
    parts[1].list.form = ListView::Form::kRun;
    parts[1].list.runBegin = 10;
    parts[1].list.runLength = 4000;
    parts[1].high = kMiddle + 4000;
    parts.push_back(asList);
    checkJoin<A>(parts, 1, layoutFor<A>(500, 2 * kHigh), both);
    parts = {asList, {list.view(), kMiddle, kHigh}, {list.view(), 0, kHigh}};
    parts[2].list.form = ListView::Form::kRun;
    parts[0].list.form = ListView::Form::kList;
    checkJoin<A>(parts, 0, layoutFor<A>(entries.indices.size(), kHigh), both);
    checkJoin<A>(parts, 0, layoutFor<A>(10, kHigh), both);
  };
  run(float{});
  run(double{});
}

TEST_CASE("gather, sumValues, zeroAt and settle") {
  constexpr uint64_t kN = 9001;
  TwoBackEnds both(needFor(kN, 30));
  const auto run = [&]<class A>(A) {
    const auto type = Element<A>::kType;
    const auto lists = test::someLists<A>(5, kN, 0.1, 4, Fill::kHostile);
    const auto all = test::someEntries<A>(kN, 1, 5);
    both.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      A* const acc = outcome.copyOf(all.values);
      const List to[] = {listIn<A>(outcome, kN, List::Values::kApart), listIn<A>(outcome, kN, List::Values::kApart)};
      outcome.end(kernels.gather(acc, type, all.values.size(), lists.views().first(2), to, stream));
      kernels.zeroAt(acc, type, all.values.size(), lists.views()[1], nullptr, stream);
      std::vector<const void*> from(20, all.values.data());
      const uint32_t count = 5000;
      for (const size_t ranks : {1, 3, 20})
        kernels.sumValues(std::span(from).first(ranks), type, &count, listIn<A>(outcome, count, List::Values::kApart),
                          stream);
      kernels.sumValues(std::vector<const void*>(270, all.values.data()), type, &count,
                        listIn<A>(outcome, count, List::Values::kApart), stream);
      SettleArgs args;
      args.acc = acc;
      args.accumulateType = type;
      args.n = all.values.size();
      args.sum = lists.views()[0];
      args.sent = lists.views().subspan(1, 2);
      args.dropped = lists.views().subspan(2, 3);
      kernels.settle(args, stream);
      args.lost = outcome.room<uint64_t>(1, 0);
      kernels.settle(args, stream);
    });
  };
  run(float{});
  run(double{});
}

TEST_CASE("while something is wrong acc stays as it is") {
  constexpr uint64_t kN = 1000;
  TwoBackEnds both(needFor(kN, 2));
  const auto lists = test::someLists<float>(1, kN, 0.1, 4);
  Entries<float> bad = lists.entries()[0];
  bad.indices.back() = kN;
  Lists<float> spoiled;
  spoiled.add(bad);
  std::vector<float> acc(kN, 3);
  std::vector<float> values(kN);
  uint32_t count = 7;
  List to;
  to.values = values.data();
  to.count = &count;
  Kernels& device = both.device();
  (void)device.gather(acc.data(), sparsecollFloat32, kN, spoiled.views().first(1), {&to, 1}, both.stream());
  device.zeroAt(acc.data(), sparsecollFloat32, kN, lists.views()[0], nullptr, both.stream());
  const SettleArgs args{acc.data(), sparsecollFloat32, kN, lists.views()[0], lists.views(), lists.views()};
  device.settle(args, both.stream());
  CHECK(std::count(acc.begin(), acc.end(), 3.0f) == static_cast<long>(kN));
  // What ends a communicator is not forgotten when it was told.
  for (int told = 0; told < 2; ++told)
    CHECK(device.findings(both.stream(), Deadline::in(600000)).result() == sparsecollCorrupted);
  device.zeroAt(acc.data(), sparsecollFloat32, kN, lists.views()[0], nullptr, both.stream());
  CHECK(std::count(acc.begin(), acc.end(), 3.0f) == static_cast<long>(kN));

  TwoBackEnds sane(needFor(kN, 2));
  sane.device().zeroAt(acc.data(), sparsecollFloat32, kN, lists.views()[0], nullptr, sane.stream());
  CHECK(std::count(acc.begin(), acc.end(), 0.0f) == static_cast<long>(*lists.views()[0].count));
}

// An abort, for instance, is found at any moment: a step that half its threads carry out would lose entries.
TEST_CASE("what was decided is carried out whole, whatever is found meanwhile") {
  constexpr uint64_t kN = 1000;
  TwoBackEnds both(needFor(kN, 2));
  const auto lists = test::someLists<float>(1, kN, 0.1, 4);
  const auto length = static_cast<long>(*lists.views()[0].count);
  Kernels& device = both.device();
  Control control{};
  REQUIRE(device.conclude({&control, {5, 0}, false, false}, both.stream()).ok());
  Entries<float> bad = lists.entries()[0];
  bad.indices.back() = kN;
  Lists<float> spoiled;
  spoiled.add(bad);
  std::vector<float> acc(kN, 3), settled(kN, 3), values(kN);
  uint32_t count = 0;
  List to;
  to.values = values.data();
  to.count = &count;
  (void)device.gather(acc.data(), sparsecollFloat32, kN, spoiled.views().first(1), {&to, 1}, both.stream());
  device.zeroAt(acc.data(), sparsecollFloat32, kN, lists.views()[0], &control, both.stream());
  CHECK(std::count(acc.begin(), acc.end(), 0.0f) == length);
  SettleArgs args{settled.data(), sparsecollFloat32, kN, lists.views()[0], lists.views(), {}};
  args.decision = &control;
  device.settle(args, both.stream());
  CHECK(std::count(settled.begin(), settled.end(), 0.0f) == length);
  CHECK(device.findings(both.stream(), Deadline::in(600000)).result() == sparsecollCorrupted);
  // The next step comes to nothing.
  REQUIRE(device.conclude({&control, {6, 0}, false, false}, both.stream()).ok());
  std::vector<float> next(kN, 3);
  device.zeroAt(next.data(), sparsecollFloat32, kN, lists.views()[0], &control, both.stream());
  CHECK(std::count(next.begin(), next.end(), 3.0f) == static_cast<long>(kN));
}

}  // namespace
}  // namespace sparsecoll
