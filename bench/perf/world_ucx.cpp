// Processes that sparsecoll-run, Slurm or mpirun has started, which meet by themselves and talk over UCX.
#include <sparsecoll/launch.h>

#include <cstdlib>
#include <vector>

#include "bench/common/errors.h"
#include "bench/perf/library.h"
#include "bench/perf/world.h"

namespace bench {

namespace {

constexpr uint64_t kMostBytes = 1u << 20;  // that a rank gives: what is gathered are clocks and counts

class UcxWorld final : public World {
 public:
  UcxWorld() {
    sparsecollLaunchRead(&launch_);
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
  // A sum of vectors in which each rank has its own places, and 0 elsewhere; a byte is exact in a double.
  void gather(const void* own, uint64_t bytes, void* all) override {
    if (bytes > kMostBytes) throw EnvironmentError("too much to gather at once");
    std::vector<double> places(bytes * static_cast<uint64_t>(ranks()));
    const auto* const from = static_cast<const unsigned char*>(own);
    const uint64_t first = bytes * static_cast<uint64_t>(rank());
    for (uint64_t at = 0; at < bytes; ++at) places[first + at] = from[at];
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    check(sparsecollPreset("dense", &params), "sparsecollPreset");
    check(
        sparsecollAllReduce(places.data(), places.data(), places.size(), sparsecollFloat64, &params, control_, nullptr),
        "sparsecollAllReduce");
    auto* const to = static_cast<unsigned char*>(all);
    for (uint64_t at = 0; at < places.size(); ++at) to[at] = static_cast<unsigned char>(places[at]);
  }
  sparsecollComm_t connect() override {
    sparsecollComm_t comm = nullptr;
    check(sparsecollLaunchComm(&launch_, &comm, -1, nullptr), "joining the job");
    return comm;
  }
  void sum(const void*, void*, uint64_t, const ElementType&) override {
    throw EnvironmentError("UCX has no sum of its own");
  }
  // The others see that this rank is gone.
  [[noreturn]] void fail(int code) override { std::_Exit(code); }

 private:
  sparsecollLaunch_t launch_;
  sparsecollComm_t control_ = nullptr;
};

}  // namespace

std::unique_ptr<World> joinUcx() { return std::make_unique<UcxWorld>(); }

}  // namespace bench
