// Steps over a real NCCL: a process a rank, which compares with the host. With two devices each has its own; with one
// both share it, which NCCL allows to processes that it takes for ones of different hosts (NCCL_HOSTID). Where that is
// not possible either, the reason is printed and the test skipped.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRanks = 2;
constexpr int kSkipped = 77;
constexpr uint64_t kLength = 300007;
constexpr int kSteps = 4;

[[noreturn]] void leave(int code, const char* why) {
  if (why[0] != '\0') std::fprintf(code == kSkipped ? stdout : stderr, "%s\n", why);
  std::fflush(stdout);
  _exit(code);
}

void need(bool good, const char* what) {
  if (good) return;
  char text[512];
  std::snprintf(text, sizeof text, "failed: %s (%s)", what, sparsecollGetLastError());
  leave(1, text);
}

// One preset's steps on this rank, beside those of all ranks in host memory.
void checkPreset(const char* name, int rank, sparsecollComm_t comm, cudaStream_t stream) {
  const sparsecollParams_t params = preset(name, std::strcmp(name, "dense") == 0 ? 0 : 0.01);
  const auto r = static_cast<size_t>(rank);
  const uint64_t bytes = kLength * sizeof(float);
  Group host(kRanks, kLength, sparsecollFloat32, params);
  sparsecollReducer_t reducer = nullptr;
  need(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm) == sparsecollSuccess,
       name);
  void* gradient = nullptr;
  void* out = nullptr;
  need(cudaMalloc(&gradient, bytes) == cudaSuccess && cudaMalloc(&out, bytes) == cudaSuccess, "cudaMalloc");
  std::vector<std::byte> got(bytes);
  for (int step = 0; step < kSteps; ++step) {
    host.fillRandom(static_cast<uint64_t>(step));
    need(host.step() == all(kRanks, sparsecollSuccess), "a step on the host");
    need(cudaMemcpy(gradient, host.gradients[r].data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
    need(sparsecollReducerRun(reducer, gradient, out, stream) == sparsecollSuccess, name);
    need(sparsecollCommWait(comm, stream, 60000) == sparsecollSuccess, name);
    need(cudaMemcpy(got.data(), out, bytes, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
    need(std::memcmp(got.data(), host.outs[r].data(), bytes) == 0, "the sum has other bits than on the host");
  }
  need(sparsecollReducerDestroy(reducer) == sparsecollSuccess, "ReducerDestroy");
  (void)cudaFree(gradient);
  (void)cudaFree(out);
}

[[noreturn]] void runRank(int rank, int idRead, int idWrite) {
  // Read by NCCL when it is loaded, which has not happened yet.
  setenv("NCCL_HOSTID", rank == 0 ? "sparsecoll-0" : "sparsecoll-1", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    leave(kSkipped, "skipped: no CUDA device, or no driver");
  const int device = devices >= kRanks ? rank : 0;
  sparsecollUniqueId_t id{};
  if (rank == 0) {
    int available = 0;
    need(sparsecollBackendAvailable(sparsecollBackendCuda, sparsecollTransportNccl, &available) == sparsecollSuccess,
         "BackendAvailable");
    if (available == 0) leave(kSkipped, "skipped: no NCCL, or one that is too old");
    const sparsecollResult_t made = sparsecollGetUniqueId(&id, nullptr);
    if (made == sparsecollUnsupported) leave(kSkipped, "skipped: no libsodium");
    need(made == sparsecollSuccess, "GetUniqueId");
    need(write(idWrite, &id, sizeof id) == static_cast<ssize_t>(sizeof id), "sending the id");
  } else if (read(idRead, &id, sizeof id) != static_cast<ssize_t>(sizeof id)) {
    leave(kSkipped, "");  // the other rank has said why
  }
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 60000;
  config.transport = sparsecollTransportNccl;
  sparsecollComm_t comm = nullptr;
  const sparsecollResult_t made = sparsecollCommInitRank(&comm, kRanks, &id, rank, device, &config);
  if (made != sparsecollSuccess && devices < kRanks) {
    char text[512];
    std::snprintf(text, sizeof text, "skipped: two ranks on one device: %s", sparsecollGetLastError());
    leave(kSkipped, text);
  }
  need(made == sparsecollSuccess, "CommInitRank");
  need(cudaSetDevice(device) == cudaSuccess, "cudaSetDevice");
  cudaStream_t stream = nullptr;
  need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "a stream");
  for (const std::string& name : allPresets()) checkPreset(name.c_str(), rank, comm, stream);
  need(sparsecollCommDestroy(comm) == sparsecollSuccess, "CommDestroy");
  leave(0, "");
}

}  // namespace

TEST_CASE("steps of two processes over NCCL have the bits of the host") {
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  pid_t children[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    children[rank] = fork();
    REQUIRE(children[rank] >= 0);
    if (children[rank] == 0) {
      if (rank == 0) close(pipes[0]);
      if (rank == 1) close(pipes[1]);
      alarm(500);
      runRank(rank, pipes[0], pipes[1]);
    }
  }
  close(pipes[0]);
  close(pipes[1]);
  int codes[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    REQUIRE(waitpid(children[rank], &status, 0) == children[rank]);
    codes[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (codes[rank] == 1 && rank == 0) kill(children[1], SIGKILL);
  }
  if (codes[0] == kSkipped || codes[1] == kSkipped) std::exit(kSkipped);
  CHECK(codes[0] == 0);
  CHECK(codes[1] == 0);
}
