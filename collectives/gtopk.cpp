// gTop-k (Shi et al., ICDCS 2019): lists of k entries climb a binomial tree; who receives one keeps the k largest
// entries of the sum of both. The root's list goes back down. 2 ceil(log2 P) rounds, at most 4 k ceil(log2 P) words on
// the busiest rank, any P.
//
// An entry that is dropped on the way may still be in the final list, through another branch. Published code forgets
// it then; here it comes back to the residual of the rank that dropped it, so nothing is lost. Faithful: it is
// forgotten and counted.
#include "collectives/collectives.h"
#include "collectives/own_list.h"
#include "collectives/relay.h"
#include "core/partition.h"

namespace sparsecoll {

namespace {

class GTopK final : public Collective {
 public:
  explicit GTopK(const CollectiveSetup& setup)
      : kernels_(*setup.kernels), n_(setup.n), type_(setup.accumulateType), faithful_(setup.faithful) {}

  Status make(const CollectiveSetup& setup) {
    const int rank = setup.transport->rank();
    const int ranks = setup.transport->ranks();
    const FrameLayout own{setup.capacity, 4, static_cast<uint32_t>(elementBytes(type_))};
    FrameLayout merged = own;
    merged.capacity = std::max(setup.capacity, setup.mostEntries);
    ownFrame_ = frames_.add(own);
    passedOn_ = frames_.add(merged);
    const auto levels = static_cast<int>(ceilLog2(static_cast<uint64_t>(ranks)));
    SC_TRY(scratch_, OwnList::make(setup, 2 * merged.capacity));
    for (int level = 0; level < levels; ++level) {
      const int bit = 1 << level;
      const bool parent = rank % (2 * bit) == 0 && rank + bit < ranks;
      const bool child = rank % (2 * bit) == bit;
      Level made;
      SC_TRY(made.up, PeerRound::make(setup, child ? rank - bit : PeerRound::kNobody, merged,
                                      parent ? rank + bit : PeerRound::kNobody, merged));
      SC_TRY(made.down, PeerRound::make(setup, parent ? rank + bit : PeerRound::kNobody, merged,
                                        child ? rank - bit : PeerRound::kNobody, merged));
      if (parent) {
        made.frame = frames_.add(merged);
        SC_TRY(made.dropped, OwnList::make(setup, 2 * merged.capacity));
        dropped_.push_back(made.dropped.view());
      }
      levels_.push_back(std::move(made));
    }
    SC_TRY(frames_.make(*setup.transport, kernels_, setup.budget));
    SC_TRY(relay_, Relay::make(setup));
    return {};
  }

  List target(const Operation& operation) override { return frames_.list(operation, ownFrame_); }

  Result<Delivered> run(const CollectiveStep& step) override {
    relay_.begin(step);
    std::byte* const own = frames_.at(*step.operation, ownFrame_);
    std::byte* held = own;
    for (Level& level : levels_) SC_TRY(climb(step, level, held));
    sum_ = listOf(held);
    for (size_t l = levels_.size(); l-- > 0;) SC_TRY(descend(step, levels_[l], held));
    SC_TRY(relay_.end(step));
    kernels_.tally(sum_, nullptr, 0, step.control, step.stream);
    sent_ = listOf(own);
    return Delivered{{&sum_, 1}, Combine::kAdd, {&sent_, 1}, true, dropped_, faithful_};
  }

 private:
  struct Level {
    PeerRound up, down;
    size_t frame = 0;  // of the sum with the child's list
    OwnList dropped;
  };

  Status climb(const CollectiveStep& step, Level& level, std::byte*& held) {
    SC_TRY(relay_.exchange(step, level.up, held));
    if (!level.up.receives()) return {};
    const ListView both[] = {listOf(held), listOf(level.up.frame())};
    held = frames_.at(*step.operation, level.frame);
    MergeCutArgs args;
    args.lists = both;
    args.accumulateType = type_;
    args.n = n_;
    args.limit = &step.control->k;
    args.scratch = scratch_.list();
    args.target = frames_.list(*step.operation, level.frame);
    args.dropped = level.dropped.list();
    return kernels_.mergeCut(args, step.stream);
  }

  // The final list comes from the parent and goes to the children below.
  Status descend(const CollectiveStep& step, Level& level, std::byte*& held) {
    SC_TRY(relay_.exchange(step, level.down, held));
    if (!level.down.receives()) return {};
    const ListPart all{listOf(level.down.frame())};
    held = frames_.at(*step.operation, passedOn_);
    sum_ = listOf(held);
    return kernels_.concatenate({&all, 1}, type_, frames_.list(*step.operation, passedOn_), step.stream);
  }

  Kernels& kernels_;
  uint64_t n_;
  sparsecollDataType_t type_;
  bool faithful_;
  FrameSet frames_;
  Relay relay_;
  size_t ownFrame_ = 0;
  size_t passedOn_ = 0;
  std::vector<Level> levels_;
  OwnList scratch_;
  std::vector<ListView> dropped_;
  ListView sum_, sent_;
};

constexpr const char* kPaper = "Shi et al. 2019 (gTop-k), arXiv:1901.04359";

constexpr PresetRow kPresets[] = {
    {.name = "gtopk",
     .summary = "lists merged on a tree, cut to k at every step",
     .paper = kPaper,
     .selector = sparsecollSelectTopK,
     .collective = sparsecollCollGTopk},
};

}  // namespace

constinit extern const CollectiveRow kGTopKRow = {
    .id = sparsecollCollGTopk,
    .name = "gtopk",
    .paper = kPaper,
    .make = makeCollective<GTopK>,
    .perSlot = 24,
    .presets = kPresets,
};

}  // namespace sparsecoll
