// Nodes: which ranks of a communicator share one, and the two exchanges of a hierarchical step that stay inside it.
//
// A step is one operation of the one communicator. Communicators by CommSplit would need three sets of connections, do
// not exist for MPI and engines of the caller's, and a failure would have to be carried from one to the other. A leader
// for each node would leave the other links and processors idle. On devices ncclReduceScatter does not promise the bits
// of host engines, so a kernel adds the node's parts in rank order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/rounds.h"
#include "collectives/survey.h"
#include "core/control.h"
#include "core/kernels.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/transport.h"
#include "src/reducer_spec.h"

namespace sparsecoll {

class Communicator;

struct NodeMap {
  std::vector<std::vector<int>> nodes;  // the ranks of each, rising; by their lowest ranks
  size_t node = 0, place = 0;           // this rank's, and its place in the node
  size_t smallest = 0;                  // ranks of the smallest node
};

// What config.ranksPerNode says, else SPARSECOLL_RANKS_PER_NODE; 0: neither does. Errors: InvalidArgument.
Result<int32_t> ranksPerNodeOf(int32_t configured);

// nameOf: Communicator::node() of each rank.
NodeMap nodesOf(const Communicator& comm, std::span<const uint64_t> nameOf);

// A rank's part of the steps of a reducer over nodes. Each rank of a node owns a shard of the vector, as many shards as
// the smallest node has ranks; a further rank, or one for which none is left, owns nothing and takes part in what
// happens inside its node.
class NodeLevel {
 public:
  // spec: of the whole vector.
  static Result<std::unique_ptr<NodeLevel>> make(Communicator& comm, std::span<const uint64_t> nameOf,
                                                 const ReducerSpec& spec, const std::shared_ptr<MemoryBudget>& budget);

  uint64_t n() const { return n_; }
  const Range& shard() const { return shard_; }
  Range shard(size_t place) const;  // of the rank at this place of a node
  bool owns() const { return shard_.length() != 0; }
  bool allOwn(int ranks) const;  // all these ranks of the communicator
  int nodes() const { return static_cast<int>(nodes_); }
  size_t node() const { return node_; }  // this rank's
  size_t place() const { return place_; }
  size_t shards() const { return shards_; }
  // The shard's part of a vector of all n elements.
  void* partOf(void* vector) const { return static_cast<std::byte*>(vector) + shardAt_; }
  const void* partOf(const void* vector) const { return static_cast<const std::byte*>(vector) + shardAt_; }
  // The owners of this rank's shard in all nodes; of a rank that owns nothing it alone.
  Transport& between() const { return *between_; }

  // The node's sum of the shard, in sumType().
  Status scatter(Operation& operation, const void* gradient, Stream stream);
  // The same of vectors of another type, into part.
  Status scatterHeld(Operation& operation, const void* vector, sparsecollDataType_t type, void* part, Stream stream);
  const void* sum() const { return sum_.as<>(); }
  uint64_t sumBytes() const { return sum_.bytes(); }
  // Between scatter and beginBetween: the scale, made smaller where the node's scaled sum would have a norm above
  // clipNorm / sqrt(nodes); the same for all shards of the node. Ranks that clipped before the sum would clip each
  // other's noise, and a norm of the shard alone would turn the gradient's direction. On devices it stands there.
  Result<Scale> clip(Operation& operation, Scale scale, Stream stream);
  bool clips() const { return norms_.has_value(); }
  void rescale(Scale scale, Stream stream);  // the sum
  sparsecollDataType_t sumType() const { return sumType_; }
  // Between scatter and gather: what is sent now goes to other nodes.
  void beginBetween(Operation& operation);
  void endBetween(const Operation& operation);
  // out, of which this rank has its shard, whole. Whether this rank has met NaN or Inf, and then whether some rank has,
  // stands in the control block if there is one, and on the host in nonFinite.
  Status gather(Operation& operation, void* out, Control* control, bool& nonFinite, Stream stream);

  // The operation's rounds as those of one level, for whoever counts them.
  void countRounds(Operation& operation) const;

  // Of the latest step.
  uint64_t sentBetween() const { return sentBetween_; }
  uint64_t receivedBetween() const { return receivedBetween_; }

 private:
  NodeLevel() = default;
  Status sumParts(Operation& operation, const DenseArgs& dense, bool wide, Stream stream);
  Status allocateClipping(Communicator& comm, double clipNorm, const std::shared_ptr<MemoryBudget>& budget);

  Transport* transport_ = nullptr;
  Kernels* kernels_ = nullptr;
  bool onHost_ = true;
  std::unique_ptr<Transport> between_;
  std::unique_ptr<Transport> inside_;  // this rank's node; on devices,
  FullRound whether_;                  // for what the engine cannot carry there: that some rank has met NaN or Inf
  std::unique_ptr<Transport> owners_;  // of the node's shards, who tell each other
  std::optional<Survey> norms_;        // the squares of their shards, if sums are clipped,
  Buffer squares_;                     // which stand here, one a shard,
  Buffer clipped_;                     // and the scale that comes of them
  double mostNorm_ = 0;
  uint64_t n_ = 0;
  sparsecollDataType_t type_ = sparsecollFloat32, sumType_ = sparsecollFloat32;
  std::vector<int> members_;  // of this rank's node
  std::vector<Range> parts_;
  Range shard_;
  uint64_t shardAt_ = 0;  // bytes
  size_t nodes_ = 1, node_ = 0, place_ = 0, shards_ = 1;
  Buffer sum_;
  uint32_t roundsInside_ = 0, roundsBetween_ = 0;
  uint64_t sentBefore_ = 0, receivedBefore_ = 0;  // in the operation, before this rank met other nodes
  uint64_t sentBetween_ = 0, receivedBetween_ = 0;
};

// What the shard's owners reduce among themselves, once the level has clipped it.
ReducerSpec specOfShard(ReducerSpec whole, const Range& shard);

}  // namespace sparsecoll
