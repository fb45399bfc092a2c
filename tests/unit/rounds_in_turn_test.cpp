// Rounds of several ranks, over links of the test's own that carry one long frame at a time to each rank: to whom ranks
// send, and when.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "host/host_kernels.h"
#include "tests/support/catch.h"
#include "transports/common.h"
#include "transports/engine/rounds.h"

namespace sparsecoll::engine {
namespace {

constexpr uint64_t kMostEntries = 20000;
constexpr FrameLayout kLayout{kMostEntries, 4, 4};

// Frames wait until deliver; everything else is there at once.
class Links {
 public:
  explicit Links(uint64_t most, uint64_t heldBackMs = SPARSECOLL_NO_TIMEOUT, int ranksAHost = 1)
      : mostAhead(most), mostHeldBackMs(heldBackMs), perHost(ranksAHost) {}

  struct Request {
    void* data;
    uint64_t bytes;
    bool done = false;
  };
  using Way = std::tuple<int, int, int>;  // from, to, tag

  Request* post(std::deque<Request*>& queue, void* data, uint64_t bytes) {
    requests.push_back(std::make_unique<Request>(Request{data, bytes}));
    queue.push_back(requests.back().get());
    return requests.back().get();
  }
  void match(const Way& way) {
    for (auto &sent = sends[way], &awaited = receives[way]; !sent.empty() && !awaited.empty();) end(sent, awaited);
  }
  // One frame to the rank, from any of those that send to it.
  bool deliver(int to, std::minstd_rand& any) {
    std::vector<Way> ways;
    for (const auto& [way, queue] : sends)
      if (std::get<1>(way) == to && std::get<2>(way) == kFrames && !queue.empty() && !receives[way].empty())
        ways.push_back(way);
    if (ways.empty()) return false;
    const Way& way = ways[any() % ways.size()];
    end(sends[way], receives[way]);
    return true;
  }
  size_t framesTo(int to) const {
    size_t frames = 0;
    for (const auto& [way, queue] : sends)
      if (std::get<1>(way) == to && std::get<2>(way) == kFrames) frames += queue.size();
    return frames;
  }

  const uint64_t mostAhead, mostHeldBackMs;
  const int perHost;
  std::map<Way, std::deque<Request*>> sends, receives;
  std::vector<std::unique_ptr<Request>> requests;

 private:
  static void end(std::deque<Request*>& sent, std::deque<Request*>& awaited) {
    std::memcpy(awaited.front()->data, sent.front()->data, sent.front()->bytes);
    awaited.front()->bytes = sent.front()->bytes;
    for (std::deque<Request*>* queue : {&sent, &awaited}) {
      queue->front()->done = true;
      queue->pop_front();
    }
  }
};

class Rank {
 public:
  Rank(Links& links, int rank, int ranks)
      : links_(links), rank_(rank), state_(setupOf(rank, ranks, links), table()), rounds_(state_, nullptr) {
    REQUIRE(rounds_.open().ok());
  }
  ~Rank() {
    rounds_.close();
    state_.port.close(Deadline::in(0));
  }

  // sizes: entries of the frames to and from each rank; -1: there is none. backwards: the last rank's goes out first.
  void start(const std::vector<int>& to, const std::vector<int>& from, bool backwards = false) {
    operation_.sequence = 1;
    rounds_.begin(operation_);
    frames_.resize(2 * to.size());
    for (std::vector<std::byte>& frame : frames_) frame.resize(kLayout.capacityBytes());
    for (size_t peer = 0; peer < to.size(); ++peer) {
      const FrameHeader header{1, 0, static_cast<uint32_t>(std::max(to[peer], 0)), 0, 0, 0, 0};
      std::memcpy(frames_[peer].data(), &header, sizeof header);
      if (to[peer] >= 0) out_.push_back({static_cast<int>(peer), frames_[peer].data(), kLayout});
      std::vector<std::byte>& landing = frames_[to.size() + peer];
      if (from[peer] >= 0) in_.push_back({static_cast<int>(peer), landing.data(), landing.size(), nullptr, 0});
    }
    if (backwards) std::ranges::reverse(out_);
    rounds_.start(operation_, out_, in_);
  }
  bool has(int peer) const { return rounds_.has(peer); }
  // Whether it is over.
  bool look() {
    bool moved = false;
    if (!over_) {
      auto looked = rounds_.proceed(moved);
      REQUIRE(looked.ok());
      over_ = *looked;
    }
    return over_;
  }

