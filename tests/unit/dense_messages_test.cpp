// A rank's dense sum over a table of the test's own, whose requests can go on in other memory: what is sent lies in the
// caller's vectors, and once the operation has ended, however it has, nothing that is under way does.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "host/host_kernels.h"
#include "tests/support/catch.h"
#include "transports/common.h"
#include "transports/engine.h"
#include "transports/engine/dense.h"
#include "transports/engine/envelope.h"
#include "transports/engine/tag.h"

namespace sparsecoll::engine {
namespace {

constexpr uint64_t kLength = 393216;  // parts of whole segments, of which more have to move than can at once
constexpr uint64_t kShort = 6000;     // parts of one segment each, which no frame holds as a whole
constexpr uint64_t kInFrame = (kSlotBytes - sizeof(Envelope) - kFrameHeaderBytes) / sizeof(float);

struct Request {
  int peer, tag;
  bool sends;
  std::byte* data;
  size_t bytes;
  bool done = false, begun = true;  // begun: of a send
  size_t number = 0;                // of the sends to the peer with this tag
  int looks = 0;
  const std::byte* at = data;          // where it was posted
  std::vector<std::byte> posted = {};  // what a send was to send

  bool isIn(const std::vector<float>& memory) const {
    const auto* const begin = reinterpret_cast<const std::byte*>(memory.data());
    return at >= begin && at + bytes <= begin + memory.size() * sizeof(float);
  }
  bool isAsPosted() const { return std::equal(posted.begin(), posted.end(), data); }
};

// Peers that mean the same sum, and of which each entry is 1. What else is sent or comes the test decides.
struct Peers {
  bool comes[SPARSECOLL_ENGINE_TAGS] = {}, leaves[SPARSECOLL_ENGINE_TAGS] = {};
  int late = 0;                  // looks at a send before it is done
  int slow = -1;                 // a peer to which no contribution has begun before it is done
  size_t mostToSlow = SIZE_MAX;  // contributions that leave to it
  uint32_t inPlace = 0;
  uint64_t inFrames = 0;      // elements that come from each peer as the ranks meet
  size_t longest = SIZE_MAX;  // bytes of a contribution's message that comes
  std::vector<int> announced;
  int lastFar = 1;                 // ranks from 1 to this one are on other hosts
  std::vector<uint64_t> expected;  // bytes that are to leave this host
  std::vector<size_t> frames;      // in how many
  // At each call of progress: places for contributions that were posted, and contributions that were sent.
  std::vector<std::pair<int64_t, int64_t>> progressed;
  std::deque<Request> requests;

  sparsecollEngine_t table() {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
      auto* const from = static_cast<std::byte*>(const_cast<void*>(data));
      return self(user).post({peer, tag, true, from, bytes}, request);
    };
    table.irecv = [](void* user, int peer, int tag, void* data, size_t capacity, void** request) {
      return self(user).post({peer, tag, false, static_cast<std::byte*>(data), capacity}, request);
    };
    table.test = [](void* user, void** request, int* done, size_t* bytes) {
      auto& one = *static_cast<Request*>(*request);
      const bool* const goes = one.sends ? self(user).leaves : self(user).comes;
      const bool stays =
          one.tag == kContributions && one.peer == self(user).slow && one.number >= self(user).mostToSlow;
      one.done = one.done || (goes[one.tag] && (!one.sends || (!stays && ++one.looks > self(user).late)));
      *done = one.done ? 1 : 0;
      *bytes = one.done && !one.sends ? one.bytes : 0;
      return 0;
    };
    table.progress = [](void* user) {
      const auto count = [&](bool sends) {
        return std::ranges::count_if(
            self(user).requests, [&](const Request& one) { return one.tag == kContributions && one.sends == sends; });
      };
      self(user).progressed.emplace_back(count(false), count(true));
      return 0;
    };
    table.cancel = [](void*, void** request) {
      static_cast<Request*>(*request)->done = true;
      return 0;
    };
    return table;
  }

