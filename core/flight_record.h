// What a communicator remembers of one operation. Its thread writes as the operation goes on; any thread may read at
// any moment, so every word is an atomic and nobody waits for anybody.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "core/limits.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

// An operation's name for people. All texts are static.
struct OperationLabel {
  const char* call = "operation";
  const char* preset = "";  // empty: the pair of the next two has no name; of operations without a method all are
  const char* selector = "";
  const char* collective = "";
  uint64_t tag = 0;
  uint64_t n = 0;
  uint64_t k = 0;
};

inline constexpr size_t kRankWords = kMaxRanks / 64;
using RankBits = std::array<uint64_t, kRankWords>;

// What a reader has found in a record.
struct FlightFacts {
  uint64_t number = 0;    // of the record, from 1
  uint64_t sequence = 0;  // of the operation; 0: a call that is none
  uint64_t plan = 0;
  OperationLabel label;
  int64_t startNs = 0, roundNs = 0, endNs = 0;  // steady clock; 0: not yet
  uint64_t rounds = 0;                          // begun
  uint64_t sentBytes = 0, receivedBytes = 0;    // of rounds that have ended
  int32_t result = sparsecollSuccess;           // once it has ended
  int32_t peer = -1;                            // the rank that the failure names
  RankBits awaited{};                           // ranks that its latest round still misses something from
};

class FlightRecord {
 public:
  void begin(uint64_t number, uint64_t sequence, uint64_t plan, const OperationLabel& label) {
    number_.set(0);  // readers let it be until it is whole
    sequence_.set(sequence);
    plan_.set(plan);
    call_.set(label.call);
    preset_.set(label.preset);
    selector_.set(label.selector);
    collective_.set(label.collective);
    tag_.set(label.tag);
    n_.set(label.n);
    k_.set(label.k);
    roundNs_.set(0);
    endNs_.set(0);
    rounds_.set(0);
    sentBytes_.set(0);
    receivedBytes_.set(0);
    result_.set(sparsecollSuccess);
    peer_.set(-1);
    awaitNobody();
    startNs_.set(nowNs());
    number_.set(number);
  }

  // A round begins. Bytes: of those before it.
  void beginRound(uint64_t sentBytes, uint64_t receivedBytes) {
    awaitNobody();
    sentBytes_.set(sentBytes);
    receivedBytes_.set(receivedBytes);
    rounds_.set(rounds_.get() + 1);
    roundNs_.set(nowNs());
  }
  // What the round needs of a rank, and that it has it. Another thread may say the latter, under a lock of both.
  void await(int rank) {
    const size_t word = wordOf(rank);
    awaited_[word].set(awaited_[word].get() | bitOf(rank));
    if (word >= usedWords_) usedWords_ = word + 1;
  }
  void came(int rank) {
    const uint64_t now = awaited_[wordOf(rank)].get();
    if ((now & bitOf(rank)) != 0) awaited_[wordOf(rank)].set(now & ~bitOf(rank));
  }

  void end(int32_t result, int32_t peer, uint64_t sentBytes, uint64_t receivedBytes) {
    sentBytes_.set(sentBytes);
    receivedBytes_.set(receivedBytes);
    result_.set(result);
    peer_.set(peer);
    endNs_.set(nowNs());
  }

  // False: it is being taken for another operation. Of one that goes on, the facts are of moments close to each other.
  bool read(FlightFacts& facts) const {
    facts.number = number_.get();
    facts.sequence = sequence_.get();
    facts.plan = plan_.get();
    facts.label = {call_.get(), preset_.get(), selector_.get(), collective_.get(), tag_.get(), n_.get(), k_.get()};
    facts.startNs = startNs_.get();
    facts.endNs = endNs_.get();  // before what it is said behind
    facts.roundNs = roundNs_.get();
    facts.rounds = rounds_.get();
    facts.sentBytes = sentBytes_.get();
    facts.receivedBytes = receivedBytes_.get();
    facts.result = result_.get();
    facts.peer = peer_.get();
    for (size_t word = 0; word < kRankWords; ++word) facts.awaited[word] = awaited_[word].get();
    return facts.number != 0 && number_.get() == facts.number;
  }

  static int64_t nowNs() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  // Whoever sees a value also sees all that was written before it: a reader that finds a word of a later operation
  // finds another number, too.
  template <class T>
  class Told {
   public:
    void set(T value) { value_.store(value, std::memory_order_release); }
    T get() const { return value_.load(std::memory_order_acquire); }

   private:
    std::atomic<T> value_{};
  };

  static size_t wordOf(int rank) { return static_cast<size_t>(rank) / 64; }
  static uint64_t bitOf(int rank) { return uint64_t{1} << (static_cast<unsigned>(rank) % 64); }
  void awaitNobody() {
    for (Told<uint64_t>& word : std::span(awaited_).first(usedWords_)) word.set(0);
    usedWords_ = 0;
  }

  Told<uint64_t> number_, sequence_, plan_, tag_, n_, k_, rounds_, sentBytes_, receivedBytes_;
  Told<const char*> call_, preset_, selector_, collective_;
  Told<int64_t> startNs_, roundNs_, endNs_;
  Told<int32_t> result_, peer_;
  std::array<Told<uint64_t>, kRankWords> awaited_;
  size_t usedWords_ = 0;  // of these; the writer's alone
};

}  // namespace sparsecoll
