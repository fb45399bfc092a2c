// The public calls where there is no NCCL: they say why, and nothing ends.
#include <cstdlib>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace {

void checkWhy() {
  const std::string why = sparsecollGetLastError();
  CHECK((why.find("libnccl-that-nobody-has.so") != std::string::npos || why.find("no CUDA") != std::string::npos ||
         why.find("no device") != std::string::npos));
}

}  // namespace

TEST_CASE("without NCCL its calls are refused, and host memory works as ever") {
  setenv("SPARSECOLL_NCCL_LIBRARY", "libnccl-that-nobody-has.so", 1);
  sparsecollUniqueId_t id{};
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportNccl;
  sparsecollComm_t comm = nullptr;
  for (int i = 0; i < 2; ++i) {
    const sparsecollResult_t made = sparsecollGetUniqueId(&id, &config);
    if (made == sparsecollUnsupported) break;  // no libsodium in this build
    REQUIRE(made == sparsecollSuccess);
    CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, 0, nullptr) == sparsecollUnsupported);
    CHECK_THAT(sparsecollGetLastError(), Catch::Contains("NCCL was named, and rank(s) 0 cannot use NCCL"));
    checkWhy();
  }
  CHECK(sparsecollCommInitNccl(&comm, reinterpret_cast<ncclComm*>(&id), 1, nullptr) == sparsecollUnsupported);
  checkWhy();
  CHECK(comm == nullptr);
  int available = 1;
  CHECK(sparsecollBackendAvailable(sparsecollBackendAuto, sparsecollTransportNccl, &available) == sparsecollSuccess);
  CHECK(available == 0);
  CHECK(sparsecoll::test::Ranks(2).result() == sparsecollSuccess);
}
