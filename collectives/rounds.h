// Frames, and the round in which every rank sends each other one a frame. Whoever fills a frame, seals and sends it, or
// looks at what came, does it here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/transport.h"

namespace sparsecoll {

// Where a frame has its number of entries, and its first index; or value, if it has no indices.
inline uint32_t* countIn(std::byte* frame) { return reinterpret_cast<uint32_t*>(frame + offsetof(FrameHeader, count)); }
inline const uint32_t* countIn(const std::byte* frame) {
  return reinterpret_cast<const uint32_t*>(frame + offsetof(FrameHeader, count));
}
inline std::byte* entriesIn(std::byte* frame) { return frame + kFrameHeaderBytes; }
inline const std::byte* entriesIn(const std::byte* frame) { return frame + kFrameHeaderBytes; }

// A frame's entries to be written: pairs, or values alone.
List listIn(std::byte* frame, const FrameLayout& layout);
List valuesIn(std::byte* frame);
// As they are read. streamOf: of a frame that may hold a run instead of a list (kFrameDense).
ListView listOf(const std::byte* frame);
ListView streamOf(const std::byte* frame);

// The frames that a rank sends, in memory that the engine knows. A peer may still read those of the operation before
// (core/transport.h), so there are two sets, which take turns.
class FrameSet {
 public:
  // Returns the frame's number. Before make.
  size_t add(const FrameLayout& layout);
  // kernels: whose memory it is. sets: 1 for frames that are sent in one operation only.
  Status make(Transport& transport, Kernels& kernels, const std::shared_ptr<MemoryBudget>& budget, uint64_t sets = 2);

  std::byte* at(const Operation& operation, size_t frame) const {
    return window_->data() + operation.turn % sets_ * bytes_ + frames_[frame].offset;
  }
  List list(const Operation& operation, size_t frame) const { return listIn(at(operation, frame), layout(frame)); }
  const FrameLayout& layout(size_t frame) const { return frames_[frame].layout; }

 private:
  struct Frame {
    FrameLayout layout;
    uint64_t offset;
  };
  std::vector<Frame> frames_;
  uint64_t bytes_ = 0;  // of a set
  uint64_t sets_ = 2;
  std::unique_ptr<FrameWindow> window_;
};

// Everybody's frame to everybody, in one round, without a need for memory.
class FullRound {
 public:
  enum class Sends { kSameToAll, kOneToEach };
  // Of NaN and Inf, with a control block: where this rank met them, or whether it has heard of some.
  enum class Tells { kWhere, kWhether };

  // layout: of all frames. sets: as in FrameSet.
  static Result<FullRound> make(Transport& transport, Kernels& kernels, const FrameLayout& layout, Sends sends,
                                const std::shared_ptr<MemoryBudget>& budget, uint64_t sets = 2);

  // To be filled before the round: the frame for all, or for one rank, with its count and entries.
  std::byte* frame(const Operation& operation, size_t to = 0) const { return own_.at(operation, to); }
  List list(const Operation& operation, size_t to = 0) const { return own_.list(operation, to); }

  // Completes the frames, sends them, and checks what came. facts: the control block of which frames tell the threshold
  // and where NaN or Inf was met, and which gets what all ranks' tell; nullptr: they carry nothing but entries. counts:
  // how many entries there have to be, by rank; empty: any number. Errors: the engine's, Mismatch, Corrupted.
  Status run(Operation& operation, Stream stream, Control* facts, std::span<const uint32_t* const> counts = {},
             Tells tells = Tells::kWhere);

  // After the round, until the operation ends: the frame of a rank, which may be this one.
  const std::byte* from(size_t rank) const { return came_[rank]; }
  size_t ranks() const { return came_.size(); }

 private:
  Transport* transport_ = nullptr;
  Kernels* kernels_ = nullptr;
  FrameLayout layout_;
  Sends sends_ = Sends::kSameToAll;
  size_t frames_ = 1;
  FrameSet own_;
  std::unique_ptr<FrameWindow> landing_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<const std::byte*> came_;  // by rank
  std::vector<uint64_t> bytes_;
};

}  // namespace sparsecoll
