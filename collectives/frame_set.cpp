#include "collectives/frame_set.h"

namespace sparsecoll {

size_t FrameSet::add(const FrameLayout& layout) {
  frames_.push_back({layout, bytes_});
  bytes_ += alignUp(layout.capacityBytes(), 64);
  return frames_.size() - 1;
}

Status FrameSet::make(const CollectiveSetup& setup) {
  SC_TRY(window_, setup.transport->makeWindow(2 * bytes_, setup.budget));
  return {};
}

List listIn(std::byte* frame, const FrameLayout& layout) {
  List list;
  list.count = reinterpret_cast<uint32_t*>(frame + offsetof(FrameHeader, count));
  list.indices = reinterpret_cast<uint32_t*>(frame + kFrameHeaderBytes);
  list.capacity = layout.capacity;
  list.where = List::Values::kPacked;
  return list;
}

ListView viewOf(const std::byte* frame) {
  ListView view;
  view.indices = frame + kFrameHeaderBytes;
  view.count = reinterpret_cast<const uint32_t*>(frame + offsetof(FrameHeader, count));
  view.flags = reinterpret_cast<const uint16_t*>(frame + offsetof(FrameHeader, flags));
  return view;
}

Result<OwnList> OwnList::make(const CollectiveSetup& setup, uint64_t capacity) {
  OwnList own;
  own.capacity = capacity;
  SC_TRY(own.indices, setup.kernels->allocate(capacity * sizeof(uint32_t), setup.budget));
  SC_TRY(own.values, setup.kernels->allocate(capacity * elementBytes(setup.accumulateType), setup.budget));
  SC_TRY(own.count, setup.kernels->allocate(sizeof(uint32_t), setup.budget));
  return own;
}

}  // namespace sparsecoll
