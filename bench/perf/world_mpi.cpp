// Processes that mpirun has started.
#include <sparsecoll/mpi.h>

#include <algorithm>

#include "bench/common/errors.h"
#include "bench/perf/library.h"
#include "bench/perf/world.h"

namespace bench {

namespace {

constexpr uint64_t kMostBytes = 1u << 30;  // in one call: counts are ints

class MpiWorld final : public World {
 public:
  MpiWorld() {
    if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) throw EnvironmentError("MPI does not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~MpiWorld() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void sync() override { MPI_Barrier(MPI_COMM_WORLD); }
  void gather(const void* own, uint64_t bytes, void* all) override {
    if (bytes > kMostBytes) throw EnvironmentError("too much to gather at once");
    MPI_Allgather(own, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE, MPI_COMM_WORLD);
  }
  sparsecollComm_t connect() override {
    sparsecollComm_t comm = nullptr;
    check(sparsecollCommInitMpi(&comm, MPI_COMM_WORLD, SPARSECOLL_HOST, nullptr), "sparsecollCommInitMpi");
    return comm;
  }
  std::string nativeSum() const override { return "MPI_Allreduce"; }
  void sum(const void* in, void* out, uint64_t n, const ElementType& type) override {
    const bool isDouble = type.type == sparsecollFloat64;
    if (!isDouble && type.type != sparsecollFloat32) throw EnvironmentError("MPI_Allreduce has no half precision");
    const uint64_t most = kMostBytes / type.bytes;
    for (uint64_t at = 0; at < n; at += most)
      MPI_Allreduce(static_cast<const std::byte*>(in) + at * type.bytes, static_cast<std::byte*>(out) + at * type.bytes,
                    static_cast<int>(std::min(most, n - at)), isDouble ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
  }
  [[noreturn]] void fail(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::abort();
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

std::unique_ptr<World> joinMpi(int32_t) { return std::make_unique<MpiWorld>(); }

}  // namespace bench
