// Split-allgather: every rank sends each peer its entries of that peer's region; a region's owner adds them up in rank
// order; the regions are gathered by Bruck's algorithm. P - 1 messages, then 2 ceil(log2 P) rounds, the first half of
// them of counts only: from the entries of all regions together every rank knows whether lists or runs of values are
// gathered. SparCML's DSAR and SSAR (Renggli et al., SC 2019) and TopkDSA differ in when that switch happens.
#include "collectives/split_gather.h"

#include <vector>

#include "collectives/collectives.h"
#include "collectives/own_list.h"
#include "collectives/relay.h"
#include "collectives/rules.h"
#include "collectives/split_round.h"
#include "collectives/streams.h"
#include "core/partition.h"

namespace sparsecoll {

namespace {

class SplitGather final : public Collective {
 public:
  SplitGather(const CollectiveSetup& setup, const DenseSwitch& rule)
      : kernels_(*setup.kernels),
        n_(setup.n),
        type_(setup.accumulateType),
        rule_(rule),
        rank_(static_cast<uint32_t>(setup.transport->rank())),
        ranks_(static_cast<uint32_t>(setup.transport->ranks())),
        most_(setup.capacity * ranks_) {}

  Status make(const CollectiveSetup& setup) {
    for (uint32_t r = 0; r <= ranks_; ++r) bounds_.push_back(r < ranks_ ? evenPart(n_, ranks_, r).begin : n_);
    const uint64_t longest = evenPart(n_, ranks_, 0).length();
    SC_TRY(split_, SplitRound::make(setup, std::min(setup.capacity, longest)));
    for (uint32_t r = 0; r < ranks_; ++r) parts_.push_back({split_.selected(), bounds_[r], bounds_[r + 1]});
    SC_TRY(scratch_, OwnList::make(setup, std::min(most_, longest)));
    SC_TRY(reduced_, OwnList::make(setup, std::min(most_, longest)));
    SC_TRY(lengths_, setup.kernels->allocate(ranks_ * sizeof(uint32_t), setup.budget));
    ownFrame_ = frames_.add(layoutOf(1));
    for (uint32_t gap = 1; gap < ranks_; gap *= 2) {
      const uint32_t size = std::min(gap, ranks_ - gap);
      const auto to = static_cast<int>(after(ranks_ - gap));
      const auto from = static_cast<int>(after(gap));
      const FrameLayout numbers{size, 4, 0};
      Round round;
      round.gap = gap;
      round.size = size;
      SC_TRY(round.counts, PeerRound::make(setup, to, numbers, from, numbers));
      round.countsFrame = frames_.add(numbers);
      SC_TRY(round.streams, PeerRound::make(setup, to, layoutOf(size), from, layoutOf(size, gap)));
      round.frame = frames_.add(layoutOf(size));
      setup.kernels->transfer(lengths_.as<uint32_t>() + rounds_.size(), &size, sizeof size, setup.kernels->stream());
      rounds_.push_back(std::move(round));
    }
    sources_.reserve(3 * (rounds_.size() + 1));
    joined_.reserve(6 * (rounds_.size() + 1));
    lists_.reserve(3 * (rounds_.size() + 1));
    SC_TRY(frames_.make(*setup.transport, kernels_, setup.budget));
    SC_TRY(relay_, Relay::make(setup));
    return {};
  }

  List target(const Operation&) override { return split_.target(); }

  Result<Delivered> run(const CollectiveStep& step) override {
    relay_.begin(step);
    SC_TRY(split_.run(step, parts_));
    SC_TRY(reduce(step));
    SC_TRY(gatherCounts(step));
    SC_TRY(gatherStreams(step));
    sent_ = split_.selected();
    return Delivered{lists_, Combine::kAdd, {&sent_, 1}};
  }

 private:
  struct Round {
    uint32_t gap = 0;
    uint32_t size = 0;
    PeerRound counts, streams;
    size_t countsFrame = 0;
    size_t frame = 0;
  };

