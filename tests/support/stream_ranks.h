// Ranks on emulated devices as a trainer has them: a thread, a communicator and a stream each.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/simt/simt.h"
#include "tests/support/group.h"
#include "tests/support/replays.h"

namespace sparsecoll::test {

class StreamRanks {
 public:
  using Make = std::function<sparsecollResult_t(int rank, sparsecollComm_t* comm)>;

  StreamRanks(int ranks, const Make& make, const Devices& devices = 0)
      : queues_(ranks),
        comms_(static_cast<size_t>(ranks)),
        streams_(ranks, devices),
        made_(all(ranks, sparsecollInternalError)) {
    onThreads([&](int rank) {
      const auto r = static_cast<size_t>(rank);
      made_[r] = make(rank, &comms_[r]);
    });
  }
  ~StreamRanks() {
    for (sparsecollComm_t comm : comms_) (void)sparsecollCommDestroy(comm);
  }
  StreamRanks(const StreamRanks&) = delete;
  StreamRanks& operator=(const StreamRanks&) = delete;

  int count() const { return static_cast<int>(comms_.size()); }
  const Results& made() const { return made_; }
  sparsecollComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }
  cudaStream_t stream(int rank) const { return streams_[rank]; }
  sparsecollComm_t release(int rank) { return std::exchange(comms_[static_cast<size_t>(rank)], nullptr); }

  void onThreads(const std::function<void(int)>& body) const { RankThreads::ofProcess().run(count(), body); }
  Results each(const std::function<sparsecollResult_t(int)>& body) const {
    Results results = all(count(), sparsecollInternalError);
    onThreads([&](int rank) { results[static_cast<size_t>(rank)] = body(rank); });
    return results;
  }
  Results wait(uint64_t timeoutMs = 60000) const {
    return each([&](int rank) { return sparsecollCommWait((*this)[rank], stream(rank), timeoutMs); });
  }

 private:
  simt::QueuesFor queues_;
  std::vector<sparsecollComm_t> comms_;
  RankStreams streams_;
  Results made_;
};

// One reducer a rank and its vectors.
class StreamGroup {
 public:
  StreamGroup(const StreamRanks& ranks, uint64_t n, sparsecollDataType_t type, const sparsecollParams_t& params,
              const sparsecollReducerConfig_t* config = nullptr)
      : gradients(static_cast<size_t>(ranks.count()), Elements(type, n)),
        outs(gradients.size(), Elements(type, n)),
        ranks_(ranks),
        reducers_(gradients.size()) {
    created_ = ranks.each([&](int rank) {
      return sparsecollReducerCreate(&reducers_[static_cast<size_t>(rank)], n, type, &params, config, ranks[rank]);
    });
  }
  ~StreamGroup() {
    for (sparsecollReducer_t reducer : reducers_) (void)sparsecollReducerDestroy(reducer);
  }
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;

  const StreamRanks& ranks() const { return ranks_; }
  int count() const { return ranks_.count(); }
  const Results& created() const { return created_; }
  sparsecollReducer_t reducer(int rank) const { return reducers_[static_cast<size_t>(rank)]; }
  sparsecollResult_t run(int rank) {
    const auto r = static_cast<size_t>(rank);
    return sparsecollReducerRun(reducers_[r], gradients[r].data(), outs[r].data(), ranks_.stream(rank));
  }
  // A step of every rank, to its end.
  Results step() {
    return ranks_.each([&](int rank) {
      const sparsecollResult_t ran = run(rank);
      return ran == sparsecollSuccess ? sparsecollCommWait(ranks_[rank], ranks_.stream(rank), 60000) : ran;
    });
  }
  Results wait() const { return ranks_.wait(); }
  Elements residual(int rank) const { return residualOf(reducer(rank)); }

  std::vector<Elements> gradients;
  std::vector<Elements> outs;

 private:
  const StreamRanks& ranks_;
  std::vector<sparsecollReducer_t> reducers_;
  Results created_;
};

}  // namespace sparsecoll::test
