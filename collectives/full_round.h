// A round in which every rank sends one frame to every peer: the same to all, or one each. Holds the tables such a
// round needs, so that a step allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/transport.h"

namespace sparsecoll {

class FullRound {
 public:
  // layout: of the frames of this round. Memory for what arrives is made where the engine needs it.
  static Result<FullRound> make(Transport& transport, Kernels& kernels, const FrameLayout& layout,
                                const std::shared_ptr<MemoryBudget>& budget);

  const FrameLayout& layout() const { return layout_; }

  // Frames after the round, one a rank, in rank order; own is this rank's.
  Status sameToAll(Operation& operation, const std::byte* own, Stream stream);
  // frames[peer] goes to peer; frames[own rank] stays.
  Status oneToEach(Operation& operation, std::span<std::byte* const> frames, Stream stream);

  std::span<const std::byte* const> frames() const { return frames_; }
  std::span<const uint64_t> bytes() const { return bytes_; }

 private:
  Status settle(const Status& exchanged, const std::byte* own);

  Transport* transport_ = nullptr;
  FrameLayout layout_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<const std::byte*> frames_;
  std::vector<uint64_t> bytes_;
  std::unique_ptr<FrameWindow> landing_;
};

}  // namespace sparsecoll
