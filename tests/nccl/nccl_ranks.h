// Ranks over NCCL, on one emulated device unless a test says otherwise.
#pragma once

#include "tests/nccl/fake_nccl.h"
#include "tests/simt/simt.h"
#include "tests/support/catch.h"
#include "tests/support/stream_ranks.h"

namespace sparsecoll::test {

class NcclRanks : public StreamRanks {
 public:
  // make: nullptr for communicators of a new id, which names NCCL if the configuration names nothing: ranks that share
  // a device choose another engine.
  explicit NcclRanks(int ranks, const sparsecollConfig_t* config = nullptr, const Make& make = nullptr,
                     const Devices& devices = 0)
      : StreamRanks(ranks, make ? make : ofNewId(ranks, config), devices) {}

 private:
  static Make ofNewId(int ranks, const sparsecollConfig_t* config) {
    auto named = config != nullptr ? *config : SPARSECOLL_INIT(sparsecollConfig_t);
    if (named.transport == sparsecollTransportAuto) named.transport = sparsecollTransportNccl;
    sparsecollUniqueId_t id{};
    const sparsecollResult_t got = sparsecollGetUniqueId(&id, &named);
    return [=](int rank, sparsecollComm_t* comm) {
      return got == sparsecollSuccess ? sparsecollCommInitRank(comm, ranks, &id, rank, 0, &named) : got;
    };
  }
};

using NcclGroup = StreamGroup;

// Neither NCCL nor CUDA were used wrongly since the last look.
inline void checkNoMisuse() {
  for (const std::string& text : fake::misuse()) FAIL_CHECK(text);
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
  simt::clearErrors();
  fake::reset();
}
// Nor was anything sent that nobody has received.
inline void checkNothingLeft() {
  CHECK(fake::unreceived() == 0);
  checkNoMisuse();
}

}  // namespace sparsecoll::test
