// Processes that sparsecoll-run, Slurm or mpirun has started, which meet by themselves and talk over UCX.
#include <sparsecoll/launch.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/common/errors.h"
#include "bench/perf/library.h"
#include "bench/perf/world.h"

namespace bench {

namespace {

constexpr uint64_t kPieceBytes = 1u << 20;  // that a rank gives at once: eight times as much is sent

class UcxWorld final : public World {
 public:
  UcxWorld() {
    sparsecollLaunchRead(&launch_);
    if (const char* const problem = sparsecollLaunchProblem(&launch_)) throw UsageError(problem);
    if (launch_.path[0] == '\0')
      throw UsageError("--transport ucx: nobody has started ranks: sparsecoll-run -n P sparsecoll-perf ...");
    control_ = connect();
  }
  ~UcxWorld() override { sparsecollCommDestroy(control_); }

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
    if (sparsecollLaunchComm(&launch_, &comm, SPARSECOLL_HOST, nullptr) != sparsecollSuccess)
      throw EnvironmentError(std::string("joining the job: ") + sparsecollLaunchError(&launch_));
    return comm;
  }
  void sum(const void*, void*, uint64_t, const ElementType&) override {
    throw EnvironmentError("UCX has no sum of its own");
  }
  // The others see that this rank is gone.
  [[noreturn]] void fail(int code) override { std::_Exit(code); }

 private:
  // A sum of vectors in which each rank has its own places, and 0 elsewhere; a byte is exact in a double. In `all` a
  // rank's piece lies `apart` behind that of the rank before.
  void gatherPiece(const unsigned char* own, uint64_t bytes, unsigned char* all, uint64_t apart) {
    std::vector<double> places(bytes * static_cast<uint64_t>(ranks()));
    std::copy_n(own, bytes, places.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<uint64_t>(rank())));
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    check(sparsecollPreset("dense", &params), "sparsecollPreset");
    check(
        sparsecollAllReduce(places.data(), places.data(), places.size(), sparsecollFloat64, &params, control_, nullptr),
        "sparsecollAllReduce");
    for (uint64_t r = 0; r < static_cast<uint64_t>(ranks()); ++r)
      for (uint64_t at = 0; at < bytes; ++at) all[r * apart + at] = static_cast<unsigned char>(places[r * bytes + at]);
  }

  sparsecollLaunch_t launch_;
  sparsecollComm_t control_ = nullptr;
};

}  // namespace

std::unique_ptr<World> joinUcx() { return std::make_unique<UcxWorld>(); }

}  // namespace bench
