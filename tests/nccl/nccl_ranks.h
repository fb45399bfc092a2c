// Ranks over NCCL, all on one emulated device.
#pragma once

#include "tests/nccl/fake_nccl.h"
#include "tests/simt/simt.h"
#include "tests/support/stream_ranks.h"

namespace sparsecoll::test {

class NcclRanks : public StreamRanks {
 public:
  // make: nullptr for communicators of a new id.
  explicit NcclRanks(int ranks, const sparsecollConfig_t* config = nullptr, const Make& make = nullptr)
      : StreamRanks(ranks, make ? make : ofNewId(ranks, config)) {}

 private:
  static Make ofNewId(int ranks, const sparsecollConfig_t* config) {
    sparsecollUniqueId_t id{};
    const sparsecollResult_t got = sparsecollGetUniqueId(&id, config);
    return [=](int rank, sparsecollComm_t* comm) {
      return got == sparsecollSuccess ? sparsecollCommInitRank(comm, ranks, &id, rank, 0, config) : got;
    };
  }
};

using NcclGroup = StreamGroup;

}  // namespace sparsecoll::test
