// The exchange of DEFT, MiCRO, SAGE and ExDyna without ever forming the union: indices are gathered by all; each rank
// sends its values at list w's indices to rank w; w sums them in rank order; the sums are gathered by all. Three
// rounds. Where lists overlap the same sum arrives twice and is assigned. For disjoint lists with K entries together a
// rank sends about 12 K (P - 1) / P bytes.
#include "collectives/collectives.h"
#include "collectives/full_round.h"

namespace sparsecoll {

namespace {

const uint32_t* countIn(const std::byte* frame) {
  return reinterpret_cast<const uint32_t*>(frame + offsetof(FrameHeader, count));
}

class IndexUnion final : public Collective {
 public:
  IndexUnion(const CollectiveSetup& setup, std::unique_ptr<FrameWindow> window, FullRound indices, FullRound values,
             FullRound sums)
      : kernels_(*setup.kernels),
        transport_(*setup.transport),
        n_(setup.n),
        type_(setup.accumulateType),
        window_(std::move(window)),
        indices_(std::move(indices)),
        values_(std::move(values)),
        sums_(std::move(sums)) {
    const auto ranks = static_cast<size_t>(transport_.ranks());
    lists_.resize(ranks);
    counts_.resize(ranks);
    ownCounts_.resize(ranks);
    valueFrames_.resize(ranks);
    peerLists_.reserve(ranks);
    peerValues_.reserve(ranks);
    contributions_.resize(ranks);
  }

  // A set of frames: own indices, own sums, values for each rank. Two sets are used in turn.
  static uint64_t setBytes(const FrameLayout& indices, const FrameLayout& values, int ranks) {
    return indices.capacityBytes() + (1 + static_cast<uint64_t>(ranks)) * values.capacityBytes();
  }

  List target(const Operation& operation) override {
    std::byte* const frame = indexFrame(operation);
    List list;
    list.count = reinterpret_cast<uint32_t*>(frame + offsetof(FrameHeader, count));
    list.indices = reinterpret_cast<uint32_t*>(frame + kFrameHeaderBytes);
    list.capacity = indices_.layout().capacity;
    // Its values at its own indices need not be looked up in acc.
    list.where = List::Values::kApart;
    list.values = valueFrame(operation, static_cast<size_t>(transport_.rank())) + kFrameHeaderBytes;
    return list;
  }

  Result<Delivered> run(const CollectiveStep& step) override {
    const FrameExpectation identity = step.operation->identity();
    SC_TRY(gatherIndices(step, identity));
    SC_TRY(exchangeValues(step, identity));
    SC_TRY(gatherSums(step, identity));
    // Every rank's value at every index is in the sum.
    return Delivered{lists_, Combine::kAssign, lists_};
  }

 private:
  Status gatherIndices(const CollectiveStep& step, const FrameExpectation& identity) {
    std::byte* const own = indexFrame(*step.operation);
    const bool withPayload = transport_.checksumsPayload();
    kernels_.seal({own, indices_.layout(), identity, step.control, withPayload}, step.stream);
    SC_TRY(indices_.sameToAll(*step.operation, own, step.stream));
    SC_TRY(
        kernels_.open({indices_.frames(), indices_.bytes(), indices_.layout(), identity, step.control, {}, withPayload},
                      step.stream));
    for (size_t w = 0; w < lists_.size(); ++w) {
      const std::byte* const frame = indices_.frames()[w];
      counts_[w] = countIn(frame);
      lists_[w] = {frame + kFrameHeaderBytes, nullptr, counts_[w]};
    }
    return {};
  }

  Status exchangeValues(const CollectiveStep& step, const FrameExpectation& identity) {
    const bool withPayload = transport_.checksumsPayload();
    const auto self = static_cast<size_t>(transport_.rank());
    peerLists_.clear();
    peerValues_.clear();
    for (size_t w = 0; w < lists_.size(); ++w) {
      valueFrames_[w] = valueFrame(*step.operation, w);
      if (w == self) continue;
      peerLists_.push_back(lists_[w]);
      peerValues_.push_back(valuesOf(valueFrames_[w]));
    }
    kernels_.copy(valuesOf(valueFrames_[self]).count, counts_[self], sizeof(uint32_t), step.stream);
    SC_TRY(kernels_.gather(step.acc, type_, n_, peerLists_, peerValues_, step.stream));
    for (std::byte* const frame : valueFrames_)
      kernels_.seal({frame, values_.layout(), identity, nullptr, withPayload}, step.stream);
    SC_TRY(values_.oneToEach(*step.operation, valueFrames_, step.stream));
    std::fill(ownCounts_.begin(), ownCounts_.end(), counts_[self]);
    return kernels_.open(
        {values_.frames(), values_.bytes(), values_.layout(), identity, nullptr, ownCounts_, withPayload}, step.stream);
  }

