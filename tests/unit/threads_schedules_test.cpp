// Point-to-point schedules on the in-process engine, as algorithms other than all-to-all rounds need them.
#include "tests/support/catch.h"
#include <numeric>

#include "tests/unit/data.h"
#include "tests/unit/engine.h"

namespace sparsecoll {
namespace {

using test::Engine;
using test::Findings;
using test::operate;
using test::operationOf;

// Frames of numbers, one slot a round, in two sets that are used in turn.
class Sender {
 public:
  Sender(Transport& transport, uint64_t numbers, uint32_t rounds)
      : transport_(transport),
        layout_{numbers, 0, 4},
        rounds_(rounds),
        window_(std::move(*transport.makeWindow(2 * rounds * layout_.capacityBytes()))) {}

  // Sends the numbers to `to` and returns what came from `from`; -1 for nobody.
  Result<std::vector<uint32_t>> exchange(Operation& operation, int to, std::span<const uint32_t> numbers, int from) {
    const uint64_t slot = operation.turn % 2 * rounds_ + operation.round;
    std::byte* const frame = window_->data() + slot * layout_.capacityBytes();
    const FrameHeader header{operation.sequence, operation.plan, static_cast<uint32_t>(numbers.size()), 0, 0, 0, 0};
    std::memcpy(frame, &header, sizeof header);
    if (!numbers.empty()) std::memcpy(frame + sizeof header, numbers.data(), numbers.size_bytes());
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    if (to >= 0) out.push_back({to, frame, layout_});
    if (from >= 0) in.push_back({from, nullptr, 0, nullptr, 0});
    SC_TRY(transport_.round(operation, out, in, {}));
    std::vector<uint32_t> got;
    if (from < 0) return got;
    const FrameHeader theirs = readHeader(in[0].frame);
    if (theirs.sequence != operation.sequence) return fail(sparsecollInternalError, "a frame of {}", theirs.sequence);
    got.resize(theirs.count);
    if (theirs.count != 0) std::memcpy(got.data(), in[0].frame + sizeof theirs, theirs.count * sizeof(uint32_t));
    return got;
  }

 private:
  Transport& transport_;
  FrameLayout layout_;
  uint32_t rounds_;
  std::unique_ptr<FrameWindow> window_;
};

constexpr uint64_t kChunk = 5;

void addTo(std::vector<uint32_t>& sum, size_t at, const std::vector<uint32_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) sum[at + i] += numbers[i];
}

// P - 1 rounds that sum one chunk at each rank, P - 1 that pass the sums on.
Status ring(Sender& sender, Operation& operation, int rank, int ranks, std::vector<uint32_t>& sum) {
  const auto chunk = [&](int c) { return static_cast<size_t>((c % ranks + ranks) % ranks) * kChunk; };
  const int right = (rank + 1) % ranks;
  const int left = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 2 * (ranks - 1); ++round) {
    const bool summing = round < ranks - 1;
    const int mine = rank - round + (summing ? 0 : ranks);
    const int theirs = mine - 1;
    SC_TRY(const auto got, sender.exchange(operation, right, std::span(sum).subspan(chunk(mine), kChunk), left));
    if (!summing) std::fill_n(sum.begin() + static_cast<int64_t>(chunk(theirs)), kChunk, 0u);
    addTo(sum, chunk(theirs), got);
  }
  return {};
}

// log2 rounds between ranks a power of two apart; ranks beyond the largest power of two hand their numbers in first and
// get the sum last, and sit out the rounds between.
Status doubling(Sender& sender, Operation& operation, int rank, int ranks, std::vector<uint32_t>& sum) {
  int power = 1;
  while (power * 2 <= ranks) power *= 2;
  const bool extra = rank >= power;
  const bool partner = rank + power < ranks;
  SC_TRY(const auto handed, sender.exchange(operation, extra ? rank - power : -1, sum, partner ? rank + power : -1));
  addTo(sum, 0, handed);
  for (int distance = 1; distance < power; distance *= 2) {
    const int peer = extra ? -1 : rank ^ distance;
    SC_TRY(const auto got, sender.exchange(operation, peer, sum, peer));
    addTo(sum, 0, got);
  }
  SC_TRY(const auto total, sender.exchange(operation, partner ? rank + power : -1, sum, extra ? rank - power : -1));
  if (extra) sum = total;
  return {};
}

