// Counts and checks of lists, and lists inside chunks, on device code against the host's.
#include <numeric>

#include "collectives/frame_set.h"
#include "collectives/ok_topk.h"
#include "collectives/rules.h"
#include "collectives/split_gather.h"
#include "core/list_span.h"
#include "tests/device/two_back_ends.h"

namespace sparsecoll::test {
namespace {

constexpr uint64_t kLengths[] = {1, 100, 5000};

WorkspaceNeed someNeed() { return {5000, 1, 20, 5000}; }

std::vector<uint64_t> evenBounds(uint64_t n, uint32_t owners) {
  std::vector<uint64_t> bounds;
  for (uint64_t o = 0; o <= owners; ++o) bounds.push_back(n * o / owners);
  return bounds;
}

// Calls test(n, lists) for lists of many kinds.
template <class Test>
void forLists(size_t ranks, Test test) {
  for (const uint64_t n : kLengths)
    for (const NamedLists<float>& named : listsOfAllKinds<float>(ranks, n, n + ranks)) {
      CAPTURE(named.name);
      test(n, named.lists.views());
    }
}

ListView runOf(const uint32_t* count, uint64_t first) {
  static const auto flags = std::make_unique<uint16_t>(uint16_t{kFrameDense});  // devices do not reach constants
  ListView run;
  run.indices = flags.get();  // nothing of a run is read but its length
  run.count = count;
  run.flags = flags.get();
  run.first = first;
  return run;
}

TEST_CASE("device code finds what is out of order or out of range") {
  TwoBackEnds ends(someNeed());
  const auto check = [&](const ListView& list, uint64_t n) {
    return ends
        .check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
          outcome.end(kernels.checkOrder(list, n, stream));
        })
        .status()
        .ok();
  };
  forLists(2, [&](uint64_t n, std::span<const ListView> lists) { CHECK(check(lists[0], n)); });
  const uint64_t n = 3000;
  Entries<float> entries = someEntries<float>(n, 0.3, 5);
  const auto refused = [&](size_t place, uint32_t index) {
    Entries<float> changed = entries;
    changed.indices[place] = index;
    Lists<float> lists;
    lists.add(changed);
    return !check(lists.views()[0], n);
  };
  CHECK(refused(0, ~0u));
  CHECK(refused(entries.indices.size() - 1, static_cast<uint32_t>(n)));
  CHECK(refused(300, entries.indices[299]));
  CHECK(refused(256, entries.indices[257]));
  entries.indices.resize(12);
  entries.values.resize(12);
  Lists<float> lists;
  lists.add(entries);
  ListView parts = lists.views()[0];
  for (parts.parts = 1; parts.parts < 8; ++parts.parts)
    for (parts.part = 0; parts.part < parts.parts; ++parts.part) CHECK(check(parts, n) == (12 % parts.parts == 0));
  const uint32_t length = 40;
  CHECK(check(runOf(&length, 60), 100));
  CHECK(!check(runOf(&length, 61), 100));
}

TEST_CASE("device code holds lists against what their owners may have") {
  TwoBackEnds ends(someNeed());
  const uint32_t owners = GENERATE(1u, 3u, 8u, 17u, 300u);
  forLists(2, [&](uint64_t n, std::span<const ListView> lists) {
    std::vector<Window> blocks(owners);
    for (uint64_t o = 0; o < owners; ++o) blocks[o].begin = n * o / owners, blocks[o].end = n * (o + 1) / owners;
    Control control{};
    control.windows = blocks.data();
    control.windowCount = owners;
    uint64_t largest = 0;
    const ListSpan<float> list = spanOf<float>(lists[0]);
    for (const Window& block : blocks) {
      uint64_t entries = 0;
      for (uint32_t i = 0; i < list.count; ++i)
        entries += list.indices[i] >= block.begin && list.indices[i] < block.end ? 1 : 0;
      largest = std::max(largest, entries);
    }
    for (const uint64_t most : {n, uint64_t{3}, uint64_t{0}}) {
      const std::vector<uint64_t> mosts(owners, most);
      const Outcome host = ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
        ListRuleArgs args;
        args.control = &control;
        args.from = lists[0];
        args.numbers = mosts.data();
        outcome.end(kernels.apply(kSparDLCheckCounts, args, owners, stream));
      });
      CHECK(host.status().ok() == (largest <= most));
    }
  });
}

