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
#include "collectives/frame_set.h"
#include "collectives/full_round.h"
#include "collectives/relay.h"
#include "collectives/ring_gather.h"
#include "collectives/rules.h"

namespace sparsecoll {

namespace {

class OkTopk final : public Collective {
 public:
  explicit OkTopk(const CollectiveSetup& setup)
      : kernels_(*setup.kernels),
        transport_(*setup.transport),
        n_(setup.n),
        type_(setup.accumulateType),
        rank_(static_cast<uint32_t>(setup.transport->rank())),
        ranks_(static_cast<uint32_t>(setup.transport->ranks())),
        end_(setup.faithful ? kOkTopkEndFaithful : kOkTopkEnd) {}

  Status make(const CollectiveSetup& setup) {
    const auto valueBytes = static_cast<uint32_t>(elementBytes(type_));
    const FrameLayout part{std::min(setup.capacity, n_), 4, valueBytes};
    // A region may be any part of the vector, so it may have what all ranks select.
    const FrameLayout region{std::min(setup.capacity * ranks_, n_), 4, valueBytes};
    for (uint32_t r = 0; r < ranks_; ++r) parts_.push_back(frames_.add(part));
    partFrames_.resize(ranks_);
    received_.resize(ranks_);
    SC_TRY(split_, FullRound::make(transport_, kernels_, part, setup.budget));
    SC_TRY(own_, OwnList::make(setup, setup.capacity));
    SC_TRY(scratch_, OwnList::make(setup, region.capacity));
    SC_TRY(gathered_, OwnList::make(setup, region.capacity));
    SC_TRY(sum_, OwnList::make(setup, region.capacity));
    ownFrame_ = frames_.add(region);
    std::vector<int> ring;
    for (uint32_t r = 0; r < ranks_; ++r) ring.push_back(static_cast<int>(r));
    SC_TRY(gather_, RingGather::make(
                        setup, std::move(ring), rank_, [&](Stretch) { return region.capacity; }, frames_));
    SC_TRY(frames_.make(setup));
    SC_TRY(relay_, Relay::make(setup));
    return {};
  }

  List target(const Operation&) override { return own_.list(); }

  Result<Delivered> run(const CollectiveStep& step) override {
    relay_.begin(step);
    kernels_.apply(kOkTopkBegin, step.control, step.stream);
    SC_TRY(split(step));
    auto& state = step.control->collective.as<OkTopkState>();
    const uint64_t* const regions = regionsOf(step);
    std::byte* const own = frames_.at(*step.operation, ownFrame_);
    SC_TRY(cut(step, received_, &step.control->n, listIn(own, frames_.layout(ownFrame_)), nullptr));
    SC_TRY(gather_.run(step, relay_, frames_, own, regions, gathered_.list()));
    const ListView gathered = gathered_.view();
    SC_TRY(cut(step, {&gathered, 1}, &state.sumLimit, sum_.list(), &state.sumKept));
    final_ = sum_.view();
    kernels_.tally(final_, regions, ranks_, step.control, step.stream);
    kernels_.apply(end_, step.control, step.stream);
    ListRuleArgs sum;
    sum.control = step.control;
    sum.from = final_;
    SC_TRY(kernels_.apply(kOkTopkCutRegions, sum, ranks_, step.stream));
    sent_ = own_.view();
    return Delivered{{&final_, 1}, Combine::kAdd, {&sent_, 1}, true};
  }

 private:
  static const uint64_t* regionsOf(const CollectiveStep& step) {
    return step.tables->collective.as<OkTopkState>().regions;
  }

  Status split(const CollectiveStep& step) {
    Operation& operation = *step.operation;
    const FrameExpectation identity = operation.identity();
    const bool withPayload = transport_.checksumsPayload();
    for (uint32_t w = 0; w < ranks_; ++w) {
      std::byte* const frame = partFrames_[w] = frames_.at(operation, parts_[w]);
      ListPart part{own_.view()};
      part.lowAt = regionsOf(step) + w;
      part.highAt = regionsOf(step) + w + 1;
      SC_TRY(kernels_.concatenate({&part, 1}, type_, listIn(frame, split_.layout()), step.stream));
      kernels_.seal({frame, split_.layout(), identity, step.control, withPayload}, step.stream);
    }
    SC_TRY(split_.oneToEach(operation, partFrames_, step.stream));
    SC_TRY(kernels_.open({split_.frames(), split_.bytes(), split_.layout(), identity, step.control, {}, withPayload},
                         step.stream));
    for (uint32_t r = 0; r < ranks_; ++r) received_[r] = viewOf(split_.frames()[r]);
    for (const ListView& list : received_) SC_TRY(kernels_.checkOrder(list, n_, step.stream));
    return {};
  }

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
  Transport& transport_;
  uint64_t n_;
  sparsecollDataType_t type_;
  uint32_t rank_, ranks_;
  const Rule& end_;
  FrameSet frames_;
  Relay relay_;
  FullRound split_;
  RingGather gather_;
  std::vector<size_t> parts_;
  std::vector<std::byte*> partFrames_;
  std::vector<ListView> received_;
  size_t ownFrame_ = 0;
  OwnList own_, scratch_, gathered_, sum_;
  ListView sent_, final_;
};

StatePlan okTopkState(uint64_t n, uint32_t ranks, uint32_t) {
  StatePlan plan;
  plan.bounds(&OkTopkState::regions, ranks, n);
  plan.keep(&OkTopkState::sumThreshold, Sound::kMagnitude);
  plan.keep(&OkTopkState::sumDue, Sound::kFlag);
  return plan;
}

Result<std::unique_ptr<Collective>> makeOkTopk(const CollectiveSetup& setup) {
  auto topk = std::make_unique<OkTopk>(setup);
  SC_TRY(topk->make(setup));
  return std::unique_ptr<Collective>(std::move(topk));
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
    .make = makeOkTopk,
    .perSlot = 64,
    .state = okTopkState,
    .presets = kPresets,
};

}  // namespace sparsecoll
