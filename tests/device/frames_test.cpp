// Frames sealed and opened by device code: the host's bytes, and the host's verdict on everything that is damaged.
#include "core/frame.h"

#include "tests/device/two_back_ends.h"

namespace sparsecoll::test {
namespace {

constexpr FrameExpectation kIdentity{41, 0x0123456789abcdefull};
constexpr uint64_t kLength = 1000;
constexpr uint64_t kRun = 37;

constexpr FrameLayout kLayouts[] = {
    {40, 4, 4},        // pairs
    {40, 4, 8},        // pairs of doubles
    {40, 2, 4},        // pairs inside chunks
    {40, 4, 0},        // indices
    {40, 0, 8},        // numbers
    {40, 0, 2},        // narrow values
    {0, 0, 0},         // a header alone
    {40, 4, 4, kRun},  // pairs or a run
};

WorkspaceNeed someNeed() { return {kLength, 1, 1, 64}; }

// A rank's control block, with what seal and open look at.
struct Block {
  explicit Block(uint64_t ranks, bool isDouble = false) : facts(ranks), poison(ranks * kMaxNonFiniteIndices) {
    control.n = kLength;
    control.ranks = static_cast<uint32_t>(ranks);
    control.isDouble = isDouble ? 1 : 0;
    control.facts = facts.data();
    control.poison = poison.data();
    control.delivered = control.poisonCount = 99;  // of the step before
    control.largest = 99;
  }
  void note(Outcome& outcome) const {
    *outcome.room<uint64_t>(1) = control.delivered;
    *outcome.room<uint64_t>(1) = control.poisonCount;
    *outcome.room<uint32_t>(1) = control.largest;
    *outcome.room<uint32_t>(1) = control.anyNonFinite;
    outcome.copyOf(poison);
    for (const RankFacts& fact : facts) {
      *outcome.room<uint32_t>(1) = fact.count;
      *outcome.room<double>(1) = fact.threshold;
    }
  }
  Control control{};
  std::vector<RankFacts> facts;
  std::vector<uint32_t> poison;
};

Control senderWith(uint32_t nonFinite, double announced, bool isDouble, Random& random) {
  Control sender{};
  sender.announced = announced;
  sender.isDouble = isDouble ? 1 : 0;
  sender.nonFinite.count = nonFinite;
  for (uint32_t& index : sender.nonFinite.indices) index = static_cast<uint32_t>(below(random, kLength));
  return sender;
}

// A frame's memory with a body of noise.
std::byte* noisyFrame(Outcome& outcome, const FrameLayout& layout, uint32_t count, uint16_t flags) {
  auto* const frame = outcome.room<std::byte>(layout.capacityBytes());
  for (uint64_t i = 0; i < layout.capacityBytes(); ++i) frame[i] = static_cast<std::byte>(i * 7 + 1);
  std::memcpy(frame + offsetof(FrameHeader, count), &count, sizeof count);
  std::memcpy(frame + offsetof(FrameHeader, flags), &flags, sizeof flags);
  return frame;
}

TEST_CASE("device code seals the host's frames") {
  TwoBackEnds ends(someNeed());
  Random random(1);
  const bool withPayload = GENERATE(false, true);
  const uint64_t sequence = 12345678901;
  for (const FrameLayout& layout : kLayouts)
    for (const uint32_t nonFinite : {0u, 1u, 16u, 40u})
      for (const bool isDouble : {false, true})
        for (const bool dense : {false, true}) {
          if (dense && layout.denseCount == 0) continue;
          const auto count = static_cast<uint32_t>(dense ? kRun : below(random, layout.capacity + 1));
          CAPTURE(layout.capacity, layout.indexBytes, layout.valueBytes, count, nonFinite, isDouble, dense);
          Control sender = senderWith(nonFinite, nonFinite != 1 ? 0.1 * count : NAN, isDouble, random);
          sender.anyNonFinite = nonFinite % 16 != 0 ? 1 : 0;
          ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
            const auto frame = [&] { return noisyFrame(outcome, layout, count, dense ? kFrameDense : 0); };
            kernels.seal({frame(), layout, kIdentity, nullptr, withPayload}, stream);
            kernels.seal({frame(), layout, kIdentity, &sender, withPayload, true}, stream);
            kernels.seal({frame(), layout, {7, kIdentity.plan, &sequence}, &sender, withPayload, true}, stream);
            if (!dense) kernels.seal({frame(), layout, kIdentity, &sender, withPayload}, stream);
          });
        }
}

