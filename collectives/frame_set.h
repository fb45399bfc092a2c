// The frames that a rank sends in one operation, in memory that the engine knows. Two sets are used in turn.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/collective.h"

namespace sparsecoll {

class FrameSet {
 public:
  // Returns the frame's number. Before make.
  size_t add(const FrameLayout& layout);
  Status make(const CollectiveSetup& setup);

  std::byte* at(const Operation& operation, size_t frame) const {
    return window_->data() + (operation.turn % 2) * bytes_ + frames_[frame].offset;
  }
  const FrameLayout& layout(size_t frame) const { return frames_[frame].layout; }

 private:
  struct Frame {
    FrameLayout layout;
    uint64_t offset;
  };
  std::vector<Frame> frames_;
  uint64_t bytes_ = 0;  // of a set
  std::unique_ptr<FrameWindow> window_;
};

// A frame's entries to be written, and as they are read.
List listIn(std::byte* frame, const FrameLayout& layout);
ListView viewOf(const std::byte* frame);

// A list of its own, which does not travel.
struct OwnList {
  Buffer indices, values, count;
  uint64_t capacity = 0;

  static Result<OwnList> make(const CollectiveSetup& setup, uint64_t capacity);
  List list() const {
    return {indices.as<uint32_t>(), values.as<>(), count.as<uint32_t>(), capacity, List::Values::kApart};
  }
  ListView view() const {
    ListView view;
    view.indices = indices.as<>();
    view.values = values.as<>();
    view.count = count.as<uint32_t>();
    return view;
  }
};

}  // namespace sparsecoll
