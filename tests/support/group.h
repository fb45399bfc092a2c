// P ranks with one reducer each, and vectors for its steps. What ranks' threads find out is collected and looked at on
// the main thread: Catch2's assertions are not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/elements.h"
#include "tests/support/ranks.h"

namespace sparsecoll::test {

using Results = std::vector<sparsecollResult_t>;

inline Results all(int ranks, sparsecollResult_t result) { return Results(static_cast<size_t>(ranks), result); }

// What body(rank, communicator) returned on every rank.
inline Results onEach(const Ranks& ranks, const std::function<sparsecollResult_t(int, sparsecollComm_t)>& body) {
  Results results(static_cast<size_t>(ranks.count()));
  ranks.run([&](int rank, sparsecollComm_t comm) { results[static_cast<size_t>(rank)] = body(rank, comm); });
  return results;
}

inline sparsecollFailure_t failureOf(sparsecollComm_t comm) {
  sparsecollFailure_t failure = SPARSECOLL_INIT(sparsecollFailure_t);
  if (sparsecollCommGetFailure(comm, &failure) != sparsecollSuccess) failure.peer = -2;
  return failure;
}

inline sparsecollStats_t statsOf(sparsecollReducer_t reducer) {
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  if (sparsecollReducerGetStats(reducer, &stats) != sparsecollSuccess) stats = {};
  return stats;
}

inline sparsecollReducerInfo_t infoOf(sparsecollReducer_t reducer) {
  sparsecollReducerInfo_t info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
  if (sparsecollReducerGetInfo(reducer, &info) != sparsecollSuccess) info = {};
  return info;
}

// The residual's bits; empty for methods without one.
inline Elements residualOf(sparsecollReducer_t reducer) {
  void* data = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  if (sparsecollReducerGetResidual(reducer, &data, &n, &type) != sparsecollSuccess || data == nullptr) return {};
  return Elements(type, n, data);
}

using Blob = std::vector<std::byte>;

// A reducer's state; empty if the library does not give it, which no state is.
inline Blob exported(sparsecollReducer_t reducer) {
  size_t bytes = 0;
  if (sparsecollReducerExport(reducer, nullptr, &bytes, nullptr) != sparsecollSuccess) return {};
  Blob blob(bytes);
  if (sparsecollReducerExport(reducer, blob.data(), &bytes, nullptr) != sparsecollSuccess) return {};
  blob.resize(bytes);
  return blob;
}

inline sparsecollResult_t importInto(sparsecollReducer_t reducer, const Blob& blob) {
  return sparsecollReducerImport(reducer, blob.data(), blob.size(), nullptr);
}

// A sparse vector with its memory. The library sees it through view().
class SparseVector {
 public:
  SparseVector(sparsecollDataType_t type, uint64_t length, uint64_t capacity,
               sparsecollIndexType_t indexType = sparsecollIndexU32)
      : values_(type, capacity), wide_(indexType == sparsecollIndexU64), indices_(capacity * (wide_ ? 8 : 4)) {
    view_.values = values_.data();
    view_.indices = indices_.data();
    view_.count = &count_;
    view_.capacity = capacity;
    view_.length = length;
    view_.dataType = type;
    view_.indexType = indexType;
  }
  SparseVector(const SparseVector&) = delete;
  SparseVector& operator=(const SparseVector&) = delete;

  sparsecollVector_t* view() { return &view_; }
  uint64_t count() const { return count_; }
  void setCount(uint64_t count) { count_ = count; }
  double value(size_t i) const { return values_[i]; }
  uint64_t index(size_t i) const {
    uint64_t wide = 0;
    std::memcpy(&wide, indices_.data() + i * (wide_ ? 8 : 4), wide_ ? 8 : 4);
    return wide;
  }
  void add(uint64_t index, double value) {
    std::memcpy(indices_.data() + count_ * (wide_ ? 8 : 4), &index, wide_ ? 8 : 4);
    values_.set(count_++, value);
  }

 private:
  Elements values_;
  bool wide_;
  std::vector<std::byte> indices_;
  uint64_t count_ = 0;
  sparsecollVector_t view_{};
};

// A vector for each rank.
inline void fillRandom(std::vector<Elements>& vectors, uint64_t seed, double scale = 1) {
  for (size_t r = 0; r < vectors.size(); ++r) {
    Random random(seed * 1000 + r);
    for (size_t i = 0; i < vectors[r].size(); ++i) vectors[r].set(i, random.bell() * scale);
  }
}

inline void fillIntegers(std::vector<Elements>& vectors, uint64_t seed, int most) {
  for (size_t r = 0; r < vectors.size(); ++r) {
    Random random(seed * 1000 + r);
    for (size_t i = 0; i < vectors[r].size(); ++i)
      vectors[r].set(i, static_cast<double>(random.below(2 * static_cast<uint64_t>(most) + 1)) - most);
  }
}

class Group {
 public:
  Group(int ranks, uint64_t n, sparsecollDataType_t type, const sparsecollParams_t& params,
        const sparsecollReducerConfig_t* reducerConfig = nullptr, const sparsecollConfig_t* config = nullptr,
        const Devices& devices = -1)
      : ranks_(ranks, config, devices),
        reducers_(ranks_, n, type, params, reducerConfig),
        gradients(static_cast<size_t>(ranks), Elements(type, n)),
        outs(static_cast<size_t>(ranks), Elements(type, n)) {}

  const Ranks& ranks() const { return ranks_; }
  Ranks& ranks() { return ranks_; }
  int count() const { return ranks_.count(); }
  sparsecollReducer_t reducer(int rank) const { return reducers_[rank]; }
  Results created() const {
    Results results;
    for (int rank = 0; rank < count(); ++rank) results.push_back(reducers_.result(rank));
    return results;
  }

  // One step of every rank from its gradients into its outs.
  Results step() {
    return onEach(ranks_, [&](int rank, sparsecollComm_t) {
      const auto r = static_cast<size_t>(rank);
      return sparsecollReducerRun(reducers_[rank], gradients[r].data(), outs[r].data(), nullptr);
    });
  }
  // Until the work of the ranks' steps is done.
  Results wait() const {
    return onEach(ranks_, [](int, sparsecollComm_t comm) { return sparsecollCommWait(comm, nullptr, 0); });
  }
  Results each(const std::function<sparsecollResult_t(int, sparsecollReducer_t)>& body) const {
    return onEach(ranks_, [&](int rank, sparsecollComm_t) { return body(rank, reducers_[rank]); });
  }

  void fillRandom(uint64_t seed, double scale = 1) { test::fillRandom(gradients, seed, scale); }
  void fillIntegers(uint64_t seed, int most = 8) { test::fillIntegers(gradients, seed, most); }

  Elements residual(int rank) const { return residualOf(reducers_[rank]); }
  sparsecollStats_t stats(int rank) const { return statsOf(reducers_[rank]); }
  sparsecollReducerInfo_t info() const { return infoOf(reducers_[0]); }
  bool outsEqual() const {
    for (const Elements& out : outs)
      if (!(out == outs[0])) return false;
    return true;
  }

 private:
  Ranks ranks_;
  Reducers reducers_;

 public:
  std::vector<Elements> gradients;
  std::vector<Elements> outs;
};

}  // namespace sparsecoll::test
