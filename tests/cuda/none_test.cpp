// A library that was built for devices, on a machine that has none: it says so and serves host memory.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/catch.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

TEST_CASE("without a driver a communicator on a device is refused, one in host memory works") {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    std::puts("skipped: this machine has a CUDA device");
    std::exit(77);
  }
  CHECK(Ranks(2, nullptr, 0).result() == sparsecollUnsupported);
  int available = 1;
  CHECK(sparsecollBackendAvailable(sparsecollBackendCuda, sparsecollTransportThreads, &available) == sparsecollSuccess);
  CHECK(available == 0);
  Group host(2, 1000, sparsecollFloat32, preset("topka", 0.01));
  host.fillRandom(1);
  CHECK(host.step() == Results(2, sparsecollSuccess));
}