TEST_CASE("a frame with more entries than room is told as such, and nothing is written past it") {
  TwoBackEnds ends(someNeed());
  Random random(2);
  Control sender = senderWith(3, 1, false, random);
  const bool withPayload = GENERATE(false, true);
  Outcome outcome;
  std::byte* const frame = noisyFrame(outcome, kLayouts[0], 0xfffffff0u, 0);
  ends.device().seal({frame, kLayouts[0], kIdentity, &sender, withPayload}, ends.stream());
  CHECK(ends.device().findings(ends.stream(), Deadline::in(600000)).result() == sparsecollCorrupted);
  CHECK(checkFrame(frame, kLayouts[0].capacityBytes(), kLayouts[0], kIdentity, withPayload).takeStatusOrOk().result() ==
        sparsecollCorrupted);
}

// The frames of some ranks in memory of the length that they travel in.
class Received {
 public:
  Received(size_t ranks, const FrameLayout& layout, bool withPayload, Random& random, bool relayed = false)
      : layout_(layout), withPayload_(withPayload) {
    const auto kernels = host::makeHostKernels();
    for (size_t r = 0; r < ranks; ++r) {
      Outcome room;
      const auto count = static_cast<uint32_t>(below(random, layout.capacity + 1));
      std::byte* const frame = noisyFrame(room, layout, count, 0);
      const uint64_t kind = below(random, 4);
      Control sender = senderWith(kind < 2 ? 0 : static_cast<uint32_t>(below(random, 20)), 0.5, false, random);
      sender.anyNonFinite = kind == 0 ? 1 : 0;
      kernels->seal({frame, layout, kIdentity, &sender, withPayload, relayed}, {});
      frames_.push_back({frame, frame + layout.usedBytes(readHeader(frame))});
    }
  }

  std::vector<std::byte>& frame(size_t r) { return frames_[r]; }
  FrameHeader header(size_t r) const { return readHeader(frames_[r].data()); }

  // Another header, with the right checksum.
  template <class Change>
  void reseal(size_t r, Change change) {
    FrameHeader header = readHeader(frames_[r].data());
    change(header);
    std::memcpy(frames_[r].data(), &header, sizeof header);
    const uint32_t checksum = frameChecksum(frames_[r].data(), frames_[r].size(), withPayload_);
    std::memcpy(frames_[r].data() + kFrameChecksumOffset, &checksum, sizeof checksum);
  }

  OpenArgs args(Control* control) {
    memory_.clear();
    at_.clear();
    bytes_.clear();
    for (const auto& frame : frames_) {
      memory_.push_back(std::make_unique<std::byte[]>(frame.size()));
      std::copy(frame.begin(), frame.end(), memory_.back().get());
      at_.push_back(memory_.back().get());
      bytes_.push_back(frame.size());
    }
    OpenArgs args;
    args.frames = at_;
    args.bytes = bytes_;
    args.layout = layout_;
    args.expected = kIdentity;
    args.control = control;
    args.withPayload = withPayload_;
    return args;
  }

 private:
  FrameLayout layout_;
  bool withPayload_;
  std::vector<std::vector<std::byte>> frames_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<const std::byte*> at_;
  std::vector<uint64_t> bytes_;
};

// Also of frames that are refused the same is kept: what came before the fault.
sparsecollResult_t opened(TwoBackEnds& ends, Received& received, size_t ranks, bool isDouble = false) {
  const Outcome host = ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
    Block block(ranks, isDouble);
    Status status = kernels.open(received.args(&block.control), stream);
    if (status.ok()) status = kernels.findings(stream, Deadline::in(600000));
    outcome.endKeeping(status);
    block.note(outcome);
  });
  return host.status().result();
}

TEST_CASE("device code opens what the host opens, and collects the same") {
  TwoBackEnds ends(someNeed());
  Random random(3);
  const bool withPayload = GENERATE(false, true);
  for (const size_t ranks : {1u, 2u, 3u, 8u, 17u, 40u, 300u})
    for (const FrameLayout& layout : kLayouts) {
      if (ranks > 17 && (withPayload || &layout != kLayouts)) continue;
      CAPTURE(ranks, layout.capacity, layout.indexBytes, layout.valueBytes);
      Received received(ranks, layout, withPayload, random);
      CHECK(opened(ends, received, ranks, ranks == 2) == sparsecollSuccess);
    }
}

TEST_CASE("device code refuses a header with any byte changed") {
  TwoBackEnds ends(someNeed());
  Random random(4);
  const bool withPayload = GENERATE(false, true);
  for (uint64_t byte = 0; byte < kFrameHeaderBytes; ++byte) {
    CAPTURE(byte);
    Received received(3, kLayouts[0], withPayload, random);
    received.frame(byte % 3)[byte] ^= static_cast<std::byte>(1 + below(random, 255));
    CHECK(opened(ends, received, 3) != sparsecollSuccess);
  }
}

