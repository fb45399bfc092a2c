#include "collectives/rounds.h"

#include "core/memory.h"

namespace sparsecoll {

List listIn(std::byte* frame, const FrameLayout& layout) {
  List list;
  list.count = countIn(frame);
  list.indices = reinterpret_cast<uint32_t*>(entriesIn(frame));
  list.capacity = layout.capacity;
  list.where = List::Values::kPacked;
  return list;
}

List valuesIn(std::byte* frame) {
  List list;
  list.count = countIn(frame);
  list.values = entriesIn(frame);
  return list;
}

ListView listOf(const std::byte* frame) {
  ListView view;
  view.indices = entriesIn(frame);
  view.count = countIn(frame);
  return view;
}

ListView streamOf(const std::byte* frame) {
  ListView view = listOf(frame);
  view.flags = reinterpret_cast<const uint16_t*>(frame + offsetof(FrameHeader, flags));
  return view;
}

size_t FrameSet::add(const FrameLayout& layout) {
  frames_.push_back({layout, bytes_});
  bytes_ += alignUp(layout.capacityBytes(), 64);
  return frames_.size() - 1;
}

Status FrameSet::make(Transport& transport, Kernels& kernels, const std::shared_ptr<MemoryBudget>& budget,
                      uint64_t sets) {
  sets_ = sets;
  SC_TRY(const uint64_t bytes, checkedMul(bytes_, sets));
  SC_TRY(window_, transport.makeWindow(bytes, budget, &kernels));
  return {};
}

Result<FullRound> FullRound::make(Transport& transport, Kernels& kernels, const FrameLayout& layout, Sends sends,
                                  const std::shared_ptr<MemoryBudget>& budget, uint64_t sets) {
  const auto ranks = static_cast<size_t>(transport.ranks());
  const uint64_t capacity = layout.capacityBytes();
  SC_TRY(const uint64_t landing, checkedMul(capacity, ranks));
  FullRound round;
  round.transport_ = &transport;
  round.kernels_ = &kernels;
  round.layout_ = layout;
  round.sends_ = sends;
  round.frames_ = sends == Sends::kSameToAll ? 1 : ranks;
  for (size_t f = 0; f < round.frames_; ++f) round.own_.add(layout);
  SC_TRY(round.own_.make(transport, kernels, budget, sets));
  if (!transport.sharesMemory()) {
    SC_TRY(round.landing_, transport.makeWindow(landing, budget, &kernels));
  }
  round.came_.resize(ranks);
  round.bytes_.resize(ranks);
  // Each rank begins with another one, so that no link has all that is sent first. What comes is looked at in the order
  // of ranks: all name the same one.
  for (int step = 1; step < transport.ranks(); ++step)
    round.outgoing_.push_back({(transport.rank() + step) % transport.ranks(), nullptr, layout});
  for (int peer = 0; peer < transport.ranks(); ++peer) {
    if (peer == transport.rank()) continue;
    std::byte* const place =
        round.landing_ != nullptr ? round.landing_->data() + static_cast<uint64_t>(peer) * capacity : nullptr;
    round.incoming_.push_back({peer, place, capacity, nullptr, 0});
  }
  return round;
}

Status FullRound::run(Operation& operation, Stream stream, Control* facts, std::span<const uint32_t* const> counts,
                      Tells tells) {
  const FrameExpectation identity = operation.identity();
  const bool withPayload = transport_->checksumsPayload();
  const bool toAll = sends_ == Sends::kSameToAll;
  const bool relayed = tells == Tells::kWhether;
  for (size_t f = 0; f < frames_; ++f)
    kernels_->seal({frame(operation, f), layout_, identity, facts, withPayload, relayed}, stream);
  for (Outgoing& message : outgoing_) message.frame = frame(operation, toAll ? 0 : static_cast<size_t>(message.peer));
  SC_TRY(toAll ? transport_->gather(operation, outgoing_, incoming_, stream)
               : transport_->round(operation, outgoing_, incoming_, stream));
  for (const Incoming& message : incoming_) {
    came_[static_cast<size_t>(message.peer)] = message.frame;
    bytes_[static_cast<size_t>(message.peer)] = message.bytes;
  }
  const auto self = static_cast<size_t>(transport_->rank());
  came_[self] = frame(operation, toAll ? 0 : self);
  bytes_[self] = layout_.capacityBytes();
  return kernels_->open({came_, bytes_, layout_, identity, facts, counts, withPayload, relayed}, stream);
}

}  // namespace sparsecoll
