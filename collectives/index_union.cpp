// The exchange of DEFT, MiCRO, SAGE and ExDyna without ever forming the union: indices are gathered by all; each rank
// sends its values at list w's indices to rank w; w sums them in rank order; the sums are gathered by all. Three
// rounds. Where lists overlap the same sum arrives twice and is assigned. For disjoint lists with K entries together a
// rank sends about 12 K (P - 1) / P bytes.
#include "collectives/collectives.h"
#include "collectives/rounds.h"

namespace sparsecoll {

namespace {

class IndexUnion final : public Collective {
 public:
  explicit IndexUnion(const CollectiveSetup& setup)
      : kernels_(*setup.kernels),
        n_(setup.n),
        type_(setup.accumulateType),
        self_(static_cast<size_t>(setup.transport->rank())),
        lists_(static_cast<size_t>(setup.transport->ranks())),
        counts_(lists_.size()),
        ownCounts_(lists_.size()),
        contributions_(lists_.size()) {
    peerLists_.reserve(lists_.size());
    peerValues_.reserve(lists_.size());
  }

  Status make(const CollectiveSetup& setup) {
    using enum FullRound::Sends;
    const FrameLayout indices{setup.capacity, 4, 0};
    const FrameLayout values{setup.capacity, 0, static_cast<uint32_t>(elementBytes(type_))};
    SC_TRY(indices_, FullRound::make(*setup.transport, kernels_, indices, kSameToAll, setup.budget));
    SC_TRY(values_, FullRound::make(*setup.transport, kernels_, values, kOneToEach, setup.budget));
    SC_TRY(sums_, FullRound::make(*setup.transport, kernels_, values, kSameToAll, setup.budget));
    return {};
  }

  List target(const Operation& operation) override {
    List list = indices_.list(operation);
    // Its values at its own indices need not be looked up in acc.
    list.where = List::Values::kApart;
    list.values = entriesIn(values_.frame(operation, self_));
    return list;
  }

  Result<Delivered> run(const CollectiveStep& step) override {
    SC_TRY(gatherIndices(step));
    SC_TRY(exchangeValues(step));
    SC_TRY(gatherSums(step));
    // Every rank's value at every index is in the sum.
    return Delivered{lists_, Combine::kAssign, lists_};
  }

 private:
  Status gatherIndices(const CollectiveStep& step) {
    SC_TRY(indices_.run(*step.operation, step.stream, step.control));
    for (size_t w = 0; w < lists_.size(); ++w) {
      lists_[w] = listOf(indices_.from(w));
      counts_[w] = lists_[w].count;
    }
    return {};
  }

  // To rank w go this rank's values at w's indices; what comes has this rank's.
  Status exchangeValues(const CollectiveStep& step) {
    peerLists_.clear();
    peerValues_.clear();
    for (size_t w = 0; w < lists_.size(); ++w) {
      if (w == self_) continue;
      peerLists_.push_back(lists_[w]);
      peerValues_.push_back(valuesIn(values_.frame(*step.operation, w)));
    }
    kernels_.copy(countIn(values_.frame(*step.operation, self_)), counts_[self_], sizeof(uint32_t), step.stream);
    SC_TRY(kernels_.gather(step.acc, type_, n_, peerLists_, peerValues_, step.stream));
    std::fill(ownCounts_.begin(), ownCounts_.end(), counts_[self_]);
    return values_.run(*step.operation, step.stream, nullptr, ownCounts_);
  }

  Status gatherSums(const CollectiveStep& step) {
    for (size_t r = 0; r < contributions_.size(); ++r) contributions_[r] = entriesIn(values_.from(r));
    kernels_.sumValues(contributions_, type_, counts_[self_], valuesIn(sums_.frame(*step.operation)), step.stream);
    SC_TRY(sums_.run(*step.operation, step.stream, nullptr, counts_));
    for (size_t w = 0; w < lists_.size(); ++w) lists_[w].values = entriesIn(sums_.from(w));
    return {};
  }

  Kernels& kernels_;
  const uint64_t n_;
  const sparsecollDataType_t type_;
  const size_t self_;
  FullRound indices_, values_, sums_;
  std::vector<ListView> lists_;
  std::vector<const uint32_t*> counts_;     // of each rank's list
  std::vector<const uint32_t*> ownCounts_;  // this rank's, once a rank
  std::vector<ListView> peerLists_;         // all but this rank's
  std::vector<List> peerValues_;
  std::vector<const void*> contributions_;
};

}  // namespace

constinit extern const CollectiveRow kIndexUnionRow = {
    .id = sparsecollCollIndexUnion,
    .name = "index_union",
    .paper = "Yoon and Oh 2023 (MiCRO), arXiv:2310.00967",
    .make = makeCollective<IndexUnion>,
    .contributors = Contributors::kAll,
    .facts = true,
    .perSlot = 8,
};

}  // namespace sparsecoll