  bool anyUsesOf(const std::vector<float>& memory) const {
    const auto* const begin = reinterpret_cast<const std::byte*>(memory.data());
    return std::ranges::any_of(requests, [&](const Request& one) {
      return !one.done && one.data + one.bytes > begin && one.data < begin + memory.size() * sizeof(float);
    });
  }
  std::vector<const Request*> sends(int tag) const {
    std::vector<const Request*> found;
    for (const Request& one : requests)
      if (one.sends && one.tag == tag) found.push_back(&one);
    return found;
  }

 private:
  static Peers& self(void* user) { return *static_cast<Peers*>(user); }

  int post(const Request& wanted, void** request) {
    const size_t number = static_cast<size_t>(std::ranges::count_if(
        requests, [&](const Request& one) { return one.sends && one.peer == wanted.peer && one.tag == wanted.tag; }));
    requests.push_back(wanted);
    Request& one = requests.back();
    *request = &one;
    one.number = number;
    one.begun = one.tag != kContributions || one.peer != slow;
    if (one.sends) one.posted.assign(one.data, one.data + one.bytes);
    if (one.sends || one.tag == kNotices) return 0;
    if (one.tag == kEnvelopes) return announce(one);
    if (one.tag == kContributions) one.bytes = std::min(one.bytes, longest);
    const std::vector<float> ones(one.bytes / sizeof(float), 1);
    if (comes[one.tag]) std::memcpy(one.data, ones.data(), one.bytes);
    return 0;
  }

  int announce(Request& one) {
    if (std::ranges::find(announced, one.peer) != announced.end()) return 0;
    announced.push_back(one.peer);
    FrameHeader header{1, 0, 0, 0, 0, inPlace, 0};
    header.checksum = frameChecksum(reinterpret_cast<const std::byte*>(&header), kFrameHeaderBytes, true);
    std::byte* const frame = one.data + sizeof(Envelope);
    std::memcpy(frame, &header, sizeof header);
    FrameLayout layout;
    layout.valueBytes = sizeof(float);
    layout.denseCount = inFrames;
    const std::vector<float> ones(inFrames, 1);
    std::memcpy(frame + kFrameHeaderBytes, ones.data(), inFrames * sizeof(float));
    if (inFrames != 0) sealRun(header, layout, frame);
    const auto bytes = static_cast<uint32_t>(layout.usedBytes(readHeader(frame)));
    seal({EnvelopeKind::kFrame, 0, 1, 0, bytes, bytes, 0}, one.data);
    one.bytes = sizeof(Envelope) + bytes;
    one.done = true;
    return 0;
  }
};

struct Rank {
  Rank(Peers& peers, int ranks, std::shared_ptr<Pace> pace = nullptr, int rank = 0) {
    EngineSetup setup;
    setup.rank = rank;
    setup.ranks = ranks;
    setup.kernels = host::makeHostKernels();
    setup.budget = std::make_shared<MemoryBudget>(0);
    setup.pace = std::move(pace);
    setup.calls.move = [](void* request, std::byte* to) { static_cast<Request*>(request)->data = to; };
    setup.calls.hasBegun = [](const void* request) {
      const auto* const one = static_cast<const Request*>(request);
      return one->begun || one->done;
    };
    setup.calls.leavesHost = [](const void* user, int peer) {
      return peer > 0 && peer <= static_cast<const Peers*>(user)->lastFar;
    };
    setup.calls.expect = [](void* user, uint64_t bytes, size_t frames) {
      static_cast<Peers*>(user)->expected.push_back(bytes);
      static_cast<Peers*>(user)->frames.push_back(frames);
    };
    auto made = makeTransport(setup, peers.table(), nullptr);
    REQUIRE(made.ok());
    transport = std::move(*made);
  }