 private:
  static Rank& self(void* user) { return *static_cast<Rank*>(user); }
  static EngineSetup setupOf(int rank, int ranks, const Links& links) {
    EngineSetup setup;
    setup.rank = rank;
    setup.ranks = ranks;
    setup.kernels = host::makeHostKernels();
    setup.budget = std::make_shared<MemoryBudget>(0);
    setup.calls.mostHeldBackMs = links.mostHeldBackMs;
    setup.calls.leavesHost = [](const void* user, int peer) {
      const auto& here = *static_cast<const Rank*>(user);
      return here.rank_ / here.links_.perHost != peer / here.links_.perHost;
    };
    setup.calls.mostAhead = [](const void* user) { return static_cast<const Rank*>(user)->links_.mostAhead; };
    return setup;
  }
  sparsecollEngine_t table() {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
      const Links::Way way{self(user).rank_, peer, tag};
      *request = self(user).links_.post(self(user).links_.sends[way], const_cast<void*>(data), bytes);
      if (tag != kFrames) self(user).links_.match(way);
      return 0;
    };
    table.irecv = [](void* user, int peer, int tag, void* data, size_t capacity, void** request) {
      const Links::Way way{peer, self(user).rank_, tag};
      *request = self(user).links_.post(self(user).links_.receives[way], data, capacity);
      if (tag != kFrames) self(user).links_.match(way);
      return 0;
    };
    table.test = [](void*, void** request, int* done, size_t* bytes) {
      const auto* const one = static_cast<const Links::Request*>(*request);
      *done = one->done ? 1 : 0;
      *bytes = one->done ? one->bytes : 0;
      return 0;
    };
    table.cancel = [](void*, void** request) {
      static_cast<Links::Request*>(*request)->done = true;
      return 0;
    };
    return table;
  }

  Links& links_;
  const int rank_;
  State state_;
  Rounds rounds_;
  Operation operation_;
  std::vector<std::vector<std::byte>> frames_;
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
  bool over_ = false;
};

// Entries of the frame from each rank to each other one; -1: there is none. mixed: every other rank's go out backwards.
// Returns the most frames that were under way to one rank at a time.
size_t mostAtOnce(const std::vector<std::vector<int>>& sizes, uint64_t mostAhead, uint32_t seed, bool mixed = false,
                  int ranksAHost = 1) {
  const auto count = static_cast<int>(sizes.size());
  Links links(mostAhead, SPARSECOLL_NO_TIMEOUT, ranksAHost);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(std::make_unique<Rank>(links, rank, count));
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    std::vector<int> from;
    for (const std::vector<int>& row : sizes) from.push_back(row[rank]);
    ranks[rank]->start(sizes[rank], from, mixed && rank % 2 == 0);
  }
  std::minstd_rand any(seed);
  size_t most = 0;
  for (bool over = false; !over;) {
    for (int looks = 0; looks < 3; ++looks) {  // envelopes, and the frames behind them
      over = true;
      for (const auto& rank : ranks) over = rank->look() && over;
    }
    bool delivered = false;
    for (int rank = 0; rank < count; ++rank) {
      most = std::max(most, links.framesTo(rank));
      delivered = links.deliver(rank, any) || delivered;
    }
    if (!over && !delivered) FAIL("every rank waits for another one");
  }
  return most;
}

std::vector<std::vector<int>> alike(size_t ranks, int entries) {
  std::vector<std::vector<int>> sizes(ranks, std::vector<int>(ranks, entries));
  for (size_t rank = 0; rank < ranks; ++rank) sizes[rank][rank] = -1;
  return sizes;
}

}  // namespace

TEST_CASE("where links are slow each rank gets long frames from one other at a time") {
  for (const size_t ranks : {2u, 3u, 4u, 7u, 8u}) {
    CAPTURE(ranks);
    CHECK(mostAtOnce(alike(ranks, 10000), 0, 1) == 1);
    CHECK(mostAtOnce(alike(ranks, 10000), UINT64_MAX, 1) == ranks - 1);
  }
}

TEST_CASE("a rank may be ahead of what comes by so many bytes") {
  const uint64_t bytes = kLayout.usedBytes({1, 0, 10000, 0, 0, 0, 0});
  CHECK(mostAtOnce(alike(6, 10000), bytes - 1, 1) == 1);
  CHECK(mostAtOnce(alike(6, 10000), bytes, 1) == 2);
  CHECK(mostAtOnce(alike(6, 10000), 3 * bytes - 1, 1) == 3);
}

TEST_CASE("where a rank is late all others soon miss that one alone") {
  constexpr int kRanks = 5;
  Links links(0, 1);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(std::make_unique<Rank>(links, rank, kRanks));
  const int late = 3;
  const auto sizes = alike(kRanks, 10000);
  for (size_t rank = 0; rank < kRanks; ++rank) ranks[rank]->start(sizes[rank], sizes[rank]);
  std::minstd_rand any(1);
  const Deadline deadline = Deadline::in(60000);
  for (bool over = false; !over;) {
    REQUIRE_FALSE(deadline.expired());
    over = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == late) continue;
      REQUIRE_FALSE(ranks[static_cast<size_t>(rank)]->look());
      for (int peer = 0; peer < kRanks; ++peer)
        over = over && (peer == late) != ranks[static_cast<size_t>(rank)]->has(peer);
      (void)links.deliver(rank, any);
    }
  }
}

TEST_CASE("frames of any lengths between any ranks all come, however little a rank may be ahead") {
  std::minstd_rand any(7);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const size_t ranks = 2 + any() % 7;
    auto sizes = alike(ranks, 0);
    for (size_t from = 0; from < ranks; ++from)
      for (size_t to = 0; to < ranks; ++to) {
        constexpr std::array<int, 5> kLengths = {-1, 0, 100, 3000, static_cast<int>(kMostEntries)};
        if (from != to) sizes[from][to] = kLengths[any() % kLengths.size()];
      }
    CHECK(mostAtOnce(sizes, any() % 2 * 30000, static_cast<uint32_t>(round), round % 2 == 0, 1 + round % 3) < ranks);
  }
}

}  // namespace sparsecoll::engine
