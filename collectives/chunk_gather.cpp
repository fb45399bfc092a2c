// The exchange of TopkA for selections with equally many entries in every chunk of up to 65536 elements: indices travel
// as 16 bits inside their chunk, which one it is follows from their place in the list.
#include <vector>

#include "collectives/collectives.h"
#include "collectives/frame_set.h"
#include "collectives/full_round.h"
#include "collectives/rules.h"

namespace sparsecoll {

namespace {

class ChunkGather final : public Collective {
 public:
  explicit ChunkGather(const CollectiveSetup& setup)
      : kernels_(*setup.kernels), transport_(*setup.transport), own_(static_cast<size_t>(setup.transport->rank())) {}

  Status make(const CollectiveSetup& setup) {
    const FrameLayout layout{setup.capacity, 2, static_cast<uint32_t>(elementBytes(setup.accumulateType))};
    frame_ = frames_.add(layout);
    SC_TRY(frames_.make(setup));
    SC_TRY(round_, FullRound::make(transport_, kernels_, layout, setup.budget));
    for (int rank = 0; rank < transport_.ranks(); ++rank) {
      SC_TRY(OwnList list, OwnList::make(setup, setup.capacity));
      lists_.push_back(std::move(list));
      views_.push_back(lists_.back().view());
    }
    return {};
  }

  List target(const Operation&) override { return lists_[own_].list(); }

  Result<Delivered> run(const CollectiveStep& step) override {
    Operation& operation = *step.operation;
    const FrameExpectation identity = operation.identity();
    const bool withPayload = transport_.checksumsPayload();
    std::byte* const own = frames_.at(operation, frame_);
    const uint64_t capacity = round_.layout().capacity;
    ListRuleArgs args;
    args.control = step.control;
    args.from = views_[own_];
    args.to = listIn(own, round_.layout());
    SC_TRY(kernels_.apply(kChunkPack, args, capacity, step.stream));
    kernels_.seal({own, round_.layout(), identity, step.control, withPayload}, step.stream);
    SC_TRY(round_.sameToAll(operation, own, step.stream));
    SC_TRY(kernels_.open({round_.frames(), round_.bytes(), round_.layout(), identity, step.control, {}, withPayload},
                         step.stream));
    for (size_t r = 0; r < lists_.size(); ++r) {
      if (r == own_) continue;
      args.from = viewOf(round_.frames()[r]);
      args.to = lists_[r].list();
      SC_TRY(kernels_.apply(kChunkUnpack, args, capacity, step.stream));
    }
    return Delivered{views_, Combine::kAdd, {&views_[own_], 1}};
  }

 private:
  Kernels& kernels_;
  Transport& transport_;
  size_t own_;
  FrameSet frames_;
  size_t frame_ = 0;
  FullRound round_;
  std::vector<OwnList> lists_;  // by rank
  std::vector<ListView> views_;
};

}  // namespace

Result<std::unique_ptr<Collective>> makeChunkGather(const CollectiveSetup& setup) {
  auto gather = std::make_unique<ChunkGather>(setup);
  SC_TRY(gather->make(setup));
  return std::unique_ptr<Collective>(std::move(gather));
}

}  // namespace sparsecoll