  // refused: the operation does not go on, though its sum has gone well.
  Status sum(const std::vector<float>& in, std::vector<float>& out, uint64_t timeoutMs = 200, bool refused = false) {
    DenseArgs args;
    args.in = in.data();
    args.out = out.data();
    args.n = in.size();
    args.accumulate = accumulate;
    Operation operation;
    operation.sequence = 1;
    operation.deadline = Deadline::in(timeoutMs);
    SC_TRY(transport->begin(operation));
    const Status summed = transport->allReduce(operation, args, {});
    if (refused) transport->refuse(operation, fail(sparsecollMismatch, "the test's").failure());
    transport->end(operation);
    return Status(summed.failure());
  }

  std::unique_ptr<Transport> transport;
  bool accumulate = false;
};

// Peers that begin contributions of one segment in frames, to an owner's part of this length.
void beginInFrames(Peers& peers, uint64_t part) {
  peers.inFrames = std::min(part, kInFrame);
  peers.longest = (part - peers.inFrames) * sizeof(float);
}

std::vector<float> counted(uint64_t length = kLength) {
  std::vector<float> values(length);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  return values;
}

}  // namespace

TEST_CASE("contributions leave from the caller's vector, and from the library's memory once the sum has failed") {
  const bool paced = GENERATE(false, true);  // most wait for their time, and leave when the sum is given up
  const uint64_t length = GENERATE(kLength, kShort);
  CAPTURE(paced, length);
  const size_t most = length == kLength ? 8 : 2;  // as many as may be under way, or all rests
  Peers peers;
  peers.leaves[kEnvelopes] = true;
  if (length == kShort) beginInFrames(peers, kShort / 3);
  Rank rank(peers, 3, paced ? std::make_shared<Pace>(length == kLength ? 1'000'000 : 20'000) : nullptr);
  std::vector<float> in = counted(length), out(length, -1);
  CHECK(rank.sum(in, out).result() == sparsecollTimeout);
  CHECK_FALSE(peers.anyUsesOf(in));
  CHECK_FALSE(peers.anyUsesOf(out));
  const std::vector<const Request*> sent = peers.sends(kContributions);
  REQUIRE(sent.size() == most);
  const auto fromIn =
      static_cast<size_t>(std::ranges::count_if(sent, [&](const Request* one) { return one->isIn(in); }));
  CHECK((paced ? fromIn < most : fromIn == most));
  std::ranges::fill(in, -1.0f);
  for (const Request* const one : sent) CHECK(one->isAsPosted());
}

TEST_CASE("each rank sends to the next one first, so that not all begin with the same") {
  for (int rank = 0; rank < 4; ++rank) {
    Peers peers;
    peers.leaves[kEnvelopes] = true;
    Rank one(peers, 4, nullptr, rank);
    std::vector<float> out(kLength);
    CHECK(one.sum(counted(), out, 50).result() == sparsecollTimeout);
    const std::vector<const Request*> sent = peers.sends(kEnvelopes);
    REQUIRE(sent.size() >= 3);
    for (int step = 1; step < 4; ++step) CHECK(sent[static_cast<size_t>(step - 1)]->peer == (rank + step) % 4);
  }
}

TEST_CASE("before a sum the engine is told how much of it leaves the host, contributions and sums") {
  Peers peers;
  peers.leaves[kEnvelopes] = true;
  Rank rank(peers, 3);
  std::vector<float> out(kLength);
  CHECK(rank.sum(counted(), out, 50).result() == sparsecollTimeout);
  REQUIRE(peers.expected.size() == 2);
  CHECK(peers.expected[0] < 100);  // as the ranks meet
  CHECK(peers.expected[1] == (densePart(kLength, 3, 0).length() + densePart(kLength, 3, 1).length()) * sizeof(float));
  // A sum waits for word of who it goes to, even if that is one.
  CHECK(peers.frames == std::vector<size_t>{1, 0});
}

TEST_CASE("what goes to several hosts before a sum goes out in a frame to each") {
  Peers peers;
  peers.leaves[kEnvelopes] = true;
  peers.lastFar = 2;
  Rank rank(peers, 4);
  std::vector<float> out(kLength);
  CHECK(rank.sum(counted(), out, 50).result() == sparsecollTimeout);
  CHECK(peers.frames == std::vector<size_t>{2, 0});
}

TEST_CASE("contributions of one segment begin in the frames by which ranks meet, and their rest is a message") {
  Peers peers;
  std::ranges::fill(peers.leaves, true);
  peers.comes[kContributions] = peers.comes[kSums] = true;
  const auto part = densePart(kShort, 3, 0);
  beginInFrames(peers, part.length());
  Rank rank(peers, 3);
  const std::vector<float> in = counted(kShort);
  std::vector<float> out(kShort, -1);
  REQUIRE(rank.sum(in, out, 60000).ok());
  for (uint64_t i = 0; i < kShort; ++i) REQUIRE(out[i] == (i < part.end ? in[i] + 2 : 1));
  const auto isOf = [&](const Request* one, uint64_t element, uint64_t count, const std::byte* values) {
    const float* const right = in.data() + densePart(kShort, 3, one->peer).begin + element;
    return std::memcmp(values, right, count * sizeof(float)) == 0;
  };
  const std::vector<const Request*> frames = peers.sends(kEnvelopes), rests = peers.sends(kContributions);
  REQUIRE(frames.size() == 2);
  REQUIRE(rests.size() == 2);
  for (const Request* const one : frames) {
    CHECK(one->bytes == sizeof(Envelope) + kFrameHeaderBytes + kInFrame * sizeof(float));
    CHECK(isOf(one, 0, kInFrame, one->posted.data() + sizeof(Envelope) + kFrameHeaderBytes));
  }
  for (const Request* const one : rests) {
    CHECK(one->isIn(in));
    const uint64_t rest = densePart(kShort, 3, one->peer).length() - kInFrame;
    CHECK(one->bytes == rest * sizeof(float));
    CHECK(isOf(one, kInFrame, rest, one->posted.data()));
  }
  REQUIRE(peers.expected.size() == 2);  // rank 1 is on another host: its contribution's rest, and this rank's sum
  CHECK(peers.expected[1] == (densePart(kShort, 3, 1).length() - kInFrame + part.length()) * sizeof(float));
}

TEST_CASE("a part that a frame holds as a whole needs no message, beside one that needs it") {
  Peers peers;
  std::ranges::fill(peers.leaves, true);
  peers.comes[kContributions] = true;
  const uint64_t own = GENERATE(uint64_t{0}, kInFrame, kInFrame + 1, 2 * kInFrame);
  const uint64_t other = 2 * kInFrame;
  CAPTURE(own);
  beginInFrames(peers, own);
  Rank rank(peers, 2);
  const std::vector<float> in = counted(own + other);
  std::vector<float> out(own, -1);
  const int members[] = {0, 1};
  const Range parts[] = {{0, own}, {own, own + other}};
  AmongArgs args;
  args.dense.in = in.data();
  args.dense.out = out.data();
  args.dense.n = in.size();
  args.members = members;
  args.parts = parts;
  args.half = AmongArgs::Half::kSum;
  Operation operation;
  operation.sequence = 1;
  operation.deadline = Deadline::in(60000);
  REQUIRE(rank.transport->begin(operation).ok());
  REQUIRE(rank.transport->sumAmong(operation, args, {}).ok());
  rank.transport->end(operation);
  for (uint64_t i = 0; i < own; ++i) REQUIRE(out[i] == in[i] + 1);
  const std::vector<const Request*> rests = peers.sends(kContributions);
  REQUIRE(rests.size() == 1);
  CHECK(rests[0]->bytes == (other - kInFrame) * sizeof(float));
  const auto places =
      std::ranges::count_if(peers.requests, [](const Request& one) { return !one.sends && one.tag == kContributions; });
  CHECK(places == (own > kInFrame ? 1 : 0));
}

TEST_CASE("all peers have word of what they may send before any contribution leaves") {
  Peers peers;
  peers.leaves[kEnvelopes] = true;
  Rank rank(peers, 3, nullptr, 1);
  std::vector<float> out(kLength);
  CHECK(rank.sum(counted(), out, 50).result() == sparsecollTimeout);
  CHECK(std::ranges::count(peers.progressed, std::pair<int64_t, int64_t>(8, 0)) == 1);
  const auto isPlace = [](const Request& one) { return !one.sends && one.tag == kContributions; };
  CHECK(std::ranges::find_if(peers.requests, isPlace)->peer == 0);  // which is to send to this rank first
  const auto firstSend =
      std::ranges::find_if(peers.requests, [](const Request& one) { return one.sends && one.tag == kContributions; });
  REQUIRE(firstSend != peers.requests.end());
  for (const int peer : {0, 2})
    for (const Tag tag : {kContributions, kSums}) {
      const auto posted = std::count_if(peers.requests.begin(), firstSend, [&](const Request& one) {
        return !one.sends && one.tag == tag && one.peer == peer;
      });
      CHECK(posted == 4);
    }
}

TEST_CASE("first contributions leave in turn: the next rank's has to have begun before another's does") {
  const auto sentTo = [](int slow, int peer) {
    Peers peers;
    peers.leaves[kEnvelopes] = true;
    peers.slow = slow;
    Rank rank(peers, 3, nullptr, 1);
    std::vector<float> out(kLength);
    CHECK(rank.sum(counted(), out, 50).result() == sparsecollTimeout);
    return std::ranges::count_if(peers.sends(kContributions), [&](const Request* one) { return one->peer == peer; });
  };
  CHECK(sentTo(2, 2) == 4);
  CHECK(sentTo(2, 0) == 0);
  CHECK(sentTo(0, 2) == 4);
  CHECK(sentTo(0, 0) == 4);
}

// The next rank may wait for another one to get this rank's.
TEST_CASE("once the first has left, later contributions to the same rank keep nobody waiting") {
  Peers peers;
  peers.leaves[kEnvelopes] = peers.leaves[kContributions] = true;
  peers.late = 2;
  peers.slow = 1;
  peers.mostToSlow = 4;
  peers.comes[kContributions] = peers.comes[kSums] = true;
  Rank rank(peers, 3);
  std::vector<float> out(kLength);
  CHECK(rank.sum(counted(), out, 200).result() == sparsecollTimeout);
  const std::vector<const Request*> sent = peers.sends(kContributions);
  CHECK(std::ranges::count_if(sent, [](const Request* one) { return one->peer == 1; }) == 8);
  CHECK(std::ranges::count_if(sent, [](const Request* one) { return one->peer == 2; }) == 8);
}

TEST_CASE("sums come to the caller's vector and leave from there") {
  Peers peers;
  peers.leaves[kEnvelopes] = peers.leaves[kContributions] = true;
  peers.comes[kContributions] = peers.comes[kSums] = true;
  Rank rank(peers, 3);
  const std::vector<float> in = counted();
  std::vector<float> out(kLength, -1);
  peers.leaves[kSums] = true;
  REQUIRE(rank.sum(in, out, 60000).ok());
  const auto part = densePart(kLength, 3, 0);
  for (uint64_t i = 0; i < kLength; ++i) REQUIRE(out[i] == (i < part.end ? in[i] + 2 : 1));
  const auto isSum = [](const Request& one) { return one.tag == kSums; };
  CHECK(std::ranges::count_if(peers.requests, isSum) ==
        2 * (8 + 8));  // of two peers' parts, and of this rank's to both
  for (const Request& one : peers.requests)
    if (isSum(one)) CHECK(one.isIn(out));
}

TEST_CASE("a sum that out is increased by comes and leaves elsewhere") {
  Peers peers;
  std::ranges::fill(peers.leaves, true);
  peers.comes[kContributions] = peers.comes[kSums] = true;
  Rank rank(peers, 3);
  rank.accumulate = true;
  const std::vector<float> in = counted();
  std::vector<float> out(kLength, 10);
  REQUIRE(rank.sum(in, out, 60000).ok());
  const auto part = densePart(kLength, 3, 0);
  for (uint64_t i = 0; i < kLength; ++i) REQUIRE(out[i] == 10 + (i < part.end ? in[i] + 2 : 1));
  for (const Request& one : peers.requests) {
    CHECK_FALSE(one.isIn(out));
    CHECK((!one.sends || one.tag != kContributions || one.isIn(in)));
  }
}

TEST_CASE("what has not left when its operation ends is the library's") {
  const bool refused = GENERATE(false, true);
  CAPTURE(refused);
  Peers peers;
  std::ranges::fill(peers.leaves, true);
  const Tag stays = GENERATE(kContributions, kSums);
  peers.leaves[stays] = false;
  peers.comes[kContributions] = peers.comes[kSums] = true;
  Rank rank(peers, 3);
  std::vector<float> in(kLength / 2, 5), out(in.size(), -1);  // of a part no more than may be under way
  CHECK(rank.sum(in, out, 200, refused).ok());
  CHECK_FALSE(peers.anyUsesOf(in));
  CHECK_FALSE(peers.anyUsesOf(out));
  in = out = std::vector<float>(in.size(), -1);
  const std::vector<const Request*> sent = peers.sends(stays);
  CHECK(sent.size() == 8);
  for (const Request* const one : sent) CHECK(one->isAsPosted());
  Operation next;
  next.sequence = 2;
  if (!refused) CHECK(rank.transport->begin(next).result() == sparsecollTimeout);
}

TEST_CASE("two ranks: no sum takes the place of a contribution that has not left yet") {
  const bool inPlace = GENERATE(false, true);
  const uint64_t length = GENERATE(kLength, kShort);
  CAPTURE(inPlace, length);
  Peers peers;
  peers.inPlace = inPlace ? 1 : 0;
  peers.leaves[kEnvelopes] = true;
  peers.comes[kContributions] = true;
  if (length == kShort) beginInFrames(peers, length);
  Rank rank(peers, 2);
  std::vector<float> in = counted(length), apart(length, -1);
  const std::vector<float> before = in;
  std::vector<float>& out = inPlace ? in : apart;
  const bool over = length == kShort && !inPlace;  // though the contribution has not left
  CHECK(rank.sum(in, out).result() == (over ? sparsecollSuccess : sparsecollTimeout));
  CHECK_FALSE(peers.anyUsesOf(in));
  const std::vector<const Request*> sent = peers.sends(kContributions);
  CHECK(sent.size() == (length == kLength ? 4 : 1));
  for (const Request* const one : sent) {
    CHECK(one->isIn(in));
    CHECK(one->isAsPosted());
  }
  CHECK(in == before);
  CHECK(apart[0] == (inPlace ? -1 : before[0] + 1));
}

TEST_CASE("two ranks sum in place as contributions leave, each when it can") {
  const int late = GENERATE(0, 1, 5, 17);
  const uint64_t length = GENERATE(kLength, kShort);
  CAPTURE(late, length);
  Peers peers;
  peers.inPlace = 1;
  std::ranges::fill(peers.leaves, true);
  peers.late = late;
  peers.comes[kContributions] = true;
  if (length == kShort) beginInFrames(peers, length);
  Rank rank(peers, 2);
  std::vector<float> values = counted(length);
  const std::vector<float> before = values;
  REQUIRE(rank.sum(values, values, 60000).ok());
  for (uint64_t i = 0; i < length; ++i) REQUIRE(values[i] == before[i] + 1);
  const std::vector<const Request*> sent = peers.sends(kContributions);
  CHECK(sent.size() == (length == kLength ? 12 : 1));
  for (const Request* const one : sent)
    CHECK(std::memcmp(one->posted.data(),
                      &before[static_cast<size_t>(reinterpret_cast<const float*>(one->at) - values.data())],
                      one->bytes) == 0);
}

}  // namespace sparsecoll::engine
