// Groups of ranks that stand for nodes, and what their steps come to: node sums by hand, then the flat method between
// the owners of each shard.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/group.h"

namespace sparsecoll::test {

struct NodeShape {
  int ranks;
  int perNode;  // the last node may have fewer

  int nodes() const { return (ranks + perNode - 1) / perNode; }
  int nodeOf(int rank) const { return rank / perNode; }
  int placeOf(int rank) const { return rank % perNode; }
  int smallest() const { return ranks % perNode != 0 ? ranks % perNode : perNode; }
  std::string name() const { return std::to_string(ranks) + " ranks, " + std::to_string(perNode) + " a node"; }
};

// 2x2, 2x4, 4x2, 3+2, 3+1.
inline constexpr NodeShape kNodeShapes[] = {{4, 2}, {8, 4}, {8, 2}, {5, 3}, {4, 3}};

inline sparsecollConfig_t nodesOf(int perNode) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.ranksPerNode = perNode;
  config.opTimeoutMs = 60000;
  return config;
}

// The preset between nodes.
inline sparsecollParams_t overNodes(sparsecollParams_t params) {
  params.betweenNodes = params.collective;
  params.collective = sparsecollCollHierarchical;
  return params;
}

// One density, which has to outlive the reducers that are made by this, for so many steps.
inline sparsecollReducerConfig_t scheduled(const double& density, uint32_t steps) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = &density;
  config.densityScheduleCount = 1;
  config.scheduleSteps = steps;
  return config;
}

struct Shard {
  uint64_t begin, end;
  uint64_t length() const { return end - begin; }
};

// Shards of whole lines of 64 elements, as many as the smallest node has ranks.
inline Shard shardOf(uint64_t n, int shards, int shard) {
  const uint64_t even = (n + static_cast<uint64_t>(shards) - 1) / static_cast<uint64_t>(shards);
  const uint64_t length = (even + 63) / 64 * 64;
  const uint64_t begin = std::min(n, length * static_cast<uint64_t>(shard));
  return {begin, std::min(n, begin + length)};
}

// Of values of float or double, as they are.
inline Elements partOf(const Elements& whole, const Shard& shard) {
  Elements part(whole.type(), shard.length());
  for (uint64_t i = 0; i < part.size(); ++i) part.set(i, whole[shard.begin + i]);
  return part;
}

// The sum of a node's gradients in rank order, rounded to the type after every addition.
inline Elements nodeSum(const std::vector<Elements>& gradients, const NodeShape& shape, int node) {
  const auto first = static_cast<size_t>(node * shape.perNode);
  const auto last = std::min(first + static_cast<size_t>(shape.perNode), gradients.size());
  Elements sum = gradients[first];
  for (size_t r = first + 1; r < last; ++r)
    for (uint64_t i = 0; i < sum.size(); ++i) sum.set(i, roundTo(sum.type(), sum[i] + gradients[r][i]));
  return sum;
}

// What a hierarchical group is compared with: a flat group of nodes for every shard.
class NodeOracle {
 public:
  NodeOracle(const NodeShape& shape, uint64_t n, sparsecollDataType_t type, const sparsecollParams_t& flat)
      : shape_(shape) {
    for (int place = 0; place < shape.smallest(); ++place) {
      shards_.push_back(shardOf(n, shape.smallest(), place));
      if (shards_.back().length() == 0) break;
      groups_.push_back(std::make_unique<Group>(shape.nodes(), shards_.back().length(), type, flat));
    }
  }

  bool created() const {
    for (const auto& group : groups_)
      if (group->created() != all(group->count(), sparsecollSuccess)) return false;
    return true;
  }
  bool step(const std::vector<Elements>& gradients) {
    bool good = true;
    for (size_t s = 0; s < groups_.size(); ++s) {
      for (int node = 0; node < shape_.nodes(); ++node)
        groups_[s]->gradients[static_cast<size_t>(node)] = partOf(nodeSum(gradients, shape_, node), shards_[s]);
      good = groups_[s]->step() == all(groups_[s]->count(), sparsecollSuccess) && good;
    }
    return good;
  }
  // Whether a rank of the hierarchical group has what the oracle has, sum and residual.
  bool outEquals(const Elements& out) const {
    for (size_t s = 0; s < groups_.size(); ++s)
      if (!(partOf(out, shards_[s]) == groups_[s]->outs[0])) return false;
    return true;
  }
  bool residualEquals(int rank, const Elements& residual) const {
    const auto place = static_cast<size_t>(shape_.placeOf(rank));
    if (place >= groups_.size()) return residual.size() == 0;
    return residual == groups_[place]->residual(shape_.nodeOf(rank));
  }

 private:
  const NodeShape shape_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<Group>> groups_;
};

// Ten times a step, and then one in which a rank is in another call; what is not as it should be is the text.
inline std::string meetAnotherCall(Group& group, int odd, const sparsecollParams_t& other) {
  const uint64_t n = group.gradients[0].size();
  const sparsecollDataType_t type = group.gradients[0].type();
  for (int trial = 0; trial < 10; ++trial) {
    if (group.step() != all(group.count(), sparsecollSuccess)) return "a step failed";
    const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      const void* const in = group.gradients[r].data();
      if (rank != odd) return sparsecollReducerRun(reducer, in, group.outs[r].data(), nullptr);
      return sparsecollAllReduce(in, group.outs[r].data(), n, type, &other, group.ranks()[rank], nullptr);
    });
    if (results != all(group.count(), sparsecollMismatch)) return "not every rank met a mismatch";
  }
  return group.step() == all(group.count(), sparsecollSuccess) ? "" : "the last step failed";
}

// Ranks that step over nodes.
struct Stepping {
  Stepping(const NodeShape& nodes, uint64_t n, sparsecollDataType_t type, const sparsecollParams_t& params,
           const sparsecollReducerConfig_t* reducer = nullptr)
      : config(nodesOf(nodes.perNode)), group(nodes.ranks, n, type, params, reducer, &config) {}
  sparsecollConfig_t config;
  Group group;
};

}  // namespace sparsecoll::test