  Status gatherSums(const CollectiveStep& step, const FrameExpectation& identity) {
    const bool withPayload = transport_.checksumsPayload();
    const auto self = static_cast<size_t>(transport_.rank());
    for (size_t r = 0; r < contributions_.size(); ++r) contributions_[r] = values_.frames()[r] + kFrameHeaderBytes;
    std::byte* const own = sumFrame(*step.operation);
    kernels_.sumValues(contributions_, type_, counts_[self], valuesOf(own), step.stream);
    kernels_.seal({own, sums_.layout(), identity, nullptr, withPayload}, step.stream);
    SC_TRY(sums_.sameToAll(*step.operation, own, step.stream));
    SC_TRY(kernels_.open({sums_.frames(), sums_.bytes(), sums_.layout(), identity, nullptr, counts_, withPayload},
                         step.stream));
    for (size_t w = 0; w < lists_.size(); ++w) lists_[w].values = sums_.frames()[w] + kFrameHeaderBytes;
    return {};
  }

  static List valuesOf(std::byte* frame) {
    List list;
    list.count = reinterpret_cast<uint32_t*>(frame + offsetof(FrameHeader, count));
    list.values = frame + kFrameHeaderBytes;
    return list;
  }

  std::byte* indexFrame(const Operation& operation) const {
    return window_->data() + (operation.turn % 2) * setBytes(indices_.layout(), values_.layout(), transport_.ranks());
  }
  std::byte* sumFrame(const Operation& operation) const {
    return indexFrame(operation) + indices_.layout().capacityBytes();
  }

  std::byte* valueFrame(const Operation& operation, size_t rank) const {
    return sumFrame(operation) + (1 + rank) * values_.layout().capacityBytes();
  }

  Kernels& kernels_;
  Transport& transport_;
  uint64_t n_;
  sparsecollDataType_t type_;
  std::unique_ptr<FrameWindow> window_;
  FullRound indices_, values_, sums_;
  std::vector<ListView> lists_;
  std::vector<const uint32_t*> counts_;     // of each rank's list
  std::vector<const uint32_t*> ownCounts_;  // this rank's, once a rank
  std::vector<std::byte*> valueFrames_;
  std::vector<ListView> peerLists_;  // all but this rank's
  std::vector<List> peerValues_;
  std::vector<const void*> contributions_;
};

Result<std::unique_ptr<Collective>> makeIndexUnion(const CollectiveSetup& setup) {
  const FrameLayout indices{setup.capacity, 4, 0};
  const FrameLayout values{setup.capacity, 0, static_cast<uint32_t>(elementBytes(setup.accumulateType))};
  Transport& transport = *setup.transport;
  SC_TRY(auto window, transport.makeWindow(2 * IndexUnion::setBytes(indices, values, transport.ranks()), setup.budget));
  SC_TRY(auto indexRound, FullRound::make(transport, *setup.kernels, indices, setup.budget));
  SC_TRY(auto valueRound, FullRound::make(transport, *setup.kernels, values, setup.budget));
  SC_TRY(auto sumRound, FullRound::make(transport, *setup.kernels, values, setup.budget));
  return std::unique_ptr<Collective>(
      new IndexUnion(setup, std::move(window), std::move(indexRound), std::move(valueRound), std::move(sumRound)));
}

}  // namespace

constinit extern const CollectiveRow kIndexUnionRow = {
    .id = sparsecollCollIndexUnion,
    .name = "index_union",
    .paper = "Yoon and Oh 2023 (MiCRO), arXiv:2310.00967",
    .make = makeIndexUnion,
    .contributors = Contributors::kAll,
    .facts = true,
    .perSlot = 8,
};

}  // namespace sparsecoll
