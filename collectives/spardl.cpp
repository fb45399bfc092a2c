// SparDL. P = Q d ranks are d teams of Q positions; the vector is cut into Q blocks, and position b of every team owns
// block b.
//   Spar-Reduce-Scatter: in ceil(log2 Q) rounds a rank sends each foreign block once, as its largest entries at that
//     moment: of acc and of all that came for the block before.
//   Spar-All-Gather: the d owners of a block add up what they have. R-SAG: recursive doubling, cut to the block's share
//     after each round. B-SAG: Bruck's all-gather of a smaller share, cut once.
//   All-gather in the team, Bruck, ceil(log2 Q) rounds.
// Global residual collection: an index outside the final sum stays in the residual of whoever held it first; at an
// index inside, what a rank had received and not passed on goes into that rank's residual.
//
// acc is never changed while this runs. What arrived is kept as lists, and a block is selected from acc plus these
// lists, so nothing of length n is copied.
#include "collectives/spardl.h"
#include "collectives/team_share.h"

#include <algorithm>
#include <iterator>

#include "collectives/collectives.h"
#include "collectives/own_list.h"
#include "collectives/relay.h"
#include "collectives/ring_gather.h"
#include "collectives/rules.h"

namespace sparsecoll {

namespace {

class SparDL final : public Collective {
 public:
  explicit SparDL(const CollectiveSetup& setup)
      : kernels_(*setup.kernels),
        n_(setup.n),
        type_(setup.accumulateType),
        faithful_(setup.faithful),
        recursive_(setup.teamGather == sparsecollTeamGatherRecursive),
        teams_(static_cast<uint32_t>(setup.teams)),
        positions_(static_cast<uint32_t>(setup.transport->ranks() / setup.teams)),
        team_(static_cast<uint32_t>(setup.transport->rank()) / positions_),
        position_(static_cast<uint32_t>(setup.transport->rank()) % positions_),
        rooms_(setup.unitRooms.begin(), setup.unitRooms.end()) {}

  Status make(const CollectiveSetup& setup) {
    SC_TRY(makeScatter(setup));
    SC_TRY(makeTeamGather(setup));
    SC_TRY(makeGather(setup));
    SC_TRY(frames_.make(*setup.transport, kernels_, setup.budget));
    SC_TRY(relay_, Relay::make(setup));
    return {};
  }

  bool selects() const override { return true; }
  List target(const Operation&) override { return {}; }

  Result<Delivered> run(const CollectiveStep& step) override {
    relay_.begin(step);
    sent_.clear();
    arrived_.clear();
    for (ScatterRound& round : scatter_) SC_TRY(scatter(step, round));
    std::byte* held = nullptr;
    SC_TRY(selectOwn(step, held));
    if (teams_ > 1) SC_TRY(recursive_ ? gatherRecursively(step, held) : gatherTeams(step, held));
    SC_TRY(gather_.run(step, relay_, frames_, held, bounds_.as<uint64_t>(), sum_.list()));
    SC_TRY(relay_.end(step));
    final_ = sum_.view();
    kernels_.tally(final_, bounds_.as<uint64_t>(), positions_, step.control, step.stream);
    return Delivered{{&final_, 1}, Combine::kAdd, sent_, true, dropped_};
  }

 private:
  struct ScatterRound {
    PeerRound peers;
    size_t frame = 0;
    std::vector<uint32_t> windows;  // the bag's blocks
    Buffer most;                    // entries that may come for each block
    OwnList dropped;
  };
  struct TeamRound {
    PeerRound peers;
    size_t frame = 0;
    uint32_t partner = 0;  // team, R-SAG
    uint32_t packets = 0;  // sent, and as many received, B-SAG
    OwnList dropped;
  };
  int rankAt(uint32_t team, uint32_t position) const { return static_cast<int>(team * positions_ + position); }
  uint32_t after(uint32_t position, uint32_t steps) const { return (position + steps) % positions_; }
  uint32_t valueBytes() const { return static_cast<uint32_t>(elementBytes(type_)); }
  uint64_t roomOf(RingSpan stretch) const {
    uint64_t room = 0;
    for (uint32_t j = 0; j < stretch.size; ++j) room += rooms_[after(stretch.first, j)];
    return room;
  }
  FrameLayout layoutOf(RingSpan stretch) const { return {roomOf(stretch), 4, valueBytes()}; }

