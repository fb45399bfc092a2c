// Running the same thing on P ranks, through the public C ABI only.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/rank_threads.h"

#ifdef SPARSECOLL_TEST_PAIRS
#include "tests/support/pair_engine.h"
#endif

namespace sparsecoll::test {

// Where ranks have their vectors: on these devices in turn.
class Devices {
 public:
  Devices(int device) {  // SPARSECOLL_HOST: in host memory
    if (device >= 0) inTurn_ = {device};
  }
  Devices(std::vector<int> inTurn) : inTurn_(std::move(inTurn)) {}
  int of(int rank) const {
    return inTurn_.empty() ? SPARSECOLL_HOST : inTurn_[static_cast<size_t>(rank) % inTurn_.size()];
  }
  // A device a rank; none for host memory.
  std::vector<int> ofRanks(int ranks) const {
    std::vector<int> devices;
    for (int rank = 0; rank < ranks && !inTurn_.empty(); ++rank) devices.push_back(of(rank));
    return devices;
  }

 private:
  std::vector<int> inTurn_;
};

// How a test program makes its ranks: threads, or over an engine of messages.
inline sparsecollResult_t makeRanks(sparsecollComm_t* comms, int ranks, const Devices& on,
                                    const sparsecollConfig_t* config) {
  const std::vector<int> all = on.ofRanks(ranks);
  const int* const devices = all.empty() ? nullptr : all.data();
#ifdef SPARSECOLL_TEST_PAIRS
  return makeOverMessages(comms, ranks, config, devices);
#else
  return sparsecollCommInitAll(comms, ranks, devices, config);
#endif
}

// P communicators in this process, destroyed at the end.
class Ranks {
 public:
  explicit Ranks(int ranks, const sparsecollConfig_t* config = nullptr, const Devices& devices = -1)
      : comms_(static_cast<size_t>(ranks)), result_(makeRanks(comms_.data(), ranks, devices, config)) {
    if (result_ != sparsecollSuccess) why_ = sparsecollGetLastError();
  }
  // Of communicators that a test has made.
  explicit Ranks(std::vector<sparsecollComm_t> comms) : comms_(std::move(comms)), result_(sparsecollSuccess) {}
  ~Ranks() {
    for (sparsecollComm_t comm : comms_) (void)sparsecollCommDestroy(comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  sparsecollResult_t result() const { return result_; }
  const std::string& why() const { return why_; }  // the text of what went wrong
  int count() const { return static_cast<int>(comms_.size()); }
  sparsecollComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // The handle of a rank that a test destroys itself.
  sparsecollComm_t release(int rank) { return std::exchange(comms_[static_cast<size_t>(rank)], nullptr); }

  // Calls body(rank, communicator) on one thread a rank and waits for all of them.
  void run(const std::function<void(int, sparsecollComm_t)>& body) const {
    RankThreads::ofProcess().run(count(), [&](int rank) { body(rank, (*this)[rank]); });
  }

 private:
  std::vector<sparsecollComm_t> comms_;
  sparsecollResult_t result_;
  std::string why_;
};

// The same reducer on every rank; result(rank) tells how each create went.
class Reducers {
 public:
  Reducers(const Ranks& ranks, uint64_t n, sparsecollDataType_t type, const sparsecollParams_t& params,
           const sparsecollReducerConfig_t* config = nullptr)
      : handles_(static_cast<size_t>(ranks.count())), results_(handles_.size()) {
    ranks.run([&](int rank, sparsecollComm_t comm) {
      const auto r = static_cast<size_t>(rank);
      results_[r] = sparsecollReducerCreate(&handles_[r], n, type, &params, config, comm);
    });
  }
  ~Reducers() {
    for (sparsecollReducer_t handle : handles_) (void)sparsecollReducerDestroy(handle);
  }
  Reducers(const Reducers&) = delete;
  Reducers& operator=(const Reducers&) = delete;

  sparsecollReducer_t operator[](int rank) const { return handles_[static_cast<size_t>(rank)]; }
  sparsecollResult_t result(int rank) const { return results_[static_cast<size_t>(rank)]; }

 private:
  std::vector<sparsecollReducer_t> handles_;
  std::vector<sparsecollResult_t> results_;
};

inline sparsecollParams_t preset(const char* name, double density) {
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  if (sparsecollPreset(name, &params) != sparsecollSuccess) params.selector = -1;  // what uses it fails
  params.density = density;
  return params;
}

}  // namespace sparsecoll::test
