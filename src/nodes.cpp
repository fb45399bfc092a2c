#include "src/nodes.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/environment.h"
#include "core/limits.h"
#include "core/numeric.h"
#include "src/communicator.h"
#include "transports/common.h"
#include "transports/some_ranks.h"

namespace sparsecoll {

namespace {

// Rounds are compared between ranks that have not been through equally many: each level counts from a number of its
// own.
constexpr uint32_t kFirstBetween = 1u << 10;
constexpr uint32_t kFirstGather = 1u << 19;

// Whole lines, so that a shard of an aligned vector is aligned.
Range shardOf(uint64_t n, size_t shards, size_t shard) {
  if (shard >= shards) return {n, n};
  return densePart(n, static_cast<int>(shards), static_cast<int>(shard));
}

// Elements below `end` that are selected from.
uint64_t selectable(const std::vector<sparsecollSegment_t>& segments, uint64_t end) {
  uint64_t below = end;
  uint64_t begin = 0;
  for (const sparsecollSegment_t& segment : segments) {
    if (segment.dense != 0 && begin < end) below -= std::min(segment.length, end - begin);
    begin += segment.length;
  }
  return below;
}

// Of `entries` that the vector is asked for, those of the shard: by the elements that are selected from.
uint64_t shareOf(uint64_t entries, const ReducerSpec& whole, const Range& shard) {
  const uint64_t n = selectable(whole.segments, whole.n);
  if (n == 0) return 0;
  const uint64_t all = std::min(entries, n);  // both below 2^32
  return all * selectable(whole.segments, shard.end) / n - all * selectable(whole.segments, shard.begin) / n;
}

std::vector<sparsecollSegment_t> cutSegments(const std::vector<sparsecollSegment_t>& whole, const Range& shard) {
  std::vector<sparsecollSegment_t> cut;
  uint64_t begin = 0;
  for (sparsecollSegment_t segment : whole) {
    const uint64_t end = begin + segment.length;
    const Range common{std::max(begin, shard.begin), std::min(end, shard.end)};
    begin = end;
    if (common.begin >= common.end) continue;
    segment.length = common.length();
    cut.push_back(segment);
  }
  return cut;
}

}  // namespace

Result<int32_t> ranksPerNodeOf(int32_t configured) {
  if (configured < 0 || configured > kMaxRanks) return invalid("config.ranksPerNode is {}", configured);
  if (configured != 0) return configured;
  SC_TRY(const uint64_t told, environmentNumber(variable::kRanksPerNode, 0, {1, kMaxRanks, "a number of ranks"}));
  return static_cast<int32_t>(told);
}

NodeMap nodesOf(const Communicator& comm, std::span<const uint64_t> nameOf) {
  NodeMap map;
  std::vector<uint64_t> names;  // of the nodes
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    const uint64_t name = nameOf[static_cast<size_t>(rank)];
    const auto node = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (node == names.size()) {
      names.push_back(name);
      map.nodes.emplace_back();
    }
    if (rank == comm.rank()) {
      map.node = node;
      map.place = map.nodes[node].size();
    }
    map.nodes[node].push_back(rank);
  }
  map.smallest = map.nodes[0].size();
  for (const std::vector<int>& node : map.nodes) map.smallest = std::min(map.smallest, node.size());
  return map;
}

Result<std::unique_ptr<NodeLevel>> NodeLevel::make(Communicator& comm, std::span<const uint64_t> nameOf,
                                                   const ReducerSpec& spec,
                                                   const std::shared_ptr<MemoryBudget>& budget) {
  const NodeMap map = nodesOf(comm, nameOf);
  std::unique_ptr<NodeLevel> level(new NodeLevel());
  level->transport_ = &comm.transport();
  level->kernels_ = &comm.kernels();
  level->onHost_ = comm.onHost();
  level->n_ = spec.n;
  level->type_ = spec.type;
  level->sumType_ = spec.accumulateType;
  level->nodes_ = map.nodes.size();
  level->node_ = map.node;
  level->place_ = map.place;
  level->shards_ = map.smallest;
  level->members_ = map.nodes[map.node];
  for (size_t place = 0; place < level->members_.size(); ++place)
    level->parts_.push_back(shardOf(spec.n, map.smallest, place));
  level->shard_ = level->parts_[map.place];
  level->shardAt_ = level->shard_.begin * elementBytes(spec.type);
  std::vector<int> owners;
  if (level->owns())
    for (const std::vector<int>& node : map.nodes) owners.push_back(node[map.place]);
  else
    owners.push_back(comm.rank());
  level->between_ = amongSomeRanks(comm.transport(), std::move(owners));
  if (!level->onHost_) {
    level->inside_ = amongSomeRanks(comm.transport(), level->members_);
    SC_TRY(level->whether_, FullRound::make(*level->inside_, comm.kernels(), {}, FullRound::Sends::kSameToAll, budget));
  }
  SC_TRY(const uint64_t bytes, checkedMul(level->shard_.length(), elementBytes(level->sumType_)));
  if (bytes != 0) {
    SC_TRY(level->sum_, comm.kernels().allocate(bytes, budget));
  }
  if (spec.params.clipNorm != 0 && level->owns()) SC_TRY(level->allocateClipping(comm, spec.params.clipNorm, budget));
  return level;
}

