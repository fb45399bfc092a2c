// Rounds of the in-process engine: every byte of every schedule, and ranks that run ahead, stop or disagree.
#include <atomic>
#include "tests/support/catch.h"
#include <chrono>

#include "tests/unit/data.h"
#include "tests/unit/engine.h"

namespace sparsecoll {
namespace {

using test::Engine;
using test::Findings;
using test::FrameName;
using test::operate;
using test::operationOf;

constexpr FrameLayout kLayout{13, 4, 4};
constexpr uint64_t kMostRounds = 4;

void pauseMs(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Who sends to whom in a round; the same on every rank because it comes from the round's name.
struct Schedule {
  int ranks;
  uint64_t sequence;
  uint32_t round;
  double density;
  bool sends(int from, int to) const {
    test::Random random(FrameName{from, to, sequence, round}.hash());
    return from != to && test::uniform(random) < density;
  }
};

// One rank of an engine that goes through schedules with its own frames in two sets.
class Player {
 public:
  Player(int rank, Transport& transport, Findings& findings)
      : rank_(rank),
        transport_(transport),
        findings_(findings),
        window_(std::move(*transport.makeWindow(2 * setBytes()))) {}

  Status play(Operation& operation, uint32_t rounds, double density) {
    received_.clear();
    return operate(transport_, operation, [&](Operation& op) {
      for (uint32_t round = 0; round < rounds; ++round)
        SC_TRY(playRound(op, {transport_.ranks(), op.sequence, round, density}));
      // Frames lie where they were until the operation ends, whatever their senders do meanwhile.
      for (const auto& [message, name] : received_) {
        const std::string fault = test::frameFault(message, kLayout, name);
        findings_.expect(fault.empty(), "later: {}", fault);
      }
      return Status();
    });
  }

 private:
  uint64_t frames() const { return kMostRounds * static_cast<uint64_t>(transport_.ranks()); }
  uint64_t setBytes() const { return frames() * kLayout.capacityBytes(); }

  Status playRound(Operation& operation, const Schedule& schedule) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    uint64_t sent = operation.sentBytes;
    uint64_t received = operation.receivedBytes;
    for (int peer = 0; peer < schedule.ranks; ++peer) {
      if (schedule.sends(rank_, peer)) {
        const auto slot =
            (schedule.round % kMostRounds) * static_cast<uint64_t>(schedule.ranks) + static_cast<uint64_t>(peer);
        std::byte* const frame = window_->data() + operation.turn % 2 * setBytes() + slot * kLayout.capacityBytes();
        test::writeFrame(frame, kLayout, {rank_, peer, operation.sequence, schedule.round});
        out.push_back({peer, frame, kLayout});
        sent += kLayout.usedBytes(readHeader(frame));
      }
      if (schedule.sends(peer, rank_)) in.push_back({peer, nullptr, 0, nullptr, 0});
    }
    SC_TRY(transport_.round(operation, out, in, {}));
    for (const Incoming& message : in) {
      const FrameName name{message.peer, rank_, operation.sequence, schedule.round};
      const std::string fault = test::frameFault(message, kLayout, name);
      findings_.expect(fault.empty(), "at once: {}", fault);
      received += message.bytes;
      received_.emplace_back(message, name);
    }
    findings_.expect(operation.sentBytes == sent, "rank {}: {} bytes sent, counted {}", rank_, sent,
                     operation.sentBytes);
    findings_.expect(operation.receivedBytes == received, "rank {}: {} bytes received, counted {}", rank_, received,
                     operation.receivedBytes);
    findings_.expect(operation.round == schedule.round + 1, "rank {}: round {}", rank_, operation.round);
    return {};
  }

  int rank_;
  Transport& transport_;
  Findings& findings_;
  std::unique_ptr<FrameWindow> window_;
  std::vector<std::pair<Incoming, FrameName>> received_;
};

TEST_CASE("every byte of random rounds between random peers arrives") {
  for (const int ranks : {1, 2, 3, 5, 8, 16})
    for (const double density : {0.2, 0.6, 1.0}) {
      CAPTURE(ranks, density);
      Engine engine(ranks);
      Findings findings;
      engine.run([&](int rank, Transport& transport) {
        Player player(rank, transport, findings);
        test::Random random(static_cast<uint64_t>(rank));
        for (uint64_t sequence = 1; sequence <= 60; ++sequence) {
          Operation operation = operationOf(sequence);
          const auto rounds = static_cast<uint32_t>(1 + sequence * 7 % kMostRounds);
          if (!findings.ok(rank, player.play(operation, rounds, density))) return;
          if (test::below(random, 16) == 0) pauseMs(1);
        }
      });
      CHECK(findings.text() == "");
    }
}

TEST_CASE("the engine tells what it is") {
  Engine engine(3);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(engine[rank].rank() == rank);
    CHECK(engine[rank].ranks() == 3);
    CHECK(engine[rank].kind() == sparsecollTransportThreads);
    CHECK(engine[rank].sharesMemory());
    CHECK_FALSE(engine[rank].checksumsPayload());
  }
  CHECK(engine[0].sharedBytes() == 0);
}

// A sender may be one operation ahead of the others, but not two: its frames of the operation before are in use.
TEST_CASE("a rank runs ahead by one operation and no more") {
  constexpr uint64_t kOperations = 100;
  Engine engine(3);
  Findings findings;
  std::atomic<uint64_t> ended[3] = {};
  std::atomic<bool> begunSecond{false};
  engine.run([&](int rank, Transport& transport) {
    auto window = std::move(*transport.makeWindow(2 * kLayout.capacityBytes()));
    if (rank != 0)
      while (!begunSecond) std::this_thread::yield();  // rank 0 gets that far alone
    for (uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
      Operation operation = operationOf(sequence);
      if (!findings.ok(rank, transport.begin(operation))) return;
      for (int r = 0; r < 3; ++r)
        findings.expect(ended[r] + 2 >= sequence, "rank {} began {}, rank {} has ended {}", rank, sequence, r,
                        ended[r].load());
      if (rank == 0 && sequence == 2) begunSecond = true;
      std::byte* const frame = window->data() + sequence % 2 * kLayout.capacityBytes();
      std::vector<Outgoing> out;
      std::vector<Incoming> in;
      if (rank == 0) {
        test::writeFrame(frame, kLayout, {0, 0, sequence, 0});
        for (const int peer : {1, 2}) out.push_back({peer, frame, kLayout});
      } else {
        in.push_back({0, nullptr, 0, nullptr, 0});
      }
      if (!findings.ok(rank, transport.round(operation, out, in, {}))) return;
      if (rank == 2 && sequence % 10 == 0) pauseMs(1);
      for (const Incoming& message : in) {
        const std::string fault = test::frameFault(message, kLayout, {0, 0, sequence, 0});
        findings.expect(fault.empty(), "{}", fault);
      }
      ended[rank] = sequence;
      transport.end(operation);
    }
  });
  CHECK(findings.text() == "");
}

// Everyone to everyone; one rank thinks the operation has fewer rounds. Who is slow then decides what comes first: the
// leaver's first frame of the next operation, or the others' last ones of this.
void checkDifferentRounds(int ranks, int leaver, bool leaverIsFast) {
  CAPTURE(ranks, leaver);
  Engine engine(ranks);
  Findings findings;
  engine.run([&](int rank, Transport& transport) {
    Player player(rank, transport, findings);
    for (uint64_t sequence = 1; sequence <= 12; ++sequence) {
      Operation operation = operationOf(sequence, 5000);
      const bool disagree = sequence % 4 == 2;
      const bool leaves = disagree && rank == leaver;
      if (disagree && rank == (leaver + 1) % ranks && leaverIsFast) pauseMs(50);
      if (sequence % 4 == 3 && rank == leaver && !leaverIsFast) pauseMs(50);
      const Status status = player.play(operation, leaves ? 2 : 3, 1.0);
      const bool refused = disagree && !leaves;
      const bool asWanted = findings.expect(status.result() == (refused ? sparsecollMismatch : sparsecollSuccess),
                                            "rank {}, operation {}: {}", rank, sequence,
                                            status.ok() ? "succeeded" : status.failure().text.c_str());
      if (!asWanted) return transport.abort();
      if (refused)
        findings.expect(status.failure().field == "order", "rank {}: field {}", rank, status.failure().field);
    }
  });
  CHECK(findings.text() == "");
}

// Those who leave because another one has left must not leave frames behind that hold up the next operation: rank 1's
// in rank 2's box and rank 2's in rank 1's, and each waits for the other to clear it.
TEST_CASE("ranks that count rounds differently disagree and the next operation works") {
  for (const int ranks : {2, 3, 5})
    for (const int leaver : {0, 1, ranks - 1}) checkDifferentRounds(ranks, leaver, false);
}

// The leaver waits for the next operation already when a slow rank's frame of the old one comes. That frame is no news:
// it used to end the leaver's wait with a Mismatch, and from then on the leaver was one operation ahead for good.
TEST_CASE("a late frame of an operation that a rank has left does not disturb the next one") {
  for (const int ranks : {2, 3, 5})
    for (const int leaver : {0, 1, ranks - 1}) checkDifferentRounds(ranks, leaver, true);
}

}  // namespace
}  // namespace sparsecoll
