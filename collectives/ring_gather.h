// Bruck's all-gather of lists whose owners stand in a ring, each with a range of the vector: ceil(log2 positions)
// rounds. In round s a position sends the lists of 2^s positions from its own on, or as many as are missing, to the one
// 2^s before it. Lists travel joined in the order of their indices, so a message is one list.
#pragma once

#include <functional>
#include <vector>

#include "collectives/relay.h"

namespace sparsecoll {

// `size` neighbours in the ring, from `first` on.
struct RingSpan {
  uint32_t first;
  uint32_t size;
};

class RingGather {
 public:
  // ring: the ranks in their order. roomOf: most entries of a stretch's lists. Adds its frames to the set.
  static Result<RingGather> make(const CollectiveSetup& setup, std::vector<int> ring, uint32_t position,
                                 const std::function<uint64_t(RingSpan)>& roomOf, FrameSet& frames);

  // own: the frame with this position's list. bounds: position p owns [bounds[p], bounds[p + 1]), in the kernels'
  // memory. The lists of all positions go to `to`.
  Status run(const CollectiveStep& step, Relay& relay, const FrameSet& frames, std::byte* own, const uint64_t* bounds,
             const List& to);

 private:
  struct Round {
    PeerRound peers;
    size_t frame = 0;
    RingSpan sent{};
  };

  Status join(const CollectiveStep& step, RingSpan stretch, const uint64_t* bounds, const List& to);
  void addParts(const uint64_t* low, const uint64_t* high);

  Kernels* kernels_ = nullptr;
  sparsecollDataType_t type_ = sparsecollFloat32;
  uint32_t positions_ = 1;
  uint32_t position_ = 0;
  std::vector<Round> rounds_;
  std::vector<ListView> sources_;
  std::vector<ListPart> parts_;
};

}  // namespace sparsecoll
