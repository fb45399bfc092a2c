// The exchange of TopkA for selections with equally many entries in every chunk of up to 65536 elements: indices travel
// as 16 bits inside their chunk, which one it is follows from their place in the list.
#include <vector>

#include "collectives/collectives.h"
#include "collectives/own_list.h"
#include "collectives/rounds.h"
#include "collectives/rules.h"

namespace sparsecoll {

namespace {

class ChunkGather final : public Collective {
 public:
  explicit ChunkGather(const CollectiveSetup& setup)
      : kernels_(*setup.kernels),
        layout_{setup.capacity, 2, static_cast<uint32_t>(elementBytes(setup.accumulateType))},
        own_(static_cast<size_t>(setup.transport->rank())) {}

  Status make(const CollectiveSetup& setup) {
    SC_TRY(round_, FullRound::make(*setup.transport, kernels_, layout_, FullRound::Sends::kSameToAll, setup.budget));
    for (size_t rank = 0; rank < round_.ranks(); ++rank) {
      SC_TRY(OwnList list, OwnList::make(setup, setup.capacity));
      lists_.push_back(std::move(list));
      views_.push_back(lists_.back().view());
    }
    return {};
  }

  List target(const Operation&) override { return lists_[own_].list(); }

  Result<Delivered> run(const CollectiveStep& step) override {
    ListRuleArgs args;
    args.control = step.control;
    args.from = views_[own_];
    args.to = listIn(round_.frame(*step.operation), layout_);
    SC_TRY(kernels_.apply(kChunkPack, args, layout_.capacity, step.stream));
    SC_TRY(round_.run(*step.operation, step.stream, step.control));
    for (size_t r = 0; r < lists_.size(); ++r) {
      if (r == own_) continue;
      args.from = listOf(round_.from(r));
      args.to = lists_[r].list();
      SC_TRY(kernels_.apply(kChunkUnpack, args, layout_.capacity, step.stream));
    }
    return Delivered{views_, Combine::kAdd, {&views_[own_], 1}};
  }

 private:
  Kernels& kernels_;
  const FrameLayout layout_;
  const size_t own_;
  FullRound round_;
  std::vector<OwnList> lists_;  // by rank
  std::vector<ListView> views_;
};

}  // namespace

Result<std::unique_ptr<Collective>> makeChunkGather(const CollectiveSetup& setup) {
  return makeCollective<ChunkGather>(setup);
}

}  // namespace sparsecoll