  Status makeScatter(const CollectiveSetup& setup) {
    const std::vector<Bag> bags = bagsOf(positions_);
    uint64_t arrivals = 0;
    for (size_t i = 0; i <= bags.size(); ++i) {
      const bool own = i == bags.size();
      const RingSpan stretch = own ? RingSpan{position_, 1} : RingSpan{after(position_, bags[i].gap), bags[i].size};
      uint64_t dropped = 0;
      for (uint32_t j = 0; j < stretch.size; ++j) {
        dropped += arrivalsOf(bags, i, after(stretch.first, j));
      }
      if (own) {
        SC_TRY(ownDropped_, OwnList::make(setup, dropped));
        dropped_.push_back(ownDropped_.view());
        break;
      }
      ScatterRound round;
      const RingSpan incoming{position_, bags[i].size};
      arrivals += roomOf(incoming);
      SC_TRY(round.peers,
             PeerRound::make(setup, rankAt(team_, after(position_, bags[i].gap)), layoutOf(stretch),
                             rankAt(team_, after(position_, positions_ - bags[i].gap)), layoutOf(incoming)));
      round.frame = frames_.add(layoutOf(stretch));
      for (uint32_t j = 0; j < stretch.size; ++j) round.windows.push_back(after(stretch.first, j));
      std::sort(round.windows.begin(), round.windows.end());
      SC_TRY(round.dropped, OwnList::make(setup, dropped));
      SC_TRY(round.most, setup.kernels->allocate(positions_ * sizeof(uint64_t), setup.budget));
      for (uint32_t j = 0; j < bags[i].size; ++j) {
        const uint32_t block = after(position_, j);
        setup.kernels->transfer(round.most.as<uint64_t>() + block, &rooms_[block], sizeof(uint64_t),
                                setup.kernels->stream());
      }
      dropped_.push_back(round.dropped.view());
      scatter_.push_back(std::move(round));
    }
    // All arrivals, and acc's values there while they are added to it.
    SC_TRY(scratch_, OwnList::make(setup, std::max(2 * arrivals, mostMerged())));
    sent_.reserve(bags.size() + 1);
    arrived_.reserve(bags.size());
    return {};
  }

  // Most entries that can have come for a block before round `round`.
  uint64_t arrivalsOf(const std::vector<Bag>& bags, size_t round, uint32_t block) const {
    const uint32_t distance = after(block, positions_ - position_);
    uint64_t entries = 0;
    for (size_t i = 0; i < round; ++i)
      if (distance < bags[i].size) entries += rooms_[block];
    return entries;
  }

  uint64_t mostMerged() const { return (recursive_ ? 2 : teams_) * rooms_[position_]; }

  Status makeTeamGather(const CollectiveSetup& setup) {
    const uint64_t room = rooms_[position_];
    const FrameLayout own = layoutOf({position_, 1});
    ownFrame_ = frames_.add(own);
    if (teams_ == 1) return {};
    mergedFrame_ = frames_.add(own);
    packets_.resize(teams_);
    parts_.reserve(teams_);
    for (uint32_t s = 0; s < ceilLog2(teams_); ++s) {
      const uint32_t gap = 1u << s;
      TeamRound round;
      round.partner = team_ ^ gap;
      round.packets = std::min(gap, teams_ - gap);
      if (recursive_) {
        const int peer = rankAt(round.partner, position_);
        SC_TRY(round.peers, PeerRound::make(setup, peer, own, peer, own));
        round.frame = frames_.add(own);
        SC_TRY(round.dropped, OwnList::make(setup, 2 * room));
        dropped_.push_back(round.dropped.view());
      } else {
        FrameLayout layout = own;
        layout.capacity *= round.packets;
        if (layout.capacity > UINT32_MAX)
          return unsupported("{} teams with {} entries each in one message", round.packets, room);
        SC_TRY(round.peers, PeerRound::make(setup, rankAt((team_ + teams_ - gap) % teams_, position_), layout,
                                            rankAt((team_ + gap) % teams_, position_), layout));
        round.frame = frames_.add(layout);
      }
      teamRounds_.push_back(std::move(round));
    }
    return {};
  }

