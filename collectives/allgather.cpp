// TopkA: every rank sends its k pairs to every other one; each sums all lists in rank order. P - 1 messages and
// 2 k (P - 1) words a rank, one round.
#include "collectives/collectives.h"
#include "collectives/full_round.h"

namespace sparsecoll {

namespace {

class AllGather final : public Collective {
 public:
  AllGather(const CollectiveSetup& setup, std::unique_ptr<FrameWindow> window, FullRound round)
      : kernels_(*setup.kernels),
        transport_(*setup.transport),
        window_(std::move(window)),
        round_(std::move(round)),
        lists_(static_cast<size_t>(setup.transport->ranks())) {}

  List target(const Operation& operation) override {
    std::byte* const frame = frameOf(operation);
    List list;
    list.count = reinterpret_cast<uint32_t*>(frame + offsetof(FrameHeader, count));
    list.indices = reinterpret_cast<uint32_t*>(frame + kFrameHeaderBytes);
    list.capacity = round_.layout().capacity;
    list.where = List::Values::kPacked;
    return list;
  }

  Result<Delivered> run(const CollectiveStep& step) override {
    Operation& operation = *step.operation;
    const FrameExpectation identity = operation.identity();
    const bool withPayload = transport_.checksumsPayload();
    std::byte* const own = frameOf(operation);
    kernels_.seal({own, round_.layout(), identity, step.control, withPayload}, step.stream);
    SC_TRY(round_.sameToAll(operation, own, step.stream));
    SC_TRY(kernels_.open({round_.frames(), round_.bytes(), round_.layout(), identity, step.control, {}, withPayload},
                         step.stream));
    for (size_t r = 0; r < lists_.size(); ++r) {
      const std::byte* const frame = round_.frames()[r];
      lists_[r].indices = frame + kFrameHeaderBytes;
      lists_[r].count = reinterpret_cast<const uint32_t*>(frame + offsetof(FrameHeader, count));
    }
    return Delivered{lists_, Combine::kAdd, {&lists_[static_cast<size_t>(transport_.rank())], 1}};
  }

 private:
  std::byte* frameOf(const Operation& operation) const {
    return window_->data() + (operation.turn % 2) * round_.layout().capacityBytes();
  }

  Kernels& kernels_;
  Transport& transport_;
  std::unique_ptr<FrameWindow> window_;  // two frames, used in turn
  FullRound round_;
  std::vector<ListView> lists_;
};

Result<std::unique_ptr<Collective>> makeAllGather(const CollectiveSetup& setup) {
  if (setup.chunks) return makeChunkGather(setup);
  const FrameLayout layout{setup.capacity, 4, static_cast<uint32_t>(elementBytes(setup.accumulateType))};
  SC_TRY(auto window, setup.transport->makeWindow(2 * layout.capacityBytes(), setup.budget));
  SC_TRY(auto round, FullRound::make(*setup.transport, *setup.kernels, layout, setup.budget));
  return std::unique_ptr<Collective>(new AllGather(setup, std::move(window), std::move(round)));
}

constexpr const char* kPaper = "Renggli et al. 2019 (SparCML), section 5.1; Shi et al. 2019";

constexpr PresetRow kPresets[] = {
    {.name = "topka",
     .summary = "exact top-k on every rank, pairs gathered by all",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollAllGather},
};

}  // namespace

constinit extern const CollectiveRow kAllGatherRow = {
    .id = sparsecollCollAllGather,
    .name = "allgather",
    .paper = kPaper,
    .make = makeAllGather,
    .contributors = Contributors::kLists,
    .facts = true,
    .presets = kPresets,
};

}  // namespace sparsecoll
