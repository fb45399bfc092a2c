// Ranks on emulated devices over the tests' own engine of messages, which knows host memory only.
#pragma once

#include <memory>

#include "tests/simt/simt.h"
#include "tests/support/catch.h"
#include "tests/support/pair_engine.h"
#include "tests/support/presets.h"
#include "tests/support/stream_ranks.h"

namespace sparsecoll::test {

class StagedRanks : public StreamRanks {
 public:
  explicit StagedRanks(int ranks, const sparsecollConfig_t* config = nullptr, Mischief* mischief = nullptr,
                       const Devices& devices = 0)
      : StreamRanks(ranks, overPairs(ranks, config, mischief, devices), devices) {}

 private:
  static Make overPairs(int ranks, const sparsecollConfig_t* config, Mischief* mischief, const Devices& devices) {
    return [=, mesh = std::make_shared<PairMesh>(ranks)](int rank, sparsecollComm_t* comm) {
      auto engine = std::make_unique<PairEngine>(rank, mesh->takeSockets(rank), mischief);
      const sparsecollEngine_t table = engine->table();
      const sparsecollResult_t made = sparsecollCommInitEngine(comm, ranks, rank, devices.of(rank), &table, config);
      if (made == sparsecollSuccess) (void)engine.release();
      return made;
    };
  }
};

// Makes a group's vectors memory that the emulated device knows: copies of any other are waited for.
class KnownVectors {
 public:
  explicit KnownVectors(StreamGroup& group) : group_(group) {
    for (auto* const vectors : {&group.gradients, &group.outs})
      for (Elements& one : *vectors) CHECK(cudaHostRegister(one.data(), one.byteCount(), 0) == cudaSuccess);
  }
  ~KnownVectors() {
    for (auto* const vectors : {&group_.gradients, &group_.outs})
      for (Elements& one : *vectors) CHECK(cudaHostUnregister(one.data()) == cudaSuccess);
  }
  KnownVectors(const KnownVectors&) = delete;
  KnownVectors& operator=(const KnownVectors&) = delete;

 private:
  StreamGroup& group_;
};

inline void checkNoMisuse() {
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
  simt::clearErrors();
  CHECK(pairEngineMisuse() == "");
}

inline sparsecollParams_t paramsOf(const std::string& name, double density = 0.02) {
  return preset(name.c_str(), name == "dense" ? 0 : density);
}

}  // namespace sparsecoll::test
