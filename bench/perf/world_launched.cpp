// Processes that sparsecoll-run, Slurm, torchrun or mpirun has started, which meet by themselves.
#include <sparsecoll/launch.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "bench/common/errors.h"
#include "bench/perf/library.h"
#include "bench/perf/world.h"

namespace bench {

namespace {

constexpr uint64_t kPlaceBytes = 6;                                       // that a double holds exactly, as an integer
constexpr uint64_t kPieceBytes = (1u << 20) / kPlaceBytes * kPlaceBytes;  // that a rank gives at once

class LaunchedWorld final : public World {
 public:
  explicit LaunchedWorld(int32_t transport) {
    sparsecollLaunchRead(&launch_);
    if (const char* const problem = sparsecollLaunchProblem(&launch_)) throw UsageError(problem);
    if (launch_.size == 1 && std::string_view(launch_.by) == "nobody")
      throw UsageError("nobody has started ranks: sparsecoll-run -n P PROGRAM ..., srun, torchrun or mpirun do");
    config_.transport = transport;
    control_ = connect();
  }
  ~LaunchedWorld() override { sparsecollCommDestroy(control_); }

  int rank() const override { return launch_.rank; }
  int ranks() const override { return launch_.size; }
  void sync() override {
    const char nothing = 0;
    std::vector<char> all(static_cast<size_t>(ranks()));
    gather(&nothing, sizeof nothing, all.data());
  }
  void gather(const void* own, uint64_t bytes, void* all) override {
    for (uint64_t at = 0; at < bytes; at += kPieceBytes)
      gatherPiece(static_cast<const unsigned char*>(own) + at, std::min(kPieceBytes, bytes - at),
                  static_cast<unsigned char*>(all) + at, bytes);
  }
  sparsecollComm_t connect() override {
    sparsecollComm_t comm = nullptr;
    check(sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, &config_), "sparsecollCommInitEnv");
    return comm;
  }
  void sum(const void*, void*, uint64_t, const ElementType&) override {
    throw EnvironmentError("engines of this library have no sum of their own");
  }
  // The others see that this rank is gone.
  [[noreturn]] void fail(int code) override { std::_Exit(code); }

 private:
  // A sum of vectors in which each rank has its own places, and 0 elsewhere. In `all` a rank's piece lies `apart`
  // behind that of the rank before.
  void gatherPiece(const unsigned char* own, uint64_t bytes, unsigned char* all, uint64_t apart) {
    const uint64_t each = (bytes + kPlaceBytes - 1) / kPlaceBytes;
    std::vector<double> places(each * static_cast<uint64_t>(ranks()));
    for (uint64_t at = 0; at < bytes; at += kPlaceBytes) {
      uint64_t together = 0;
      std::memcpy(&together, own + at, std::min(kPlaceBytes, bytes - at));
      places[each * static_cast<uint64_t>(rank()) + at / kPlaceBytes] = static_cast<double>(together);
    }
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    check(sparsecollPreset("dense", &params), "sparsecollPreset");
    check(
        sparsecollAllReduce(places.data(), places.data(), places.size(), sparsecollFloat64, &params, control_, nullptr),
        "sparsecollAllReduce");
    for (uint64_t r = 0; r < static_cast<uint64_t>(ranks()); ++r)
      for (uint64_t at = 0; at < bytes; at += kPlaceBytes) {
        const auto together = static_cast<uint64_t>(places[r * each + at / kPlaceBytes]);
        std::memcpy(all + r * apart + at, &together, std::min(kPlaceBytes, bytes - at));
      }
  }

  sparsecollLaunch_t launch_;
  sparsecollConfig_t config_ = SPARSECOLL_INIT(sparsecollConfig_t);
  sparsecollComm_t control_ = nullptr;
};

}  // namespace

bool wasLaunched() {
  sparsecollLaunch_t launch;
  sparsecollLaunchRead(&launch);
  return launch.size > 1 || launch.wrong != nullptr;
}

std::unique_ptr<World> joinLaunched(int32_t transport) { return std::make_unique<LaunchedWorld>(transport); }

}  // namespace bench
