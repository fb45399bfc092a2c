// The host kernels that are one loop each, and frames from seal to open.
#include "host/host_kernels.h"

#include <vector>
#include "tests/support/catch.h"

#include "core/memory.h"
#include "tests/unit/data.h"

namespace sparsecoll {
namespace {

using test::difference;
using test::Fill;
using test::Guarded;
using test::makeVector;

constexpr FrameExpectation kIdentity{7, 99};
constexpr FrameLayout kLayout{8, 4, 4};
constexpr uint64_t kLength = 1000;

// The frames of some ranks, sealed one by one, and the control block that opens them.
class FrameExchange {
 public:
  explicit FrameExchange(size_t ranks) : frames_(ranks), facts_(ranks), poison_(ranks * kMaxNonFiniteIndices) {
    control.n = kLength;
    control.ranks = static_cast<uint32_t>(ranks);
    control.facts = facts_.data();
    control.poison = poison_.data();
  }

  // nonFinite: the first 16 of them travel.
  void seal(size_t rank, uint32_t count, double threshold, const std::vector<uint32_t>& nonFinite,
            FrameExpectation identity = kIdentity) {
    Control sender{};
    sender.announced = threshold;
    sender.isDouble = control.isDouble;
    sender.nonFinite.count = static_cast<uint32_t>(nonFinite.size());
    std::copy_n(nonFinite.begin(), std::min<size_t>(nonFinite.size(), kMaxNonFiniteIndices), sender.nonFinite.indices);
    frames_[rank].assign(kLayout.capacityBytes(), std::byte{0x5c});
    std::memcpy(frames_[rank].data() + offsetof(FrameHeader, count), &count, sizeof count);
    kernels->seal({frames_[rank].data(), kLayout, identity, &sender, withPayload}, {});
  }

  Status open(std::vector<const uint32_t*> counts = {}, bool withControl = true) {
    std::vector<const std::byte*> frames;
    std::vector<uint64_t> bytes;
    for (const auto& frame : frames_) {
      frames.push_back(frame.data());
      bytes.push_back(kLayout.usedBytes(readHeader(frame.data())));
    }
    return kernels->open({frames, bytes, kLayout, kIdentity, withControl ? &control : nullptr, counts, withPayload},
                         {});
  }

  std::vector<uint32_t> poison() const {
    return {poison_.begin(), poison_.begin() + static_cast<int64_t>(control.poisonCount)};
  }

  Control control{};
  bool withPayload = false;
  const std::unique_ptr<Kernels> kernels = host::makeHostKernels();

