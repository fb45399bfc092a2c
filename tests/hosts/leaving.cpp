// Two ranks over a slow link: rank 0 sends ENTRIES, gets one, and goes while most of them are still under way. Each
// rank prints how its calls ended. 77: the ranks' engine is not here. In a launcher's environment: leaving ENTRIES
#include <sparsecoll/sparsecoll.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

int main(int argc, char** argv) {
  const uint64_t many = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (many == 0) return 2;
  sparsecollComm_t comm = nullptr;
  sparsecollResult_t result = sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, nullptr);
  if (result != sparsecollSuccess) {
    std::printf("meeting: %s: %s\n", sparsecollGetErrorString(result), sparsecollGetLastError());
    return result == sparsecollUnsupported ? 77 : 1;
  }
  int rank = 0;
  result = sparsecollCommGetInfo(comm, &rank, nullptr, nullptr);
  std::vector<uint32_t> indices(many), outIndices(many + 1);
  std::vector<float> values(many, 1), outValues(many + 1);
  std::iota(indices.begin(), indices.end(), 0u);
  uint64_t count = rank == 0 ? many : 1, outCount = 0;
  sparsecollVector_t in{}, out{};
  in.values = values.data();
  in.indices = indices.data();
  in.count = &count;
  in.capacity = many;
  in.length = out.length = many;
  in.flags = SPARSECOLL_SORTED;
  out.values = outValues.data();
  out.indices = outIndices.data();
  out.count = &outCount;
  out.capacity = many + 1;
  in.dataType = out.dataType = sparsecollFloat32;
  if (result == sparsecollSuccess) result = sparsecollAllGatherVector(&in, &out, comm, nullptr);
  std::printf("rank %d: %s: %llu entries of %llu%s%s\n", rank, sparsecollGetErrorString(result),
              static_cast<unsigned long long>(outCount), static_cast<unsigned long long>(many + 1),
              result == sparsecollSuccess ? "" : ": ", result == sparsecollSuccess ? "" : sparsecollGetLastError());
  const sparsecollResult_t destroyed = sparsecollCommDestroy(comm);
  return result == sparsecollSuccess && destroyed == sparsecollSuccess && outCount == many + 1 ? 0 : 1;
}
