// The ranks of a threads engine below the C ABI, each on a thread of its own.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/memory.h"
#include "host/host_kernels.h"
#include "tests/support/rank_threads.h"
#include "transports/threads.h"

namespace sparsecoll::test {

// What ranks find wrong; Catch's own assertions are for one thread.
class Findings {
 public:
  template <class... Args>
  bool expect(bool right, fmt::format_string<Args...> text, Args&&... args) {
    if (right) return true;
    const std::lock_guard lock(mutex_);
    if (text_.size() < 2000) text_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
    return false;
  }
  bool ok(int rank, const Status& status) { return result(rank, status, sparsecollSuccess); }
  bool result(int rank, const Status& status, sparsecollResult_t wanted) {
    return expect(status.result() == wanted, "rank {}: result {}, expected {}: {}", rank, int{status.result()},
                  int{wanted}, status.failure().text.view());
  }
  // "" if all went well. After the ranks have ended.
  const std::string& text() const { return text_; }

 private:
  std::mutex mutex_;
  std::string text_;
};

class Engine {
 public:
  explicit Engine(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) budgets.push_back(std::make_shared<MemoryBudget>(0));
    const std::vector<std::shared_ptr<Kernels>> each(static_cast<size_t>(ranks), kernels);
    transports_ = std::move(*makeThreadsTransports(each, budgets));
  }
  int ranks() const { return static_cast<int>(transports_.size()); }
  Transport& operator[](int rank) { return *transports_[static_cast<size_t>(rank)]; }
  void destroy(int rank) { transports_[static_cast<size_t>(rank)].reset(); }

  // body(rank, transport) on every rank.
  void run(const std::function<void(int, Transport&)>& body) {
    RankThreads::ofProcess().run(ranks(), [&](int rank) { body(rank, (*this)[rank]); });
  }

  const std::shared_ptr<Kernels> kernels = host::makeHostKernels();
  std::vector<std::shared_ptr<MemoryBudget>> budgets;

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
};

inline Operation operationOf(uint64_t sequence, uint64_t timeoutMs = 60000) {
  Operation operation;
  operation.sequence = operation.turn = sequence;
  operation.plan = 0x1234;
  operation.deadline = Deadline::in(timeoutMs);
  return operation;
}

// begin, body(operation), end.
template <class Body>
Status operate(Transport& transport, Operation& operation, Body body) {
  Status status = transport.begin(operation);
  if (status.ok()) status = body(operation);
  transport.end(operation);
  return status;
}

// What a frame from one rank to another in one round of one operation consists of.
struct FrameName {
  int from;
  int to;
  uint64_t sequence;
  uint32_t round;

  uint64_t hash() const {
    uint64_t x =
        sequence * 0x9e3779b97f4a7c15ull + round * 0xbf58476d1ce4e5b9ull + static_cast<uint64_t>(from * 1031 + to);
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebull;
    return x ^ (x >> 29);
  }
  uint32_t count(uint64_t most) const { return static_cast<uint32_t>(hash() % (most + 1)); }
  std::byte at(uint64_t i) const { return static_cast<std::byte>((hash() >> (i % 8 * 8)) + i); }
};

// Writes the frame; every byte that travels depends on its name.
inline void writeFrame(std::byte* frame, const FrameLayout& layout, const FrameName& name) {
  FrameHeader header{name.sequence, name.hash(), name.count(layout.capacity), 0, 0, 0, 0};
  std::memcpy(frame, &header, sizeof header);
  const uint64_t bytes = layout.usedBytes(header);
  for (uint64_t i = sizeof header; i < bytes; ++i) frame[i] = name.at(i);
}

// "" if the frame is the one of that name.
inline std::string frameFault(const Incoming& got, const FrameLayout& layout, const FrameName& name) {
  const auto where = [&] {
    return fmt::format("{} to {}, operation {} round {}", name.from, name.to, name.sequence, name.round);
  };
  if (got.frame == nullptr) return where() + ": no frame";
  const FrameHeader header = readHeader(got.frame);
  if (header.sequence != name.sequence || header.plan != name.hash()) return where() + ": another frame";
  if (got.bytes != layout.usedBytes(header)) return where() + fmt::format(": {} bytes", got.bytes);
  for (uint64_t i = sizeof header; i < got.bytes; ++i)
    if (got.frame[i] != name.at(i)) return where() + fmt::format(": byte {} is wrong", i);
  return "";
}

}  // namespace sparsecoll::test