 private:
  std::vector<std::vector<std::byte>> frames_;
  std::vector<RankFacts> facts_;
  std::vector<uint32_t> poison_;
};

TEST_CASE("open collects what seal wrote") {
  FrameExchange exchange(3);
  exchange.withPayload = GENERATE(false, true);
  exchange.control.isDouble = 1;
  exchange.seal(0, 8, 0.5, {});
  exchange.seal(1, 0, 0, {999, 0});
  exchange.seal(2, 5, 1e200, {17});
  REQUIRE(exchange.open().ok());
  CHECK(exchange.control.delivered == 13);
  CHECK(exchange.control.largest == 8);
  CHECK(exchange.control.anyNonFinite == 1);
  CHECK(exchange.poison() == std::vector<uint32_t>{999, 0, 17});
  CHECK(exchange.control.facts[0].count == 8);
  CHECK(exchange.control.facts[2].count == 5);
  CHECK(exchange.control.facts[0].threshold == 0.5);
  CHECK(exchange.control.facts[2].threshold == Approx(1e200).epsilon(1e-6));

  exchange.seal(1, 1, 0, {});
  exchange.seal(2, 1, 0, {});
  REQUIRE(exchange.open().ok());  // nothing of the step before is left
  CHECK(exchange.control.delivered == 10);
  CHECK(exchange.control.anyNonFinite == 0);
  CHECK(exchange.poison().empty());
}

TEST_CASE("at most 16 non-finite indices travel") {
  FrameExchange exchange(2);
  std::vector<uint32_t> many;
  for (uint32_t i = 0; i < 40; ++i) many.push_back(i * 3);
  exchange.seal(0, 8, 1, many);
  exchange.seal(1, 8, 1, many);
  REQUIRE(exchange.open().ok());
  many.resize(16);
  std::vector<uint32_t> twice = many;
  twice.insert(twice.end(), many.begin(), many.end());
  CHECK(exchange.poison() == twice);
}

TEST_CASE("open names the rank whose frame is wrong") {
  for (size_t wrong = 0; wrong < 3; ++wrong) {
    CAPTURE(wrong);
    FrameExchange exchange(3);
    for (size_t rank = 0; rank < 3; ++rank)
      exchange.seal(rank, 2, 1, {}, {kIdentity.sequence + (rank == wrong ? 1u : 0u), 99});
    const Status status = exchange.open();
    CHECK(status.result() == sparsecollMismatch);
    CHECK(status.failure().peer == static_cast<int>(wrong));
    CHECK(status.failure().field == "sequence");
  }
}

TEST_CASE("hostile non-finite indices are refused before anything is written there") {
  for (const uint32_t index : {uint32_t{kLength}, 0x7fffffffu, 0xffffffffu}) {
    FrameExchange exchange(2);
    exchange.seal(0, 2, 1, {});
    exchange.seal(1, 2, 1, {0, index});
    const Status status = exchange.open();
    CHECK(status.result() == sparsecollCorrupted);
    CHECK(status.failure().peer == 1);
  }
}

TEST_CASE("frames must hold as many values as there are indices") {
  FrameExchange exchange(2);
  exchange.seal(0, 4, 0, {});
  exchange.seal(1, 5, 0, {});
  const uint32_t four = 4;
  const uint32_t five = 5;
  CHECK(exchange.open({&four, &five}, false).ok());
  const Status status = exchange.open({&four, &four}, false);
  CHECK(status.result() == sparsecollCorrupted);
  CHECK(status.failure().peer == 1);
}

TEST_CASE("a frame sealed without a control block carries no facts") {
  std::vector<std::byte> frame(kLayout.capacityBytes(), std::byte{0xff});
  const uint32_t count = 3;
  std::memcpy(frame.data() + offsetof(FrameHeader, count), &count, sizeof count);
  host::makeHostKernels()->seal({frame.data(), kLayout, kIdentity, nullptr, true}, {});
  auto header = checkFrame(frame.data(), frame.size(), kLayout, kIdentity, true);
  REQUIRE(header.ok());
  CHECK(header->threshold == 0);
  CHECK(header->nonFinite == 0);
  CHECK(header->flags == 0);
}

TEMPLATE_TEST_CASE("gather takes values by index and refuses indices out of range", "", float, double) {
  const auto kernels = host::makeHostKernels();
  const auto type = Element<TestType>::kType;
  const auto acc = makeVector<TestType>(Fill::kHostile, kLength, 1);
  std::vector<uint32_t> indices = {0, 1, 77, 999};
  uint32_t count = 4;
  uint32_t gathered = 0;
  Guarded<TestType> values(4);
  const ListView list{indices.data(), nullptr, &count};
  List to;
  to.values = values.data();
  to.count = &gathered;
  REQUIRE(kernels->gather(acc.data(), type, kLength, {&list, 1}, {&to, 1}, {}).ok());
  CHECK(gathered == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(test::sameBits(values[i], acc[indices[i]]));
  for (const uint32_t bad : {1000u, 0xffffffffu}) {
    indices[2] = bad;
    CHECK(kernels->gather(acc.data(), type, kLength, {&list, 1}, {&to, 1}, {}).result() == sparsecollCorrupted);
  }
  count = 0;
  REQUIRE(kernels->gather(acc.data(), type, kLength, {&list, 1}, {&to, 1}, {}).ok());
  CHECK(gathered == 0);
  CHECK(values.intact());
}

TEMPLATE_TEST_CASE("sumValues adds in rank order", "", float, double) {
  const auto kernels = host::makeHostKernels();
  for (const size_t ranks : {1, 2, 3, 8}) {
    std::vector<std::vector<TestType>> values;
    std::vector<const void*> from;
    for (size_t r = 0; r < ranks; ++r) values.push_back(makeVector<TestType>(Fill::kSmooth, 100, r));
    for (const auto& rank : values) from.push_back(rank.data());
    std::vector<TestType> wanted(100);
    for (size_t i = 0; i < 100; ++i)
      for (size_t r = 0; r < ranks; ++r) wanted[i] += values[r][i];
    Guarded<TestType> sum(100);
    const uint32_t count = 100;
    uint32_t written = 0;
    List to;
    to.values = sum.data();
    to.count = &written;
    kernels->sumValues(from, Element<TestType>::kType, &count, to, {});
    CHECK(written == 100);
    CHECK(difference(sum.values(), wanted) == "");
    CHECK(sum.intact());
  }
}

TEST_CASE("a sum of owners is counted by them, one of none by equal parts") {
  const auto kernels = host::makeHostKernels();
  const std::vector<uint32_t> indices = {0, 1, 9, 10, 11, 12, 13, 29, 30, 99};
  const auto count = static_cast<uint32_t>(indices.size());
  const ListView sum{indices.data(), nullptr, &count};
  const std::vector<uint64_t> bounds = {0, 10, 30, 30, 100};
  std::vector<RankFacts> facts(8, {7, 7});
  Control control{};
  control.facts = facts.data();
  struct Row {
    uint32_t ranks, owners, largest;
  };
  // The largest part of a sum: of 3, 5, 0 and 2 entries; as if each rank had one.
  for (const Row& row : {Row{1, 0, 10}, Row{3, 0, 4}, Row{5, 0, 2}, Row{8, 0, 2}, Row{4, 4, 5}, Row{8, 4, 2}}) {
    CAPTURE(row.ranks, row.owners);
    control.ranks = row.ranks;
    control.largest = 99;
    kernels->tally(sum, row.owners != 0 ? bounds.data() : nullptr, row.owners, &control, {});
    CHECK(control.delivered == 10);
    CHECK(control.largest == row.largest);
  }
  const std::vector<uint32_t> counts = {facts[0].count, facts[1].count, facts[2].count, facts[3].count};
  CHECK(counts == std::vector<uint32_t>{3, 5, 0, 2});
  CHECK(facts[4].count == 7);
}

TEMPLATE_TEST_CASE("zeroAt clears what the list names and nothing outside the vector", "", float, double) {
  Guarded<TestType> acc(kLength);
  acc.fill(makeVector<TestType>(Fill::kSmooth, kLength, 2));
  std::vector<TestType> wanted = acc.values();
  const std::vector<uint32_t> indices = {0, 500, 999, 1000, 0xffffffff};
  for (const size_t i : {0, 500, 999}) wanted[i] = 0;
  const uint32_t count = 5;
  host::makeHostKernels()->zeroAt(acc.data(), Element<TestType>::kType, kLength, {indices.data(), nullptr, &count},
                                  nullptr, {});
  CHECK(difference(acc.values(), wanted) == "");
  CHECK(acc.intact());
}

TEMPLATE_TEST_CASE("clearNonFinite clears NaN and Inf and only if there was one", "", float, double) {
  const auto values = makeVector<TestType>(Fill::kHostile, kLength, 3);
  std::vector<TestType> wanted = values;
  for (TestType& x : wanted)
    if (!std::isfinite(x)) x = 0;
  Control control{};
  const auto kernels = host::makeHostKernels();
  std::vector<TestType> acc = values;
  kernels->clearNonFinite(acc.data(), Element<TestType>::kType, kLength, &control, {});
  CHECK(difference(acc, values) == "");
  control.anyNonFinite = 1;
  kernels->clearNonFinite(acc.data(), Element<TestType>::kType, kLength, &control, {});
  CHECK(difference(acc, wanted) == "");
}

TEST_CASE("memory is zeroed and aligned and accounted for") {
  const auto kernels = host::makeHostKernels();
  const auto parent = std::make_shared<MemoryBudget>(1 << 20);
  const auto budget = std::make_shared<MemoryBudget>(4096, parent);
  {
    auto first = kernels->allocate(1000, budget);
    REQUIRE(first.ok());
    CHECK(first->bytes() == 1024);
    CHECK(reinterpret_cast<uintptr_t>(first->as<>()) % 64 == 0);
    CHECK(std::all_of(first->as<>(), first->as<>() + 1024, [](std::byte b) { return b == std::byte{0}; }));
    CHECK(budget->inUse() == 1024);
    CHECK(parent->inUse() == 1024);
    CHECK(kernels->allocate(4000, budget).takeStatusOrOk().result() == sparsecollOutOfMemory);
    CHECK(budget->inUse() == 1024);  // a refusal takes nothing
    CHECK(parent->inUse() == 1024);
    CHECK(kernels->allocate(3072, budget).ok());
  }
  CHECK(budget->inUse() == 0);
  CHECK(parent->inUse() == 0);
  CHECK(budget->peak() == 4096);
  auto nothing = kernels->allocate(0, nullptr);
  REQUIRE(nothing.ok());
  CHECK(nothing->as<>() != nullptr);
}

}  // namespace
}  // namespace sparsecoll
