// TopkA: every rank sends its k pairs to every other one; each sums all lists in rank order. P - 1 messages and
// 2 k (P - 1) words a rank, one round.
#include "collectives/collectives.h"
#include "collectives/rounds.h"

namespace sparsecoll {

namespace {

class AllGather final : public Collective {
 public:
  explicit AllGather(const CollectiveSetup& setup) : own_(static_cast<size_t>(setup.transport->rank())) {}

  Status make(const CollectiveSetup& setup) {
    const FrameLayout layout{setup.capacity, 4, static_cast<uint32_t>(elementBytes(setup.accumulateType))};
    SC_TRY(round_,
           FullRound::make(*setup.transport, *setup.kernels, layout, FullRound::Sends::kSameToAll, setup.budget));
    lists_.resize(round_.ranks());
    return {};
  }

  List target(const Operation& operation) override { return round_.list(operation); }

  Result<Delivered> run(const CollectiveStep& step) override {
    SC_TRY(round_.run(*step.operation, step.stream, step.control));
    for (size_t r = 0; r < lists_.size(); ++r) lists_[r] = listOf(round_.from(r));
    return Delivered{lists_, Combine::kAdd, {&lists_[own_], 1}};
  }

 private:
  const size_t own_;
  FullRound round_;
  std::vector<ListView> lists_;
};

Result<std::unique_ptr<Collective>> makeAllGather(const CollectiveSetup& setup) {
  return setup.chunks ? makeChunkGather(setup) : makeCollective<AllGather>(setup);
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
