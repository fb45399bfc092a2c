// Every preset in processes, over every way between them, against the same steps on threads: the same bits in every sum
// and residual. Frames that travel at once and frames that are asked for first.
#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/presets.h"

namespace sparsecoll::test {
namespace {

constexpr int kSteps = 3;

struct Case {
  int ranks;
  uint64_t n;
  double density;
};

// One rank's gradients, by step.
std::vector<Elements> gradientsOf(int rank, uint64_t n) {
  std::vector<Elements> gradients(kSteps, Elements(sparsecollFloat32, n));
  for (size_t step = 0; step < gradients.size(); ++step) {
    Random random(static_cast<uint64_t>(rank) * 1000 + step + 7);
    for (size_t i = 0; i < n; ++i) gradients[step].set(i, random.bell());
  }
  return gradients;
}

// A hash of this rank's sums and residual, and of whether every call succeeded. 0: the preset does not run at this P.
uint64_t runPreset(const std::string& name, const Case& shape, const std::vector<Elements>& gradients,
                   sparsecollComm_t comm) {
  sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : shape.density);
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t made = sparsecollReducerCreate(&reducer, shape.n, sparsecollFloat32, &params, nullptr, comm);
  if (made == sparsecollInvalidArgument || made == sparsecollUnsupported) return 0;
  uint64_t hash = static_cast<uint64_t>(made) + 1;
  if (made != sparsecollSuccess) return hash;
  Elements out(sparsecollFloat32, shape.n);
  for (const Elements& gradient : gradients) {
    const sparsecollResult_t ran = sparsecollReducerRun(reducer, gradient.data(), out.data(), nullptr);
    hash = hashBytes(&ran, sizeof ran, hashBytes(out.data(), out.byteCount(), hash));
  }
  const Elements left = residualOf(reducer);
  hash = hashBytes(left.data(), left.byteCount(), hash);
  (void)sparsecollReducerDestroy(reducer);
  return hash;
}

void compare(const Case& shape, const Way& way) {
  CAPTURE(shape.ranks, shape.n, way.name());
  const std::vector<std::string> names = presetsToStep();
  REQUIRE(names.size() <= 64);
  Processes processes(shape.ranks, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    const std::vector<Elements> gradients = gradientsOf(rank, shape.n);
    for (size_t p = 0; p < names.size(); ++p) finding.hashes[p] = runPreset(names[p], shape, gradients, comm);
    finding.result = sparsecollCommDestroy(comm);
    finding.stage = 1;
  });
  REQUIRE(processes.awaitEnd(300000));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    CAPTURE(rank, processes[rank].text);
    REQUIRE(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == sparsecollSuccess);
  }
  const Ranks threads(shape.ranks);
  REQUIRE(threads.result() == sparsecollSuccess);
  std::vector<std::vector<uint64_t>> expected(static_cast<size_t>(shape.ranks), std::vector<uint64_t>(names.size()));
  threads.run([&](int rank, sparsecollComm_t comm) {
    const std::vector<Elements> gradients = gradientsOf(rank, shape.n);
    for (size_t p = 0; p < names.size(); ++p)
      expected[static_cast<size_t>(rank)][p] = runPreset(names[p], shape, gradients, comm);
  });
  size_t ran = 0, equal = 0;
  for (size_t p = 0; p < names.size(); ++p) {
    CAPTURE(names[p]);
    bool same = true;
    for (int rank = 0; rank < shape.ranks; ++rank)
      same = same && processes[rank].hashes[p] == expected[static_cast<size_t>(rank)][p];
    if (expected[0][p] != 0) ++ran;
    if (expected[0][p] != 0 && same) ++equal;
    CHECK(same);
  }
  std::printf("%d ranks, n = %llu, %s: %zu of %zu presets run here, %zu with the bits of threads\n", shape.ranks,
              static_cast<unsigned long long>(shape.n), way.name().c_str(), ran, names.size(), equal);
  CHECK(ran + 4 >= names.size());  // some presets do not run at every number of ranks
}

}  // namespace

TEST_CASE("all presets have the bits of threads") {
  const Way way = GENERATE(from_range(ways()));
  for (const int ranks : {2, 3, 4, 8}) compare({ranks, 5000, 0.02}, way);
}

TEST_CASE("messages that are asked for before they are sent have the bits of threads") {
  const Way way = GENERATE(from_range(ways()));
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // they see nothing of UCX
  if (way.ucxTransports[0] != '\0') return;
  compare({2, 300000, 0.2}, way);
#else
  compare({way.engine == sparsecollTransportUcx && way.ucxTransports[0] != '\0' ? 2 : 3, 300000, 0.2}, way);
#endif
}

}  // namespace sparsecoll::test
