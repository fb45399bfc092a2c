#include "collectives/full_round.h"

#include "core/memory.h"

namespace sparsecoll {

Result<FullRound> FullRound::make(Transport& transport, Kernels& kernels, const FrameLayout& layout,
                                  const std::shared_ptr<MemoryBudget>& budget) {
  const int ranks = transport.ranks();
  FullRound round;
  round.transport_ = &transport;
  round.layout_ = layout;
  round.frames_.resize(static_cast<size_t>(ranks));
  round.bytes_.resize(static_cast<size_t>(ranks));
  const uint64_t capacity = layout.capacityBytes();
  if (!transport.sharesMemory()) {
    SC_TRY(const uint64_t bytes, checkedMul(capacity, static_cast<uint64_t>(ranks)));
    SC_TRY(round.landing_, transport.makeWindow(bytes, budget, &kernels));
  }
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == transport.rank()) continue;
    std::byte* landing = nullptr;
    if (!transport.sharesMemory()) landing = round.landing_->data() + static_cast<uint64_t>(peer) * capacity;
    round.outgoing_.push_back({peer, nullptr, layout});
    round.incoming_.push_back({peer, landing, capacity, nullptr, 0});
  }
  return round;
}

Status FullRound::sameToAll(Operation& operation, const std::byte* own, Stream stream) {
  for (Outgoing& message : outgoing_) message.frame = own;
  return settle(transport_->gather(operation, outgoing_, incoming_, stream), own);
}

Status FullRound::oneToEach(Operation& operation, std::span<std::byte* const> frames, Stream stream) {
  for (Outgoing& message : outgoing_) message.frame = frames[static_cast<size_t>(message.peer)];
  const std::byte* const own = frames[static_cast<size_t>(transport_->rank())];
  return settle(transport_->round(operation, outgoing_, incoming_, stream), own);
}

Status FullRound::settle(const Status& exchanged, const std::byte* own) {
  if (!exchanged.ok()) return Status(exchanged.failure());
  for (const Incoming& message : incoming_) {
    frames_[static_cast<size_t>(message.peer)] = message.frame;
    bytes_[static_cast<size_t>(message.peer)] = message.bytes;
  }
  const auto self = static_cast<size_t>(transport_->rank());
  frames_[self] = own;
  bytes_[self] = layout_.capacityBytes();
  return {};
}

}  // namespace sparsecoll