TEST_CASE("device code refuses what a right checksum covers") {
  TwoBackEnds ends(someNeed());
  Random random(5);
  const bool withPayload = GENERATE(false, true);
  const size_t ranks = GENERATE(1u, 3u, 17u);
  const size_t wrong = below(random, ranks);
  const auto refused = [&](const FrameLayout& layout, auto change) {
    Received received(ranks, layout, withPayload, random);
    received.reseal(wrong, change);
    return opened(ends, received, ranks);
  };
  CHECK(refused(kLayouts[0], [](FrameHeader& h) { ++h.sequence; }) == sparsecollMismatch);
  CHECK(refused(kLayouts[0], [](FrameHeader& h) { --h.plan; }) == sparsecollMismatch);
  CHECK(refused(kLayouts[0], [](FrameHeader& h) { h.count = 41; }) == sparsecollCorrupted);
  CHECK(refused(kLayouts[0], [](FrameHeader& h) { h.count = ~0u; }) == sparsecollCorrupted);
  CHECK(refused(kLayouts[0], [](FrameHeader& h) { h.nonFinite = 17; }) == sparsecollCorrupted);
  CHECK(refused(kLayouts[0], [](FrameHeader& h) { h.flags |= kFrameDense; }) == sparsecollCorrupted);
  CHECK(refused(kLayouts[7], [](FrameHeader& h) { h.flags |= kFrameDense; }) == sparsecollCorrupted);
  CHECK(refused(kLayouts[3], [](FrameHeader& h) { h.count = 40, h.nonFinite = 16; }) == sparsecollCorrupted);
}

TEST_CASE("device code refuses frames that are cut off, and names the first rank at fault") {
  TwoBackEnds ends(someNeed());
  Random random(6);
  const bool withPayload = GENERATE(false, true);
  for (const uint64_t left : {0u, 16u, 31u, 32u}) {
    CAPTURE(left);
    Received received(8, kLayouts[0], withPayload, random);
    received.reseal(5, [](FrameHeader& h) { ++h.plan; });
    received.reseal(3, [](FrameHeader& h) { h.count = 7; });
    received.frame(3).resize(left);
    CHECK(opened(ends, received, 8) == sparsecollCorrupted);
  }
}

TEST_CASE("device code refuses a non-finite index out of range, after it took those before it") {
  TwoBackEnds ends(someNeed());
  Random random(7);
  for (const uint32_t place : {0u, 1u, 15u}) {
    Received received(4, kLayouts[0], false, random);
    const auto kernels = host::makeHostKernels();
    Control sender = senderWith(16, 1, false, random);
    sender.nonFinite.indices[place] = kLength;
    received.frame(2).resize(kLayouts[0].capacityBytes());
    kernels->seal({received.frame(2).data(), kLayouts[0], kIdentity, &sender}, {});
    CHECK(opened(ends, received, 4) == sparsecollCorrupted);
  }
}

TEST_CASE("device code holds headers against counts, and payloads against their checksum") {
  TwoBackEnds ends(someNeed());
  Random random(8);
  Received received(5, kLayouts[4], true, random);
  std::vector<uint32_t> counts;
  for (size_t r = 0; r < 5; ++r) counts.push_back(received.header(r).count);
  const auto check = [&] {
    return ends
        .check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
          std::vector<const uint32_t*> at;
          for (const uint32_t& count : counts) at.push_back(&count);
          OpenArgs args = received.args(nullptr);
          args.counts = at;
          outcome.end(kernels.open(args, stream));
        })
        .status()
        .result();
  };
  CHECK(check() == sparsecollSuccess);
  ++counts[3];
  CHECK(check() == sparsecollCorrupted);
  --counts[3];
  received.reseal(1, [](FrameHeader&) {});
  for (size_t r = 0; r < 5; ++r) {
    if (received.frame(r).size() == kFrameHeaderBytes) continue;
    received.frame(r).back() ^= std::byte{1};
    CHECK(check() == sparsecollCorrupted);
    received.frame(r).back() ^= std::byte{1};
  }
}

TEST_CASE("relayed frames are judged by who sent them and by what they tell") {
  TwoBackEnds ends(someNeed());
  Random random(9);
  for (int i = 0; i < 12; ++i) {
    Received received(1, kLayouts[0], i % 2 != 0, random, true);
    if (i % 4 == 1) received.reseal(0, [](FrameHeader& h) { ++h.sequence; });
    const double announced = i % 3 == 0 ? 0.75 : 0.5;
    const Outcome host = ends.check([&](Kernels& kernels, Stream stream, Outcome& outcome) {
      Block block(20);
      block.control.announced = announced;
      block.control.anyNonFinite = i % 5 == 0 ? 1 : 0;
      OpenArgs args = received.args(&block.control);
      args.relayed = true;
      args.sameAnnounced = i % 2 == 0;
      args.peer = 13;
      outcome.end(kernels.open(args, stream));
      block.note(outcome);
    });
    CHECK((host.status().ok() || host.status().failure().peer == 13));
  }
}

}  // namespace
}  // namespace sparsecoll::test