TEST_CASE("device code cuts regions, tallies owners and counts streams as the host does") {
  TwoBackEnds ends(someNeed());
  const uint32_t ranks = GENERATE(1u, 2u, 8u, 17u, 300u);
  forLists(2, [&](uint64_t n, std::span<const ListView> lists) {
    const std::vector<uint64_t> bounds = evenBounds(n, ranks);
    for (const uint32_t owners : {0u, ranks, (ranks + 1) / 2}) {
      ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
        Control control{};
        std::vector<RankFacts> facts(ranks, {7, 7});
        control.ranks = ranks;
        control.facts = facts.data();
        auto& state = control.collective.as<OkTopkState>();
        state.regions = outcome.room<uint64_t>(ranks + 1);
        state.regionsDue = owners != 0 ? 1 : 0;
        ListRuleArgs cut;
        cut.control = &control;
        cut.from = lists[0];
        outcome.end(kernels.apply(kOkTopkCutRegions, cut, ranks, stream));
        kernels.tally(lists[1], owners != 0 ? bounds.data() : nullptr, owners, &control, stream);
        *outcome.room<uint64_t>(1) = control.delivered;
        *outcome.room<uint32_t>(1) = control.largest;
        for (const RankFacts& fact : facts) {
          *outcome.room<uint32_t>(1) = fact.count;
          *outcome.room<double>(1) = fact.threshold;
        }
      });
    }
  });
  Random random(ranks);
  for (const uint64_t denseFrom : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 40}) {
    std::vector<uint32_t> counts(ranks);
    for (uint32_t& count : counts) count = static_cast<uint32_t>(random());
    ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      Control control{};
      control.ranks = ranks;
      auto& state = control.collective.as<SplitGatherState>();
      state.counts = counts.data();
      state.denseFrom = denseFrom;
      kernels.apply(kSplitGatherNote, &control, stream);
      *outcome.room<uint64_t>(1) = control.delivered;
      *outcome.room<uint32_t>(1) = control.largest;
      *outcome.room<uint32_t>(1) = state.dense;
    });
  }
}

TEST_CASE("device code counts the entries of blocks as the host does") {
  TwoBackEnds ends(someNeed());
  const size_t ranks = GENERATE(1u, 3u, 17u, 260u);
  const auto count = [&](uint64_t n, uint64_t length, uint32_t blocks, std::span<const ListView> lists) {
    return ends
        .check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
          outcome.end(kernels.countBlocks({lists, n, length, blocks, outcome.room<uint32_t>(blocks)}, stream));
        })
        .status()
        .ok();
  };
  for (const uint64_t n : kLengths) {
    const auto lists = someLists<float>(ranks, n, 0.05, n);
    std::vector<ListView> views(lists.views().begin(), lists.views().end());
    const auto run = static_cast<uint32_t>(n / 2);
    views.push_back(runOf(&run, n / 3));
    CHECK(count(n, 1, static_cast<uint32_t>(n), views));
    CHECK(count(n, std::max<uint64_t>(n / 7, 1), static_cast<uint32_t>(n / std::max<uint64_t>(n / 7, 1)), views));
    views.back().first = n;
    CHECK(count(n, 1, static_cast<uint32_t>(n), views) == (run == 0));
  }
  Lists<float> wrong;
  wrong.add({{5, 100}, {1, 1}});
  CHECK(!count(100, 10, 10, wrong.views()));
}

template <class A>
void checkChunks(TwoBackEnds& ends, uint64_t n, uint64_t chunk, uint64_t perChunk) {
  CAPTURE(n, chunk, perChunk);
  Entries<A> entries;
  Random random(n + chunk);
  for (uint64_t begin = 0; begin < n; begin += chunk) {
    const uint64_t length = std::min(chunk, n - begin);
    for (uint64_t j = 0; j < std::min(perChunk, length); ++j) {
      entries.indices.push_back(static_cast<uint32_t>(begin + j * length / std::min(perChunk, length)));
      entries.values.push_back(filled<A>(Fill::kHostile, j, random));
    }
  }
  Lists<A> lists;
  lists.add(entries, n % 2 == 0);
  const uint64_t capacity = entries.indices.size();
  const FrameLayout layout{capacity, 2, sizeof(A)};
  Window first{};  // of the chunks, which are all alike
  first.end = std::min(chunk, n);
  Control control{};
  control.n = n;
  control.isDouble = sizeof(A) == 8 ? 1 : 0;
  control.windows = &first;
  const auto packAndUnpack = [&](uint64_t room, uint64_t limit) {
    first.limit = limit;
    return ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      auto* const frame = outcome.room<std::byte>(layout.capacityBytes());
      ListRuleArgs args;
      args.control = &control;
      args.from = lists.views()[0];
      args.to = listIn(frame, layout);
      outcome.end(kernels.apply(kChunkPack, args, capacity, stream));
      args.from = viewOf(frame);
      args.to = {outcome.room<uint32_t>(capacity), outcome.room<A>(capacity), outcome.room<uint32_t>(1), room,
                 List::Values::kApart};
      outcome.end(kernels.apply(kChunkUnpack, args, capacity, stream));
      if (room < capacity || limit == 0) return;
      CHECK(std::equal(entries.indices.begin(), entries.indices.end(), args.to.indices));
    });
  };
  CHECK(packAndUnpack(capacity, perChunk).status().ok());
  CHECK(packAndUnpack(capacity - 1, perChunk).status().result() == sparsecollCorrupted);
  CHECK(packAndUnpack(capacity, 0).status().result() == sparsecollCorrupted);
}

TEST_CASE("lists inside chunks have the host's bytes, also where the last chunk is short") {
  TwoBackEnds ends(someNeed());
  for (const uint64_t n : {1u, 64u, 1000u, 4099u})
    for (const uint64_t chunk : {16u, 1000u, 4096u})
      for (const uint64_t perChunk : {1u, 5u}) {
        checkChunks<float>(ends, n, chunk, perChunk);
        checkChunks<double>(ends, n, chunk, perChunk);
      }
}

}  // namespace
}  // namespace sparsecoll::test