Status NodeLevel::allocateClipping(Communicator& comm, double clipNorm, const std::shared_ptr<MemoryBudget>& budget) {
  mostNorm_ = clipNorm / std::sqrt(static_cast<double>(nodes_));
  std::vector<int> owners;
  for (size_t place = 0; place < members_.size(); ++place)
    if (parts_[place].length() != 0) owners.push_back(members_[place]);
  SC_TRY(squares_, kernels_->allocate(owners.size() * sizeof(double), budget));
  SC_TRY(clipped_, kernels_->allocate(sizeof(double), budget));
  owners_ = amongSomeRanks(comm.transport(), std::move(owners));
  CollectiveSetup setup;
  setup.kernels = kernels_;
  setup.transport = owners_.get();
  setup.budget = budget;
  SC_TRY(norms_, Survey::make(setup, 1, squares_.as<double>()));
  return {};
}

Status NodeLevel::scatter(Operation& operation, const void* gradient, Stream stream) {
  sentBetween_ = receivedBetween_ = 0;
  roundsInside_ = roundsBetween_ = 0;
  const DenseArgs dense{gradient, sum_.as<>(), n_, type_, 1, {}, false, nullptr, nullptr};
  SC_TRY(sumParts(operation, dense, sumType_ != type_, stream));
  roundsInside_ = operation.round;
  return {};
}

Status NodeLevel::scatterHeld(Operation& operation, const void* vector, sparsecollDataType_t type, void* part,
                              Stream stream) {
  return sumParts(operation, {vector, part, n_, type, {}, {}, false, nullptr, nullptr}, false, stream);
}

Status NodeLevel::sumParts(Operation& operation, const DenseArgs& dense, bool wide, Stream stream) {
  AmongArgs args;
  args.dense = dense;
  args.members = members_;
  args.parts = parts_;
  args.half = AmongArgs::Half::kSum;
  args.wide = wide;
  return transport_->sumAmong(operation, args, stream);
}

Range NodeLevel::shard(size_t place) const { return shardOf(n_, shards_, place); }

bool NodeLevel::allOwn(int ranks) const {
  return shards_ * nodes_ == static_cast<size_t>(ranks) && shard(shards_ - 1).length() != 0;
}

Result<Scale> NodeLevel::clip(Operation& operation, Scale scale, Stream stream) {
  if (!norms_) return scale;
  const std::span<double> squares(squares_.as<double>(), static_cast<size_t>(owners_->ranks()));
  kernels_->squares(sum(), sumType_, shard_.length(), &squares[static_cast<size_t>(owners_->rank())], stream);
  SC_TRY(norms_->run({&operation, {}, nullptr, nullptr, {}, stream}));
  roundsInside_ = operation.round;
  kernels_->clip(squares, scale, mostNorm_, clipped_.as<double>(), stream);
  const Scale clipped = Scale::standingAt(clipped_.as<double>());
  return onHost_ ? Scale(clipped.now()) : clipped;  // a known 1 saves the sum's rescaling
}

void NodeLevel::rescale(Scale scale, Stream stream) {
  if (!scale.isOne()) reshape(*kernels_, {sum_.as<>(), sum_.as<>(), sumType_, shard_.length(), scale}, stream);
}

void NodeLevel::beginBetween(Operation& operation) {
  operation.round = kFirstBetween;
  sentBefore_ = operation.sentBytes;
  receivedBefore_ = operation.receivedBytes;
}

void NodeLevel::endBetween(const Operation& operation) {
  roundsBetween_ = operation.round - kFirstBetween;
  sentBetween_ = operation.sentBytes - sentBefore_;
  receivedBetween_ = operation.receivedBytes - receivedBefore_;
}

Status NodeLevel::gather(Operation& operation, void* out, Control* control, bool& nonFinite, Stream stream) {
  operation.round = kFirstGather;
  if (onHost_ && control != nullptr) nonFinite = control->anyNonFinite != 0;
  AmongArgs args;
  args.dense = {nullptr, out, n_, type_, {}, {}, false, nullptr, nullptr};
  args.members = members_;
  args.parts = parts_;
  args.half = AmongArgs::Half::kGather;
  args.nonFinite = nonFinite;
  SC_TRY(transport_->sumAmong(operation, args, stream));
  nonFinite = args.nonFinite;
  if (onHost_ && control != nullptr) control->anyNonFinite = nonFinite ? 1 : 0;
  if (!onHost_ && control != nullptr) SC_TRY(whether_.run(operation, stream, control, {}, FullRound::Tells::kWhether));
  return {};
}

void NodeLevel::countRounds(Operation& operation) const {
  if (operation.round >= kFirstGather)
    operation.round += roundsInside_ + roundsBetween_ - kFirstGather;
  else if (operation.round >= kFirstBetween)
    operation.round += roundsInside_ - kFirstBetween;
}

ReducerSpec specOfShard(ReducerSpec spec, const Range& shard) {
  sparsecollParams_t& params = spec.params;
  params.clipNorm = 0;
  if (params.k != 0) params.k = std::max<uint64_t>(1, shareOf(params.k, spec, shard));
  if (params.candidates != 0) {
    const uint64_t k = params.k != 0 ? params.k : entriesOf(params.density, shard.length());
    params.candidates = std::max(k, shareOf(params.candidates, spec, shard));
  }
  spec.segments = cutSegments(spec.segments, shard);
  spec.sentDense = 0;
  for (const sparsecollSegment_t& segment : spec.segments)
    if (segment.dense != 0 && !spec.dense()) spec.sentDense += segment.length;
  spec.n = shard.length();
  return spec;
}

}  // namespace sparsecoll
