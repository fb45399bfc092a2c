// Ok-Topk (Li and Hoefler, PPoPP 2022, arXiv:2201.07598): every rank sends each peer its entries of that peer's region;
// the owner adds them up and gathers, with all others, those of the sum that reach a global threshold. P - 1 messages
// and ceil(log2 P) rounds.
//   Global threshold: every 32 steps everything is gathered and the k-th magnitude of the sum becomes the threshold;
//     only these k entries count. In between it follows the number of entries gathered.
//   Regions: every 64 steps, and whenever one rank had more than 4 times the mean, they are cut anew so that the last
//     sum's entries would have been spread evenly. All ranks hold that sum, so nobody has to be asked.
// Faithful: the published factors of 0.8 % for the global threshold.
#include "collectives/ok_topk.h"

#include <vector>

#include "collectives/collectives.h"
#include "collectives/own_list.h"
#include "collectives/relay.h"
#include "collectives/ring_gather.h"
#include "collectives/rules.h"
#include "collectives/split_round.h"

namespace sparsecoll {

namespace {

class OkTopk final : public Collective {
 public:
  explicit OkTopk(const CollectiveSetup& setup)
      : kernels_(*setup.kernels),
        n_(setup.n),
        type_(setup.accumulateType),
        rank_(static_cast<uint32_t>(setup.transport->rank())),
        ranks_(static_cast<uint32_t>(setup.transport->ranks())),
        end_(setup.faithful ? kOkTopkEndFaithful : kOkTopkEnd) {}

  Status make(const CollectiveSetup& setup) {
    SC_TRY(split_, SplitRound::make(setup, std::min(setup.capacity, n_)));
    parts_.assign(ranks_, ListPart{split_.selected()});
    // A region may be any part of the vector, so it may have what all ranks select.
    const FrameLayout region{std::min(setup.capacity * ranks_, n_), 4, static_cast<uint32_t>(elementBytes(type_))};
    SC_TRY(scratch_, OwnList::make(setup, region.capacity));
    SC_TRY(gathered_, OwnList::make(setup, region.capacity));
    SC_TRY(sum_, OwnList::make(setup, region.capacity));
    ownFrame_ = frames_.add(region);
    std::vector<int> ring;
    for (uint32_t r = 0; r < ranks_; ++r) ring.push_back(static_cast<int>(r));
    SC_TRY(gather_, RingGather::make(
                        setup, std::move(ring), rank_, [&](RingSpan) { return region.capacity; }, frames_));
    SC_TRY(frames_.make(*setup.transport, kernels_, setup.budget));
    SC_TRY(relay_, Relay::make(setup));
    return {};
  }

  List target(const Operation&) override { return split_.target(); }

  Result<Delivered> run(const CollectiveStep& step) override {
    relay_.begin(step);
    kernels_.apply(kOkTopkBegin, step.control, step.stream);
    auto& state = step.control->collective.as<OkTopkState>();
    const uint64_t* const regions = step.tables->collective.as<OkTopkState>().regions;
    for (uint32_t w = 0; w < ranks_; ++w) {
      parts_[w].lowAt = regions + w;
      parts_[w].highAt = regions + w + 1;
    }
    SC_TRY(split_.run(step, parts_));
    SC_TRY(cut(step, split_.received(), &step.control->n, frames_.list(*step.operation, ownFrame_), nullptr));
    SC_TRY(gather_.run(step, relay_, frames_, frames_.at(*step.operation, ownFrame_), regions, gathered_.list()));
    const ListView gathered = gathered_.view();
    SC_TRY(cut(step, {&gathered, 1}, &state.sumLimit, sum_.list(), &state.sumKept));
    final_ = sum_.view();
    kernels_.tally(final_, regions, ranks_, step.control, step.stream);
    kernels_.apply(end_, step.control, step.stream);
    ListRuleArgs sum;
    sum.control = step.control;
    sum.from = final_;
    SC_TRY(kernels_.apply(kOkTopkCutRegions, sum, ranks_, step.stream));
    sent_ = split_.selected();
    return Delivered{{&final_, 1}, Combine::kAdd, {&sent_, 1}, true};
  }

 private:
  Status cut(const CollectiveStep& step, std::span<const ListView> lists, const uint64_t* limit, const List& to,
             uint64_t* keptKey) {
    MergeCutArgs args;
    args.lists = lists;
    args.accumulateType = type_;
    args.n = n_;
    args.limit = limit;
    args.key = &step.control->collective.as<OkTopkState>().sumKey;
    args.scratch = scratch_.list();
    args.target = to;
    args.keptKey = keptKey;
    return kernels_.mergeCut(args, step.stream);
  }

  Kernels& kernels_;
  uint64_t n_;
  sparsecollDataType_t type_;
  uint32_t rank_, ranks_;
  const Rule& end_;
  FrameSet frames_;
  Relay relay_;
  SplitRound split_;
  RingGather gather_;
  std::vector<ListPart> parts_;  // this rank's entries by region
  size_t ownFrame_ = 0;          // of this rank's region
  OwnList scratch_, gathered_, sum_;
  ListView sent_, final_;
};

StatePlan okTopkState(uint64_t n, uint32_t ranks, uint32_t) {
  StatePlan plan;
  plan.bounds(&OkTopkState::regions, ranks, n);
  plan.keep(&OkTopkState::sumThreshold, Sound::kMagnitude);
  plan.keep(&OkTopkState::sumDue, Sound::kFlag);
  return plan;
}

constexpr const char* kPaper = "Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598";

constexpr PresetRow kPresets[] = {
    {.name = "oktopk",
     .summary = "regions reduced by their owners, their largest entries gathered",
     .paper = kPaper,
     .selector = sparsecollSelectReusedTopK,
     .collective = sparsecollCollOkTopk},
};

}  // namespace

constinit extern const CollectiveRow kOkTopkRow = {
    .id = sparsecollCollOkTopk,
    .name = "ok_topk",
    .paper = kPaper,
    .make = makeCollective<OkTopk>,
    .perSlot = 64,
    .state = okTopkState,
    .presets = kPresets,
};

}  // namespace sparsecoll
