// SparCML (Renggli et al., SC 2019, arXiv:1802.08021), recursive doubling: in ceil(log2 P) rounds pairs of ranks
// exchange all they have and add it up. Ranks beyond the largest power of two hand their stream to a partner first, and
// get the sum from it in the end.
//
// A stream is a list as long as that is shorter, and a run of n values from then on: when the entries of the lists to
// be added, an upper bound of their sum's, would take as many bytes.
#include "collectives/collectives.h"
#include "collectives/relay.h"
#include "collectives/streams.h"

namespace sparsecoll {

namespace {

class RecursiveDoubling final : public Collective {
 public:
  explicit RecursiveDoubling(const CollectiveSetup& setup)
      : kernels_(*setup.kernels), n_(setup.n), type_(setup.accumulateType) {}

  Status make(const CollectiveSetup& setup) {
    const int rank = setup.transport->rank();
    const int ranks = setup.transport->ranks();
    int core = 1;  // ranks that take part in the doubling
    while (core * 2 <= ranks) core *= 2;
    const int above = rank + core < ranks ? rank + core : PeerRound::kNobody;  // whose stream this rank takes along
    const int below = rank >= core ? rank - core : PeerRound::kNobody;         // who takes this rank's along
    ownFrame_ = frames_.add({setup.capacity, 4, static_cast<uint32_t>(elementBytes(type_))});
    uint64_t held = 1;  // lists that a stream may be the sum of
    if (core < ranks) {
      SC_TRY(addRound(setup, below, above, held));
      held = 2;
    }
    for (int bit = 1; bit < core; bit *= 2) {
      const int peer = rank < core ? rank ^ bit : PeerRound::kNobody;
      SC_TRY(addRound(setup, peer, peer, held));
      held *= 2;
    }
    if (core < ranks) {
      const FrameLayout sum = layoutOf(setup, held);
      SC_TRY(back_, PeerRound::make(setup, above, sum, below, sum));
      goesBack_ = true;
    }
    SC_TRY(frames_.make(*setup.transport, kernels_, setup.budget));
    SC_TRY(relay_, Relay::make(setup));
    return {};
  }

  List target(const Operation& operation) override { return frames_.list(operation, ownFrame_); }

  Result<Delivered> run(const CollectiveStep& step) override {
    relay_.begin(step);
    std::byte* held = frames_.at(*step.operation, ownFrame_);
    own_ = streamOf(held);
    for (Round& round : rounds_) SC_TRY(add(step, round, held));
    sum_ = streamOf(held);
    if (goesBack_) {
      SC_TRY(relay_.exchange(step, back_, held));
      if (back_.receives()) sum_ = streamOf(back_.frame());
    }
    SC_TRY(relay_.end(step));
    kernels_.tally(sum_, nullptr, 0, step.control, step.stream);
    return Delivered{{&sum_, 1}, Combine::kAdd, {&own_, 1}};
  }

 private:
  struct Round {
    PeerRound peers;
    size_t frame = 0;        // of the sum
    bool peerFirst = false;  // the peer's ranks come before this one's
  };

  FrameLayout layoutOf(const CollectiveSetup& setup, uint64_t lists) const {
    return streamLayout(kSparCMLSwitch, setup.capacity * lists, n_, type_);
  }

  Status addRound(const CollectiveSetup& setup, int to, int from, uint64_t held) {
    Round round;
    const FrameLayout layout = layoutOf(setup, held);
    SC_TRY(round.peers, PeerRound::make(setup, to, layout, from, layout));
    if (from != PeerRound::kNobody) round.frame = frames_.add(layoutOf(setup, 2 * held));
    round.peerFirst = from < setup.transport->rank();
    rounds_.push_back(std::move(round));
    return {};
  }

  Status add(const CollectiveStep& step, Round& round, std::byte*& held) {
    SC_TRY(relay_.exchange(step, round.peers, held));
    if (!round.peers.receives()) return {};
    ListView both[] = {streamOf(held), streamOf(round.peers.frame())};
    if (round.peerFirst) std::swap(both[0], both[1]);
    held = frames_.at(*step.operation, round.frame);
    StreamArgs args;
    args.lists = both;
    args.accumulateType = type_;
    args.length = n_;
    args.denseFrom = kSparCMLSwitch.from(n_);
    args.frame = held;
    args.layout = frames_.layout(round.frame);
    return kernels_.stream(args, step.stream);
  }

  Kernels& kernels_;
  uint64_t n_;
  sparsecollDataType_t type_;
  FrameSet frames_;
  Relay relay_;
  size_t ownFrame_ = 0;
  std::vector<Round> rounds_;
  PeerRound back_;
  bool goesBack_ = false;
  ListView own_, sum_;
};

constexpr const char* kPaper = "Renggli et al. 2019 (SparCML), arXiv:1802.08021";

constexpr PresetRow kPresets[] = {
    {.name = "sparcml-rd",
     .summary = "streams by recursive doubling, dense once shorter",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollSparCML},
};

}  // namespace

constinit extern const CollectiveRow kSparCMLRow = {
    .id = sparsecollCollSparCML,
    .name = "sparcml",
    .paper = kPaper,
    .make = makeCollective<RecursiveDoubling>,
    .perSlot = 24,
    .presets = kPresets,
};

}  // namespace sparsecoll
