// The in-process engine's dense all-reduce: sums, bytes, and callers' memory that nobody touches after a failure.
#include "tests/support/catch.h"
#include <chrono>

#include "tests/unit/data.h"
#include "tests/unit/engine.h"
#include "tests/unit/lists.h"
#include "transports/common.h"

namespace sparsecoll {
namespace {

using test::Engine;
using test::Fill;
using test::Findings;
using test::makeElements;
using test::operate;
using test::operationOf;

template <class T>
using Acc = typename Element<T>::Accumulate;

struct Options {
  double inputScale = 1;
  Finish finish;
  bool accumulate = false;
  bool inPlace = false;
};

template <class T>
std::vector<T> inputOf(int rank, uint64_t sequence, uint64_t n) {
  return makeElements<T>(Fill::kSmooth, n, static_cast<uint64_t>(rank) * 100 + sequence);
}

template <class T>
std::vector<T> expectedSum(int ranks, uint64_t sequence, uint64_t n, const Options& options,
                           const std::vector<T>& before) {
  std::vector<Acc<T>> sum(n);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> in = inputOf<T>(r, sequence, n);
    for (uint64_t i = 0; i < n; ++i) {
      Acc<T> value = Element<T>::load(in[i]);
      if (options.inputScale != 1) value *= static_cast<Acc<T>>(options.inputScale);
      sum[i] = r == 0 ? value : sum[i] + value;
    }
  }
  std::vector<T> out(n);
  for (uint64_t i = 0; i < n; ++i) {
    const T x = Element<T>::store(test::finished(sum[i], options.finish));
    out[i] = options.accumulate ? Element<T>::store(Element<T>::load(before[i]) + Element<T>::load(x)) : x;
  }
  return out;
}

template <class T>
Status allReduce(Transport& transport, Operation& operation, const void* in, T* out, uint64_t n,
                 const Options& options) {
  const DenseArgs args{in, out, n, Element<T>::kType, options.inputScale, options.finish, options.accumulate};
  return operate(transport, operation, [&](Operation& op) { return transport.allReduce(op, args, {}); });
}

// Some operations in a row; every rank's result and its bytes, which together are those of a ring.
template <class T>
void checkAllReduce(int ranks, uint64_t n, const Options& options) {
  constexpr uint64_t kOperations = 3;
  CAPTURE(ranks, n, options.accumulate, options.inPlace);
  Engine engine(ranks);
  Findings findings;
  std::vector<uint64_t> sent(static_cast<size_t>(ranks));
  engine.run([&](int rank, Transport& transport) {
    for (uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
      const std::vector<T> in = inputOf<T>(rank, sequence, n);
      std::vector<T> out = options.inPlace ? in : makeElements<T>(Fill::kSmooth, n, 77);
      const std::vector<T> wanted = expectedSum(ranks, sequence, n, options, out);
      Operation operation = operationOf(sequence);
      const Status status =
          allReduce(transport, operation, options.inPlace ? out.data() : in.data(), out.data(), n, options);
      if (!findings.ok(rank, status)) return;
      const std::string fault = test::difference(out, wanted);
      findings.expect(fault.empty(), "rank {}, operation {}: {}", rank, sequence, fault);
      findings.expect(operation.sentBytes == operation.receivedBytes, "rank {}: sent {}, received {}", rank,
                      operation.sentBytes, operation.receivedBytes);
      sent[static_cast<size_t>(rank)] += operation.sentBytes;
    }
  });
  CHECK(findings.text() == "");
  uint64_t total = 0;
  for (const uint64_t bytes : sent) total += bytes;
  CHECK(total == kOperations * 2 * static_cast<uint64_t>(ranks - 1) * n * sizeof(T));
}

TEMPLATE_TEST_CASE("every rank gets the sum", "", float, Half, Bfloat, double) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const uint64_t n : {0, 1, 63, 64, 65, 1000, 4099})
      for (const bool inPlace : {false, true}) {
        Options options;
        options.inPlace = inPlace;
        checkAllReduce<TestType>(ranks, n, options);
      }
}

TEST_CASE("the parts of a dense sum are whole lines, and no shorter ones would do") {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const uint64_t n : {1, 63, 64, 65, 128, 320, 321, 512, 4099, 5120}) {
      CAPTURE(ranks, n);
      uint64_t end = 0;
      uint64_t longest = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = densePart(n, ranks, rank);
        CHECK(part.begin == end);
        CHECK((part.begin == n || part.begin % 64 == 0));
        end = part.end;
        longest = std::max(longest, part.length());
      }
      CHECK(end == n);
      CHECK((alignUp(longest, 64) - 64) * static_cast<uint64_t>(ranks) < n);
    }
}

