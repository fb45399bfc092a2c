// The public calls where there is no NCCL: they say why, and nothing ends.
#include <cstdlib>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/ranks.h"

TEST_CASE("without NCCL its calls are refused, and host memory works as ever") {
  setenv("SPARSECOLL_NCCL_LIBRARY", "libnccl-that-nobody-has.so", 1);
  sparsecollUniqueId_t id{};
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportNccl;
  for (int i = 0; i < 2; ++i) {
    CHECK(sparsecollGetUniqueId(&id, &config) == sparsecollUnsupported);
    const std::string why = sparsecollGetLastError();
    CHECK((why.find("libnccl-that-nobody-has.so") != std::string::npos || why.find("no CUDA") != std::string::npos));
  }
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, 0, nullptr) == sparsecollUnsupported);
  CHECK(sparsecollCommInitNccl(&comm, reinterpret_cast<ncclComm*>(&id), 1, nullptr) == sparsecollUnsupported);
  CHECK(comm == nullptr);
  int available = 1;
  CHECK(sparsecollBackendAvailable(sparsecollBackendAuto, sparsecollTransportNccl, &available) == sparsecollSuccess);
  CHECK(available == 0);
  CHECK(sparsecoll::test::Ranks(2).result() == sparsecollSuccess);
}
