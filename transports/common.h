// What several engines do in the same way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/checked.h"
#include "core/numeric.h"
#include "core/partition.h"
#include "core/transport.h"

namespace sparsecoll {

// For what peers may still send once one of them is lost or has aborted, or has left, or nothing can be sent to it.
constexpr uint64_t kLossGraceMs = 1000;

// Frames of an engine whose peers may still read them, or send to them, once their owner is done with them: the keeper
// takes their memory then. To give it away must not take memory, so the keeper makes room before
// (Keeper::expectRetirement, Keeper::retire).
template <class Keeper>
class RetiringWindow final : public FrameWindow {
 public:
  static Result<std::unique_ptr<FrameWindow>> make(Keeper keeper, Kernels& kernels, uint64_t bytes,
                                                   const std::shared_ptr<MemoryBudget>& budget) {
    SC_TRY(Buffer memory, kernels.allocate(bytes, budget));
    std::unique_ptr<RetiringWindow> window(new RetiringWindow(std::move(keeper)));
    window->keeper_.expectRetirement();
    window->memory_ = std::move(memory);
    window->expected_ = true;
    return std::unique_ptr<FrameWindow>(std::move(window));
  }
  ~RetiringWindow() override {
    if (expected_) keeper_.retire(std::move(memory_));
  }
  std::byte* data() const override { return memory_.template as<>(); }

 private:
  explicit RetiringWindow(Keeper keeper) : keeper_(std::move(keeper)) {}

  Keeper keeper_;
  Buffer memory_;
  bool expected_ = false;
};

// Sequence of the first captured operation that is replayed: none that ranks run has it.
inline constexpr uint64_t kFirstReplay = uint64_t{1} << 63;

// Where replays find and raise their sequence, in the kernels' memory. It is there once the kernels' own stream is
// done.
inline Result<Buffer> makeReplaySequence(Kernels& kernels) {
  SC_TRY(Buffer sequence, kernels.allocate(sizeof kFirstReplay, nullptr));
  kernels.transfer(sequence.as<>(), &kFirstReplay, sizeof kFirstReplay, kernels.stream());
  return sequence;
}

// What a rank sums of a dense sum's vector where each rank sums a part of it; whole lines.
inline Range densePart(uint64_t n, int ranks, int rank) {
  const auto parts = static_cast<uint64_t>(ranks);
  const uint64_t length = alignUp((n + parts - 1) / parts, 64);
  const uint64_t begin = std::min(n, length * static_cast<uint64_t>(rank));
  return {begin, std::min(n, begin + length)};
}

inline void countDense(Operation& operation, uint64_t elements, sparsecollDataType_t type) {
  operation.sentBytes += elements * elementBytes(type);
  operation.receivedBytes += elements * elementBytes(type);
}
// Contributions to the other owners, and the own part's sum to everyone: together what a ring sends.
inline void countParts(Operation& operation, const DenseArgs& args, int ranks, int rank) {
  const uint64_t own = densePart(args.n, ranks, rank).length();
  countDense(operation, args.n - own + own * static_cast<uint64_t>(ranks - 1), args.type);
}
// The same among some ranks, by half.
inline void countAmong(Operation& operation, const AmongArgs& args, int rank) {
  const Range part = args.parts[args.own(rank)];
  const uint64_t toOwner = (args.dense.n - part.length()) * elementBytes(args.dense.type);
  const uint64_t toAll = part.length() * (args.members.size() - 1) * elementBytes(args.dense.type);
  const bool sums = args.half != AmongArgs::Half::kGather;
  const bool gathers = args.half != AmongArgs::Half::kSum;
  operation.sentBytes += (sums ? toOwner : 0) + (gathers ? toAll : 0);
  operation.receivedBytes += (sums ? toAll : 0) + (gathers ? toOwner : 0);
}
// A ring's bytes, of an engine that sums on its own.
inline void countRing(Operation& operation, const DenseArgs& args, int ranks) {
  const auto size = static_cast<uint64_t>(ranks);
  const uint64_t bytes = 2 * (size - 1) * args.n * elementBytes(args.type) / size;
  operation.sentBytes += bytes;
  operation.receivedBytes += bytes;
}

// What stands before and behind a sum that others form: out = finish(inputScale * in), or added to out.
struct Reshape {
  const void* in = nullptr;
  void* out = nullptr;  // may equal in
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t count = 0;
  Scale inputScale = {};
  Finish finish = {};
  bool accumulate = false;
  uint32_t* nonFinite = nullptr;  // as in DenseSumArgs
};
inline void reshape(Kernels& kernels, const Reshape& call, Stream stream) {
  const std::array<const void*, 1> in = {call.in};
  const std::array<void*, 1> out = {call.out};
  kernels.denseSum({in, out, call.type, call.count, call.inputScale, call.finish, call.accumulate, call.nonFinite},
                   stream);
}

}  // namespace sparsecoll