TEST_CASE("a dense sum is scaled and divided and accumulated") {
  for (const bool accumulate : {false, true})
    for (const bool inPlace : {false, true}) checkAllReduce<float>(3, 5000, {-0.5, {3, 2}, accumulate, inPlace});
}

TEST_CASE("a long vector is summed slab by slab") {
  checkAllReduce<float>(2, 300001, {});
  checkAllReduce<Half>(3, 500003, {});
}

TEST_CASE("ranks in different dense operations disagree and the next one works") {
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    Engine engine(ranks);
    Findings findings;
    engine.run([&](int rank, Transport& transport) {
      for (uint64_t sequence = 1; sequence <= 9; ++sequence) {
        const uint64_t n = 1000;
        const bool disagree = sequence % 3 == 2;
        const std::vector<float> in = inputOf<float>(rank, sequence, n);
        std::vector<float> out(n, -1);
        Operation operation = operationOf(sequence, 20000);
        if (disagree && rank == ranks - 1) operation.plan ^= 1;
        const Status status = allReduce(transport, operation, in.data(), out.data(), n, {});
        if (!findings.result(rank, status, disagree ? sparsecollMismatch : sparsecollSuccess)) return transport.abort();
        if (disagree) {
          findings.expect(status.failure().field == "order", "field {}", status.failure().field.view());
          findings.expect(out == std::vector<float>(n, -1), "rank {}: out was written", rank);
        } else {
          findings.expect(out == expectedSum(ranks, sequence, n, {}, out), "rank {}: another sum", rank);
        }
      }
    });
    CHECK(findings.text() == "");
  }
}

// Every rank frees its vectors as soon as its call returns; ASan and TSan see whoever is still in them.
TEST_CASE("after an abort nobody touches the callers' vectors") {
  for (int trial = 0; trial < 12; ++trial) {
    CAPTURE(trial);
    constexpr int kRanks = 4;
    constexpr uint64_t kLength = 400000;
    Engine engine(kRanks);
    Findings findings;
    engine.run([&](int rank, Transport& transport) {
      if (rank == kRanks - 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(300 * trial));
        return transport.abort();
      }
      for (uint64_t sequence = 1;; ++sequence) {
        auto in = std::make_unique<std::vector<float>>(kLength, 1.0F);
        auto out = std::make_unique<std::vector<float>>(kLength);
        Operation operation = operationOf(sequence);
        const Status status = allReduce(transport, operation, in->data(), out->data(), kLength, {});
        if (status.ok()) continue;
        in.reset();
        out.reset();
        findings.result(rank, status, sparsecollPeerFailed);
        return transport.abort();
      }
    });
    CHECK(findings.text() == "");
  }
}

// The same with the aborting rank inside the operation: another thread aborts it.
TEST_CASE("a rank aborted inside a dense sum lets go of everybody's vectors") {
  for (int trial = 0; trial < 12; ++trial) {
    CAPTURE(trial);
    constexpr uint64_t kLength = 400000;
    Engine engine(3);
    Findings findings;
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(500 + 300 * trial));
      engine[0].abort();
    });
    engine.run([&](int rank, Transport& transport) {
      for (uint64_t sequence = 1;; ++sequence) {
        auto values = std::make_unique<std::vector<float>>(kLength, 1.0F);
        Operation operation = operationOf(sequence);
        const Status status = allReduce(transport, operation, values->data(), values->data(), kLength, {});
        const bool summed = *values == std::vector<float>(kLength, 3.0F);
        findings.expect(!status.ok() || summed, "rank {}: another sum in operation {}", rank, sequence);
        values.reset();
        if (status.ok()) continue;
        findings.result(rank, status, rank == 0 ? sparsecollAborted : sparsecollPeerFailed);
        return transport.abort();
      }
    });
    aborter.join();
    CHECK(findings.text() == "");
  }
}

TEST_CASE("a rank that never comes to a dense sum is a timeout") {
  Engine engine(3);
  Findings findings;
  engine.run([&](int rank, Transport& transport) {
    if (rank == 1) return;
    std::vector<float> values(1000, 1.0F);
    Operation operation = operationOf(1, 50);
    const Status status = allReduce(transport, operation, values.data(), values.data(), values.size(), {});
    // The first to give up takes the group down, so the other may hear of that first.
    const sparsecollResult_t result = status.result();
    findings.expect(result == sparsecollTimeout || result == sparsecollPeerFailed, "rank {}: result {}", rank,
                    int{result});
    if (result == sparsecollTimeout) findings.expect(status.failure().peer == 1, "peer {}", status.failure().peer);
  });
  CHECK(findings.text() == "");
}

}  // namespace
}  // namespace sparsecoll