using Algorithm = Status (*)(Sender&, Operation&, int, int, std::vector<uint32_t>&);

void checkSums(int ranks, uint64_t operations, const std::vector<Algorithm>& algorithms) {
  Engine engine(ranks);
  Findings findings;
  const uint64_t n = kChunk * static_cast<uint64_t>(ranks);
  const auto input = [](int rank, uint64_t sequence, uint64_t i) {
    return static_cast<uint32_t>(static_cast<uint64_t>(rank) * 7919 + sequence * 104729 + i * i);
  };
  engine.run([&](int rank, Transport& transport) {
    Sender sender(transport, n, static_cast<uint32_t>(2 * ranks + 8));
    for (uint64_t sequence = 1; sequence <= operations; ++sequence) {
      std::vector<uint32_t> sum(n);
      std::vector<uint32_t> wanted(n);
      for (uint64_t i = 0; i < n; ++i) {
        sum[i] = input(rank, sequence, i);
        for (int r = 0; r < ranks; ++r) wanted[i] += input(r, sequence, i);
      }
      Operation operation = operationOf(sequence);
      const Algorithm algorithm = algorithms[sequence % algorithms.size()];
      const Status status =
          operate(transport, operation, [&](Operation& op) { return algorithm(sender, op, rank, ranks, sum); });
      if (!findings.ok(rank, status)) return;
      findings.expect(sum == wanted, "rank {}: operation {} has another sum", rank, sequence);
    }
  });
  CHECK(findings.text() == "");
}

TEST_CASE("a ring sums on any number of ranks") {
  for (const int ranks : {2, 3, 5, 8, 16}) {
    CAPTURE(ranks);
    checkSums(ranks, 20, {ring});
  }
}

TEST_CASE("recursive doubling sums on any number of ranks") {
  for (const int ranks : {1, 2, 3, 5, 8, 16}) {
    CAPTURE(ranks);
    checkSums(ranks, 40, {doubling});
  }
}

TEST_CASE("different schedules follow each other") {
  for (const int ranks : {2, 3, 5, 8}) {
    CAPTURE(ranks);
    checkSums(ranks, 60, {ring, doubling, doubling});
  }
}

TEST_CASE("an operation has as many rounds as a ring of many ranks needs") { checkSums(40, 4, {ring}); }

// A ring of 33 ranks has 64 rounds. From there on rounds used to share their tickets with the next operation's: a stale
// frame looked like one of a later operation, and the frame that shows that a rank has left looked stale.
TEST_CASE("ranks that disagree after many rounds are told so") {
  Engine engine(2);
  Findings findings;
  engine.run([&](int rank, Transport& transport) {
    Sender sender(transport, 1, 80);
    for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
      Operation operation = operationOf(sequence, 3000);
      const uint32_t rounds = sequence == 1 ? 70 + static_cast<uint32_t>(rank) : 2;
      const Status status = operate(transport, operation, [&](Operation& op) -> Status {
        while (op.round < rounds) SC_TRY(sender.exchange(op, 1 - rank, {&rounds, 1}, 1 - rank));
        return {};
      });
      const bool refused = sequence == 1 && rank == 1;
      if (!findings.result(rank, status, refused ? sparsecollMismatch : sparsecollSuccess)) return transport.abort();
      // Rank 0 stays away from the next operation until rank 1 has sent its last frame of this one.
      if (sequence == 1 && rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  CHECK(findings.text() == "");
}

}  // namespace
}  // namespace sparsecoll
