// What waits on the in-process engine end with when a rank stops, disappears or never comes, and that memory outlives
// its readers.
#include "tests/support/catch.h"

#include <atomic>
#include <chrono>

#include "tests/unit/engine.h"

namespace sparsecoll {
namespace {

using test::Engine;
using test::Findings;
using test::FrameName;
using test::operate;
using test::operationOf;

constexpr FrameLayout kLayout{100, 4, 4};

void pauseMs(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A frame to every peer and from every peer.
Status everyoneToEveryone(Transport& transport, Operation& operation, std::byte* frame) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  test::writeFrame(frame, kLayout, {transport.rank(), 0, operation.sequence, operation.round});
  for (int peer = 0; peer < transport.ranks(); ++peer) {
    if (peer == transport.rank()) continue;
    out.push_back({peer, frame, kLayout});
    in.push_back({peer, nullptr, 0, nullptr, 0});
  }
  return transport.round(operation, out, in, {});
}

TEST_CASE("a rank that never comes is a timeout that names it") {
  Engine engine(3);
  Findings findings;
  engine.run([&](int rank, Transport& transport) {
    if (rank == 1) return;
    auto window = std::move(*transport.makeWindow(kLayout.capacityBytes()));
    Operation operation = operationOf(1, 50);
    const auto start = std::chrono::steady_clock::now();
    const Status status =
        operate(transport, operation, [&](Operation& op) { return everyoneToEveryone(transport, op, window->data()); });
    if (!findings.result(rank, status, sparsecollTimeout)) return;
    findings.expect(status.failure().peer == 1, "rank {}: peer {}", rank, status.failure().peer);
    findings.expect(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(50), "rank {}: too early",
                    rank);
  });
  CHECK(findings.text() == "");
}

TEST_CASE("a rank that does not end an operation holds up the one after the next") {
  Engine engine(2);
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    Operation operation = operationOf(sequence);
    REQUIRE(engine[0].begin(operation).ok());
    engine[0].end(operation);
  }
  Operation third = operationOf(3, 30);
  CHECK(engine[0].begin(third).result() == sparsecollTimeout);
  Operation first = operationOf(1);
  REQUIRE(engine[1].begin(first).ok());
  engine[1].end(first);
  third.deadline = Deadline::in(60000);
  CHECK(engine[0].begin(third).ok());
}

// The wait in which the end of the third rank finds the others.
enum class Where { kCollect, kPost, kBegin };

// Three operations of a rank that still expects something from the third one; sequence: of the latest.
Status waitFor(Where where, int rank, Transport& transport, std::byte* frames, uint64_t& sequence) {
  for (sequence = 1; sequence <= 3; ++sequence) {
    Operation operation = operationOf(sequence);
    SC_TRY(operate(transport, operation, [&](Operation& op) -> Status {
      std::byte* const frame = frames + sequence % 2 * kLayout.capacityBytes();
      if (where == Where::kCollect) return everyoneToEveryone(transport, op, frame);
      if (where == Where::kBegin) return {};
      test::writeFrame(frame, kLayout, {rank, 2, sequence, 0});
      const Outgoing out[] = {{2, frame, kLayout}};  // nobody takes the first one, so the second finds no place
      return transport.round(op, out, {}, {});
    }));
  }
  return {};
}

void checkEnd(Where where, bool destroys) {
  Engine engine(3);
  Findings findings;
  std::atomic<int> ready{0};
  engine.run([&](int rank, Transport& transport) {
    auto window = std::move(*transport.makeWindow(2 * kLayout.capacityBytes()));
    if (rank == 2) {
      while (ready != 2) std::this_thread::yield();
      pauseMs(20);
      window.reset();
      return destroys ? engine.destroy(2) : transport.abort();
    }
    ++ready;
    uint64_t sequence = 0;
    const Status status = waitFor(where, rank, transport, window->data(), sequence);
    if (!findings.result(rank, status, sparsecollPeerFailed)) return;
    findings.expect(status.failure().peer == 2, "rank {}: peer {}", rank, status.failure().peer);
    Operation next = operationOf(sequence + 1);
    const Status later =
        operate(transport, next, [&](Operation& op) { return everyoneToEveryone(transport, op, window->data()); });
    findings.result(rank, later, sparsecollPeerFailed);
  });
  CHECK(findings.text() == "");
}

TEST_CASE("an abort ends the peers' waits and is named") {
  for (const Where where : {Where::kCollect, Where::kPost, Where::kBegin}) {
    CAPTURE(static_cast<int>(where));
    checkEnd(where, false);
  }
}

TEST_CASE("a rank that is destroyed ends the waits for its messages and is named") {
  for (const Where where : {Where::kCollect, Where::kPost}) {
    CAPTURE(static_cast<int>(where));
    checkEnd(where, true);
  }
}

TEST_CASE("a rank's own waits end as aborted") {
  Engine engine(2);
  std::thread other([&] {
    pauseMs(20);
    engine[0].abort();
    engine[0].abort();  // may be repeated
  });
  auto window = std::move(*engine[0].makeWindow(2 * kLayout.capacityBytes()));
  const auto exchange = [&](Transport& transport, uint64_t sequence) {
    Operation operation = operationOf(sequence);
    std::byte* const frame = window->data() + static_cast<uint64_t>(transport.rank()) * kLayout.capacityBytes();
    return operate(transport, operation, [&](Operation& op) { return everyoneToEveryone(transport, op, frame); });
  };
  const Status status = exchange(engine[0], 1);
  other.join();
  CHECK(status.result() == sparsecollAborted);
  CHECK(exchange(engine[0], 2).result() == sparsecollAborted);
  CHECK(exchange(engine[1], 1).result() == sparsecollPeerFailed);
}

TEST_CASE("a round that is complete counts although a peer has gone since") {
  Engine engine(2);
  Findings findings;
  std::atomic<bool> begun{false};
  std::atomic<bool> gone{false};
  engine.run([&](int rank, Transport& transport) {
    auto window = std::move(*transport.makeWindow(kLayout.capacityBytes()));
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    if (rank == 0) {
      test::writeFrame(window->data(), kLayout, {0, 1, 1, 0});
      out.push_back({1, window->data(), kLayout});
    } else {
      in.push_back({0, nullptr, 0, nullptr, 0});
    }
    Operation operation = operationOf(1);
    findings.ok(rank, transport.begin(operation));
    if (rank == 1) begun = true;
    while (rank == 0 ? !begun : !gone) std::this_thread::yield();
    findings.ok(rank, transport.round(operation, out, in, {}));
    if (rank == 1) findings.expect(test::frameFault(in[0], kLayout, {0, 1, 1, 0}).empty(), "the frame is damaged");
    transport.end(operation);
    if (rank != 0) return;
    window.reset();
    engine.destroy(0);
    gone = true;
  });
  CHECK(findings.text() == "");
}

// The sender forgets its frames at once; ASan sees it if the reader's view goes with them.
TEST_CASE("a window dropped while a peer still reads it stays until the peer is done") {
  Engine engine(2);
  Findings findings;
  std::atomic<bool> dropped{false};
  std::atomic<uint64_t> heldWhileRead{0};
  engine.run([&](int rank, Transport& transport) {
    Operation operation = operationOf(1);
    findings.ok(rank, transport.begin(operation));
    if (rank == 0) {
      auto window = std::move(*transport.makeWindow(kLayout.capacityBytes()));
      test::writeFrame(window->data(), kLayout, {0, 1, 1, 0});
      const Outgoing out[] = {{1, window->data(), kLayout}};
      findings.ok(rank, transport.round(operation, out, {}, {}));
      transport.end(operation);
      window.reset();
      dropped = true;
      return;
    }
    Incoming in[] = {{0, nullptr, 0, nullptr, 0}};
    findings.ok(rank, transport.round(operation, {}, in, {}));
    while (!dropped) std::this_thread::yield();
    heldWhileRead = engine.budgets[0]->inUse();
    const std::string fault = test::frameFault(in[0], kLayout, {0, 1, 1, 0});
    findings.expect(fault.empty(), "{}", fault);
    transport.end(operation);
  });
  CHECK(findings.text() == "");
  CHECK(heldWhileRead >= kLayout.capacityBytes());
  CHECK(engine.budgets[0]->inUse() == 0);  // and not longer
}

TEST_CASE("a window dropped after everybody has ended goes at once") {
  Engine engine(3);
  for (int rank = 0; rank < 3; ++rank) {
    Operation operation = operationOf(1);
    REQUIRE(engine[rank].begin(operation).ok());
    engine[rank].end(operation);
  }
  auto window = std::move(*engine[1].makeWindow(1000));
  CHECK(engine.budgets[1]->inUse() >= 1000);
  window.reset();
  CHECK(engine.budgets[1]->inUse() == 0);
}

// Rank 0 waits for rank 1, which has gone on, and for rank 2, which will never send to it again. Rank 1's frame shows
// the disagreement; it used to be looked at only after rank 2's had come.
TEST_CASE("a frame of a later operation ends a wait for an earlier one") {
  Engine engine(3);
  Findings findings;
  engine.run([&](int rank, Transport& transport) {
    auto window = std::move(*transport.makeWindow(2 * kLayout.capacityBytes()));
    std::byte* const frame = window->data();
    if (rank == 0) {
      Operation first = operationOf(1, 3000);
      Incoming in[] = {{1, nullptr, 0, nullptr, 0}, {2, nullptr, 0, nullptr, 0}};
      const Status status = operate(transport, first, [&](Operation& op) { return transport.round(op, {}, in, {}); });
      if (!findings.result(rank, status, sparsecollMismatch)) return transport.abort();
      findings.expect(status.failure().peer == 1, "peer {}", status.failure().peer);
    } else {
      Operation first = operationOf(1);
      findings.ok(rank, operate(transport, first, [](Operation&) { return Status(); }));
    }
    Operation second = operationOf(2, 3000);
    test::writeFrame(frame, kLayout, {rank, 0, 2, 0});
    const Outgoing out[] = {{rank == 1 ? 0 : 2, frame, kLayout}};
    Incoming in[] = {{rank == 0 ? 1 : 0, nullptr, 0, nullptr, 0}};
    const Status status = operate(transport, second, [&](Operation& op) {
      return transport.round(op, std::span(out).first(rank == 2 ? 0 : 1), std::span(in).first(rank == 1 ? 0 : 1), {});
    });
    findings.ok(rank, status);
  });
  CHECK(findings.text() == "");
}

// Rank 3 is in another call, and ranks 0 and 1 never collect in their sum what it has sent them.
TEST_CASE("ranks that sum among themselves go on past messages of others, which the next round of all finds") {
  Engine engine(4);
  Findings findings;
  std::atomic<bool> sent{false};
  engine.run([&](int rank, Transport& transport) {
    if (rank == 2) return;
    auto window = std::move(*transport.makeWindow(kLayout.capacityBytes()));
    Operation operation = operationOf(1, 3000);
    if (rank == 3) {
      test::writeFrame(window->data(), kLayout, {3, 0, 1, 0});
      const Outgoing out[] = {{0, window->data(), kLayout}, {1, window->data(), kLayout}};
      findings.ok(rank, operate(transport, operation, [&](Operation& op) { return transport.round(op, out, {}, {}); }));
      sent = true;
      return;
    }
    while (!sent) std::this_thread::yield();
    const int members[] = {0, 1};
    const Range parts[] = {{0, 64}, {64, 100}};
    std::vector<float> in(100, 1.0f);
    std::vector<float> out(100);
    const Status status = operate(transport, operation, [&](Operation& op) -> Status {
      AmongArgs args;
      args.dense.in = in.data();
      args.dense.out = out.data();
      args.dense.n = in.size();
      args.members = members;
      args.parts = parts;
      if (!findings.ok(rank, transport.sumAmong(op, args, {}))) return {};
      const Outgoing to[] = {{1 - rank, window->data(), kLayout}};
      Incoming from[] = {{1 - rank, nullptr, 0, nullptr, 0}};
      test::writeFrame(window->data(), kLayout, {rank, 1 - rank, 1, op.round});
      return transport.round(op, to, from, {});
    });
    findings.expect(out == std::vector<float>(100, 2.0f), "rank {}: a wrong sum", rank);
    if (!findings.result(rank, status, sparsecollMismatch)) return;
    findings.expect(status.failure().peer == 3, "rank {}: peer {}", rank, status.failure().peer);
  });
  CHECK(findings.text() == "");
}

// Ranks 2 and 3 have done all that they had to in an operation that ranks 0 and 1 are still in.
TEST_CASE("ranks that have left do not end a sum among others") {
  using Half = AmongArgs::Half;
  for (const Half half : {Half::kBoth, Half::kGather}) {
    Engine engine(4);
    Findings findings;
    std::atomic<int> begun{0};
    std::atomic<int> left{0};
    engine.run([&](int rank, Transport& transport) {
      Operation operation = operationOf(1, 3000);
      findings.ok(rank, transport.begin(operation));
      ++begun;
      while (begun != 4) std::this_thread::yield();
      if (rank >= 2) {
        transport.end(operation);
        transport.leave();
        ++left;
        return;
      }
      while (left != 2) std::this_thread::yield();
      const int members[] = {0, 1};
      const Range parts[] = {{0, 64}, {64, 100}};
      std::vector<float> in(100, 1.0f);
      std::vector<float> out(100, 2.0f);
      AmongArgs args;
      args.dense.in = in.data();
      args.dense.out = out.data();
      args.dense.n = in.size();
      args.members = members;
      args.parts = parts;
      args.half = half;
      findings.ok(rank, transport.sumAmong(operation, args, {}));
      transport.end(operation);
      findings.expect(out == std::vector<float>(100, 2.0f), "rank {}: a wrong sum", rank);
    });
    CHECK(findings.text() == "");
  }
}

// Rank 0 waits for rank 1, which gives up because rank 2 has aborted.
TEST_CASE("who gave up because of another rank is not the one that is named") {
  Engine engine(3);
  Findings findings;
  std::atomic<int> begun{0};
  engine.run([&](int rank, Transport& transport) {
    Operation operation = operationOf(1, 30000);
    findings.ok(rank, transport.begin(operation));
    ++begun;
    while (begun != 3) std::this_thread::yield();
    if (rank < 2) {
      Incoming in[] = {{rank + 1, nullptr, 0, nullptr, 0}};
      const Status status = transport.round(operation, {}, in, {});
      findings.result(rank, status, sparsecollPeerFailed);
      findings.expect(status.failure().peer == 2, "rank {}: peer {}", rank, status.failure().peer);
    }
    transport.abort();
    transport.end(operation);
  });
  CHECK(findings.text() == "");
}

}  // namespace
}  // namespace sparsecoll