  Status makeGather(const CollectiveSetup& setup) {
    std::vector<int> ring;
    for (uint32_t position = 0; position < positions_; ++position) ring.push_back(rankAt(team_, position));
    SC_TRY(gather_,
           RingGather::make(
               setup, std::move(ring), position_, [this](RingSpan stretch) { return roomOf(stretch); }, frames_));
    SC_TRY(sum_, OwnList::make(setup, roomOf({0, positions_})));
    SC_TRY(bounds_, setup.kernels->allocate((positions_ + 1) * sizeof(uint64_t), setup.budget));
    for (uint32_t b = 0; b <= positions_; ++b) {
      const uint64_t begin = b < positions_ ? blockOf(n_, positions_, b).begin : n_;
      setup.kernels->transfer(bounds_.as<uint64_t>() + b, &begin, sizeof begin, setup.kernels->stream());
    }
    return {};
  }

  void cut(const CollectiveStep& step, std::span<const uint32_t> windows, size_t frame, const OwnList& dropped) {
    CutArgs args = step.cut;
    args.windows = windows;
    args.arrivals = arrived_;
    args.scratch = scratch_.list();
    args.dropped = dropped.list();
    args.target = frames_.list(*step.operation, frame);
    kernels_.cut(args, step.stream);
    relay_.note(step);
    sent_.push_back(listOf(frames_.at(*step.operation, frame)));
  }

  Status scatter(const CollectiveStep& step, ScatterRound& round) {
    cut(step, round.windows, round.frame, round.dropped);
    SC_TRY(relay_.exchange(step, round.peers, frames_.at(*step.operation, round.frame)));
    arrived_.push_back(listOf(round.peers.frame()));
    ListRuleArgs args;
    args.control = step.control;
    args.from = arrived_.back();
    args.numbers = round.most.as<uint64_t>();
    return kernels_.apply(kSparDLCheckCounts, args, positions_, step.stream);
  }

  Status selectOwn(const CollectiveStep& step, std::byte*& held) {
    const bool shares = teams_ > 1 && !recursive_;
    if (shares) kernels_.apply(kSparDLTakeShare, step.control, step.stream);
    cut(step, {&position_, 1}, ownFrame_, ownDropped_);
    if (shares) kernels_.apply(kSparDLPutBackLimit, step.control, step.stream);
    held = frames_.at(*step.operation, ownFrame_);
    return {};
  }

  MergeCutArgs mergeOwnBlock(const CollectiveStep& step, std::span<const ListView> lists, size_t frame) {
    MergeCutArgs args;
    args.lists = lists;
    args.accumulateType = type_;
    args.n = n_;
    args.limit = &step.tables->windows[position_].limit;
    args.scratch = scratch_.list();
    args.scratch.count = &step.control->collective.as<SparDLState>().merged;
    args.target = frames_.list(*step.operation, frame);
    return args;
  }