  uint32_t valueBytes() const { return static_cast<uint32_t>(elementBytes(type_)); }
  uint32_t after(uint32_t steps) const { return (rank_ + steps) % ranks_; }

  // Streams of `size` regions from the one `distance` after this rank's on.
  FrameLayout layoutOf(uint32_t size, uint32_t distance = 0) const {
    uint64_t length = 0;
    for (uint32_t j = 0; j < size; ++j) length += evenPart(n_, ranks_, after(distance + j)).length();
    FrameLayout layout{std::min(most_, length), 4, valueBytes()};
    if (most_ >= rule_.from(n_)) layout.denseCount = length;
    return layout;
  }

  Status reduce(const CollectiveStep& step) {
    MergeCutArgs args;
    args.lists = split_.received();
    args.accumulateType = type_;
    args.n = n_;
    args.limit = &step.control->n;
    args.scratch = scratch_.list();
    args.target = reduced_.list();
    return kernels_.mergeCut(args, step.stream);
  }

  // In the ring's order from this rank on.
  Status gatherCounts(const CollectiveStep& step) {
    uint32_t* const counts = step.tables->collective.as<SplitGatherState>().counts;
    kernels_.copy(counts, reduced_.count.as<>(), sizeof(uint32_t), step.stream);
    for (size_t s = 0; s < rounds_.size(); ++s) {
      Round& round = rounds_[s];
      std::byte* const frame = frames_.at(*step.operation, round.countsFrame);
      kernels_.copy(countIn(frame), lengths_.as<uint32_t>() + s, sizeof(uint32_t), step.stream);
      kernels_.copy(entriesIn(frame), counts, round.size * sizeof(uint32_t), step.stream);
      SC_TRY(relay_.exchange(step, round.counts, frame, Relay::kNoLists));
      kernels_.copy(counts + round.gap, entriesIn(round.counts.frame()), round.size * sizeof(uint32_t), step.stream);
    }
    kernels_.apply(kSplitGatherNote, step.control, step.stream);
    return {};
  }

  Status gatherStreams(const CollectiveStep& step) {
    std::byte* const own = frames_.at(*step.operation, ownFrame_);
    const ListPart reduced{reduced_.view(), bounds_[rank_], bounds_[rank_ + 1]};
    SC_TRY(join(step, {&reduced, 1}, ownFrame_));
    sources_.clear();
    addSource(own, rank_, 1);
    for (Round& round : rounds_) {
      std::byte* frame = own;
      if (round.size > 1) {
        joined_.clear();
        takeUpTo(round.size);
        frame = frames_.at(*step.operation, round.frame);
        SC_TRY(join(step, joined_, round.frame));
      }
      SC_TRY(relay_.exchange(step, round.streams, frame));
      addSource(round.streams.frame(), after(round.gap), round.size);
    }
    lists_.clear();
    for (const ListPart& source : sources_) lists_.push_back(source.list);
    return {};
  }

  // A frame with `size` regions from `first` on: a list of all of them, or runs before and past the end of the vector.
  void addSource(const std::byte* frame, uint32_t first, uint32_t size) {
    const uint32_t end = std::min(first + size, ranks_);
    ListPart part{streamOf(frame), 0, n_};
    part.list.form = ListView::Form::kList;
    sources_.push_back(part);
    part.list.form = ListView::Form::kRun;
    const auto addRun = [&](uint64_t low, uint64_t high) {
      part.low = part.list.first = low;
      part.high = high;
      part.list.runLength = static_cast<uint32_t>(high - low);
      sources_.push_back(part);
      part.list.runBegin += high - low;
    };
    addRun(bounds_[first], bounds_[end]);
    if (first + size > ranks_) addRun(0, bounds_[first + size - ranks_]);
  }

