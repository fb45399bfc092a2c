// Rounds in which a rank sends to at most one peer and receives from at most one, as trees, recursive doubling and
// Bruck's algorithm need them. Not every rank sees every rank's frame, so frames only pass on that somebody met NaN or
// Inf; in such a step one more round, with everybody, tells where.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/collective.h"
#include "collectives/rounds.h"

namespace sparsecoll {

// Who a rank talks to in one round, and where the peer's frame lands.
class PeerRound {
 public:
  static constexpr int kNobody = -1;

  static Result<PeerRound> make(const CollectiveSetup& setup, int to, const FrameLayout& out, int from,
                                const FrameLayout& in);

  bool sends() const { return to_ != kNobody; }
  bool receives() const { return from_ != kNobody; }
  // What came, valid until the operation ends.
  const std::byte* frame() const { return frame_; }

 private:
  friend class Relay;
  int to_ = kNobody;
  int from_ = kNobody;
  FrameLayout out_, in_;
  std::unique_ptr<FrameWindow> landing_;
  Buffer most_;  // entries of what comes, where kernels find it
  const std::byte* frame_ = nullptr;
};

class Relay {
 public:
  static Result<Relay> make(const CollectiveSetup& setup);

  void begin(const CollectiveStep& step);
  // This rank has selected, and may have met NaN or Inf in that.
  void note(const CollectiveStep& step);
  static constexpr uint32_t kNoLists = 0;
  // Every rank runs every round, also one in which it has nothing to say. What came is checked: `lists` lists of equal
  // length with indices in order and below n, or no lists but numbers.
  Status exchange(const CollectiveStep& step, PeerRound& round, std::byte* frame, uint32_t lists = 1);
  // All ranks have heard of each other. NaN and Inf are named now.
  Status end(const CollectiveStep& step);

 private:
  void sealOnce(const CollectiveStep& step, const PeerRound& round, std::byte* frame);

  Kernels* kernels_ = nullptr;
  Transport* transport_ = nullptr;
  uint64_t n_ = 0;
  std::vector<const std::byte*> sealed_;  // frames of this operation
  FullRound named_;                       // the last round
};

}  // namespace sparsecoll