  Status gatherRecursively(const CollectiveStep& step, std::byte*& held) {
    double holders = 1;  // ranks that hold the same list
    for (TeamRound& round : teamRounds_) {
      SC_TRY(relay_.exchange(step, round.peers, held));
      ListView both[] = {listOf(held), listOf(round.peers.frame())};
      if (round.partner < team_) std::swap(both[0], both[1]);
      held = frames_.at(*step.operation, round.frame);
      holders *= 2;
      MergeCutArgs args = mergeOwnBlock(step, both, round.frame);
      args.dropped = round.dropped.list();
      args.droppedScale = 1 / holders;  // each of them drops the same entries
      SC_TRY(kernels_.mergeCut(args, step.stream));
    }
    return {};
  }

  Status gatherTeams(const CollectiveStep& step, std::byte*& held) {
    packets_[team_] = listOf(held);
    uint32_t gap = 1;
    for (TeamRound& round : teamRounds_) {
      std::byte* frame = held;
      if (round.packets > 1) {
        parts_.clear();
        for (uint32_t m = 0; m < round.packets; ++m) parts_.push_back({packets_[(team_ + m) % teams_]});
        frame = frames_.at(*step.operation, round.frame);
        SC_TRY(kernels_.concatenate(parts_, type_, frames_.list(*step.operation, round.frame), step.stream));
      }
      SC_TRY(relay_.exchange(step, round.peers, frame, round.packets));
      ListView packet = listOf(round.peers.frame());
      packet.parts = round.packets;
      for (packet.part = 0; packet.part < packet.parts; ++packet.part)
        packets_[(team_ + gap + packet.part) % teams_] = packet;
      gap *= 2;
    }
    held = frames_.at(*step.operation, mergedFrame_);
    SC_TRY(kernels_.mergeCut(mergeOwnBlock(step, packets_, mergedFrame_), step.stream));
    // Every owner of the block has dropped the same entries and none of these is in the sum any more: they stay where
    // they came from.
    kernels_.apply(faithful_ ? kSparDLMoveShareAsPublished : kSparDLMoveShare, step.control, step.stream);
    return {};
  }

  Kernels& kernels_;
  uint64_t n_;
  sparsecollDataType_t type_;
  bool faithful_, recursive_;
  uint32_t teams_, positions_, team_, position_;
  std::vector<uint64_t> rooms_;  // by block
  Buffer bounds_;                // of the blocks
  FrameSet frames_;
  Relay relay_;
  std::vector<ScatterRound> scatter_;
  std::vector<TeamRound> teamRounds_;
  RingGather gather_;
  size_t ownFrame_ = 0;
  size_t mergedFrame_ = 0;
  OwnList scratch_, ownDropped_, sum_;
  std::vector<ListView> sent_, arrived_, dropped_, packets_;
  std::vector<ListPart> parts_;
  ListView final_;
};

StatePlan sparDLState(uint64_t, uint32_t, uint32_t teams) {
  StatePlan plan;
  plan.start<SparDLState>().teams = teams;
  for (double SparDLState::*const number :
       {&SparDLState::entries, &SparDLState::step, &SparDLState::confirmed, &SparDLState::wanted})
    plan.keep(number, Sound::kFinite, Saved::kAgreed);
  return plan;
}

constexpr const char* kPaper = "Zhao et al. 2024 (SparDL), arXiv:2304.00737";

constexpr PresetRow kPresets[] = {
    {.name = "spardl",
     .summary = "blocks scattered and reduced, cut before every send",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollSparDL,
     .teams = 1},
    {.name = "spardl-rsag",
     .summary = "in teams, which meet by recursive doubling",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollSparDL,
     .teamGather = sparsecollTeamGatherRecursive},
    {.name = "spardl-bsag",
     .summary = "in teams, which meet with adaptive shares",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollSparDL,
     .teamGather = sparsecollTeamGatherBruck},
};

}  // namespace

constinit extern const CollectiveRow kSparDLRow = {
    .id = sparsecollCollSparDL,
    .name = "spardl",
    .paper = kPaper,
    .make = makeCollective<SparDL>,
    .perSlot = 24,
    .blocks = true,
    .state = sparDLState,
    .presets = kPresets,
};

}  // namespace sparsecoll