  // The first `size` regions of the ring: as a list in the order of the indices, as runs in the ring's.
  void takeUpTo(uint32_t size) {
    const uint32_t end = rank_ + size;
    const auto take = [&](ListView::Form form, uint64_t low, uint64_t high) {
      for (const ListPart& source : sources_) {
        if (source.list.form != form) continue;
        ListPart part = source;
        part.low = std::max(source.low, low);
        part.high = std::min(source.high, high);
        if (part.low >= part.high) continue;
        if (form == ListView::Form::kRun) {
          part.list.runBegin += part.low - source.low;
          part.list.runLength = static_cast<uint32_t>(part.high - part.low);
          part.list.first = part.low;
        }
        joined_.push_back(part);
      }
    };
    if (end > ranks_) take(ListView::Form::kList, 0, bounds_[end - ranks_]);
    take(ListView::Form::kList, bounds_[rank_], bounds_[std::min(end, ranks_)]);
    take(ListView::Form::kRun, bounds_[rank_], bounds_[std::min(end, ranks_)]);
    if (end > ranks_) take(ListView::Form::kRun, 0, bounds_[end - ranks_]);
  }

  Status join(const CollectiveStep& step, std::span<const ListPart> parts, size_t frame) {
    JoinArgs args;
    args.parts = parts;
    args.accumulateType = type_;
    args.dense = &step.control->collective.as<SplitGatherState>().dense;
    args.frame = frames_.at(*step.operation, frame);
    args.layout = frames_.layout(frame);
    return kernels_.join(args, step.stream);
  }

  Kernels& kernels_;
  uint64_t n_;
  sparsecollDataType_t type_;
  DenseSwitch rule_;
  uint32_t rank_, ranks_;
  uint64_t most_;  // entries that all ranks can select together
  std::vector<uint64_t> bounds_;
  FrameSet frames_;
  Relay relay_;
  SplitRound split_;
  std::vector<ListPart> parts_;  // this rank's entries by region
  OwnList scratch_, reduced_;
  Buffer lengths_;  // of the rounds' messages of counts
  size_t ownFrame_ = 0;
  std::vector<Round> rounds_;
  std::vector<ListPart> sources_, joined_;
  std::vector<ListView> lists_;
  ListView sent_;
};

template <DenseSwitch kRule>
StatePlan splitGatherState(uint64_t n, uint32_t ranks, uint32_t) {
  StatePlan plan;
  plan.start<SplitGatherState>().denseFrom = kRule.from(n);
  plan.table(&SplitGatherState::counts, ranks);
  return plan;
}

template <DenseSwitch kRule>
Result<std::unique_ptr<Collective>> makeSplitGather(const CollectiveSetup& setup) {
  return makeCollective<SplitGather>(setup, kRule);
}

constexpr const char* kPaper = "Renggli et al. 2019 (SparCML), arXiv:1802.08021";
constexpr const char* kTopkDSAPaper = "Renggli et al. 2019 (SparCML); Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598";

constexpr PresetRow kPresets[] = {
    {.name = "sparcml-split",
     .summary = "regions reduced by their owners, then gathered, dense once shorter",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollSplitGather},
};

constexpr PresetRow kTopkDSAPresets[] = {
    {.name = "topkdsa",
     .summary = "the same with the switch at a third of the length",
     .paper = kTopkDSAPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollTopkDSA},
};

}  // namespace

constinit extern const CollectiveRow kSplitGatherRow = {
    .id = sparsecollCollSplitGather,
    .name = "split_gather",
    .paper = kPaper,
    .make = makeSplitGather<kSparCMLSwitch>,
    .perSlot = 64,
    .state = splitGatherState<kSparCMLSwitch>,
    .presets = kPresets,
};

constinit extern const CollectiveRow kTopkDSARow = {
    .id = sparsecollCollTopkDSA,
    .name = "topkdsa",
    .paper = kTopkDSAPaper,
    .make = makeSplitGather<kTopkDSASwitch>,
    .perSlot = 64,
    .state = splitGatherState<kTopkDSASwitch>,
    .presets = kTopkDSAPresets,
};

}  // namespace sparsecoll
