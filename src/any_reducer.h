// What a reducer's handle stands for: one method (Reducer), or several that take turns (AutoReducer).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/status.h"
#include "src/communicator.h"
#include "src/reducer_spec.h"
#include "src/scales.h"
#include "src/stream_use.h"

namespace sparsecoll {

// What becomes of the residual and the velocity of a state from elsewhere.
enum class Merge { kReplace, kAdd, kLeaveOut };

class AnyReducer {
 public:
  virtual ~AnyReducer() = default;

  virtual const ReducerSpec& spec() const = 0;
  virtual int device() const = 0;
  virtual bool forked() const = 0;
  // A caller's stream with this reducer's workspace. Errors: InvalidArgument (a stream on the host).
  virtual Result<StreamUse> streamOf(sparsecollStream_t stream) = 0;

  virtual Status run(const void* gradient, void* out, Stream stream) = 0;
  virtual Status runSparse(const void* gradient, sparsecollVector_t& out, Stream stream) = 0;
  virtual Status setDensity(double density) = 0;
  virtual Status setScales(ScalePair scales) = 0;
  virtual Status giveBack(const void* out, double factor, Stream stream) = 0;
  virtual Status reset(Stream stream) = 0;
  virtual Status flush(void* dense, Stream stream) = 0;
  // The residual that the next step reads; nullptr for methods without one. Until the next step it holds what it says.
  virtual void* residual() = 0;

  virtual Result<uint64_t> exportState(void* blob, uint64_t room, Stream stream) = 0;
  virtual Status importState(std::span<const std::byte> blob, Stream stream) = 0;
  virtual Status importStateFrom(std::span<const std::byte> blob, Merge merge, Stream stream) = 0;

  // A reducer like this one on a communicator that was made of this one's, collective there, with this rank's residual
  // and velocity: those after the last step that all ranks there have committed, if this one is transactional.
  struct Moved {
    std::shared_ptr<AnyReducer> reducer;
    bool steppedBack = false;
  };
  virtual Result<Moved> moveTo(const std::shared_ptr<Communicator>& comm) = 0;

  virtual sparsecollReducerInfo_t info() const = 0;
  virtual Result<sparsecollStats_t> stats() const = 0;  // any thread; Errors: Timeout, CudaError
  // Which method ran, and from which step on.
  virtual std::vector<sparsecollChoice_t> choices() const = 0;
};

// Collective. call: of the C ABI; other calls' ranks do not match. Errors: InvalidArgument, Unsupported, and those of
// an agreement.
Result<std::shared_ptr<AnyReducer>> makeReducer(const std::shared_ptr<Communicator>& comm, const char* call, uint64_t n,
                                                int32_t type, const sparsecollParams_t* params,
                                                const sparsecollReducerConfig_t* config);

}  // namespace sparsecoll
