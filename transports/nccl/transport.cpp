// Rounds over NCCL. A round is one group of sends and receives, or one all-gather, on the caller's stream; sizes are
// the frames' capacities, which all ranks know. The host waits for no peer but in what it wants to read itself: frames
// in host memory travel through a staging area, on a stream of their own.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/checked.h"
#include "core/frame.h"
#include "core/numeric.h"
#include "cuda/calls.h"
#include "transports/common.h"
#include "transports/nccl.h"
#include "transports/nccl/connection.h"
#include "transports/nccl/staging.h"

namespace sparsecoll::nccl {

namespace {

using cuda::isCaptured;
using cuda::taken;

constexpr uint64_t kSlabBytes = 8u << 20;  // of a dense sum that is added to what out holds, or formed in pieces

// One frame's header and nothing else: what ranks compare in a dense sum.
const uint64_t kHeaderBytes = alignUp(FrameLayout{}.capacityBytes(), 64);

static_assert(int{sparsecollFloat16} == kFloat16 && int{sparsecollFloat32} == kFloat32);
static_assert(int{sparsecollFloat64} == kFloat64 && int{sparsecollBfloat16} == kBfloat16);
DataType dataTypeOf(sparsecollDataType_t type) { return static_cast<DataType>(int{type}); }

// A point in a stream's work that the host asks for.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) (void)taken(cudaEventDestroy(event_));
  }
  Status make() {
    const cudaError_t error = taken(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    if (error == cudaSuccess) return {};
    return fail(sparsecollCudaError, "an event for NCCL: {}", cudaGetErrorString(error));
  }
  void record(cudaStream_t stream) { (void)taken(cudaEventRecord(event_, stream)); }
  bool reached() const { return taken(cudaEventQuery(event_)) != cudaErrorNotReady; }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(const NcclSetup& setup, std::unique_ptr<Connection> connection)
      : connection_(std::move(connection)), kernels_(setup.kernels), budget_(setup.budget) {}

  Status prepare(const Deadline& deadline) {
    const auto size = static_cast<uint64_t>(ranks());
    SC_TRY(staging_, Staging::make(*kernels_, ranks(), budget_));
    SC_TRY(headers_, kernels_->allocate((size + 1) * kHeaderBytes, budget_));
    SC_TRY(slab_, kernels_->allocate(kSlabBytes, budget_));
    SC_TRY(lastDense_, kernels_->makeMarker());
    SC_TRY(ended_.make());
    SC_TRY(flags_, kernels_->makeFlags(0));
    SC_TRY(replaySequence_, makeReplaySequence(*kernels_));
    for (uint64_t r = 0; r < size; ++r) headerFrames_.push_back(headers_.as<>() + (1 + r) * kHeaderBytes);
    headerBytes_.assign(size, kFrameHeaderBytes);
    summands_.reserve(size);
    return kernels_->findings(kernels_->stream(), deadline);  // what was zeroed here is so before others write to it
  }

  sparsecollTransport_t kind() const override { return sparsecollTransportNccl; }
  int rank() const override { return connection_->rank(); }
  int ranks() const override { return connection_->ranks(); }
  bool sharesMemory() const override { return false; }
  bool checksumsPayload() const override { return false; }  // NCCL answers for what it carries

  Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t bytes, std::shared_ptr<MemoryBudget> budget,
                                                  Kernels* memory) override {
    Kernels& owner = memory != nullptr ? *memory : *kernels_;
    SC_TRY(Buffer buffer, owner.allocate(bytes, budget != nullptr ? budget : budget_));
    return staging_->makeWindow(std::move(buffer), owner.backend() == sparsecollBackendHost);
  }

  // A stream runs what is on it in order, so frames are as they were when they are sent, in a graph as well. What a
  // graph lacks is a number that grows from replay to replay, which is the device's then.
  Status begin(Operation& operation) override {
    deadline_ = operation.deadline;
    enqueued_ = false;
    captured_ = !operation.onHost && capturing(operation.stream);
    if (captured_ && flags_ == nullptr) return unsupported("capture with a driver without stream memory operations");
    if (captured_) operation.sequenceAt = replaySequence_.as<uint64_t>();
    return connection_->health();
  }

  Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) override {
    count(operation, out, in);
    if (out.empty() && in.empty()) return {};
    const bool onHost = staging_->holds(out);
    SC_TRY(onHost ? exchangeStaged(operation, out, in) : exchange(operation, out, in, stream.handle));
    deliver(in);
    return {};
  }

  Status gather(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) override {
    count(operation, out, in);
    if (out.empty()) return {};
    const bool onHost = staging_->holds(out);
    SC_TRY(onHost ? gatherStaged(operation, out, in) : gatherInPlace(operation, out, in, stream.handle));
    deliver(in);
    return {};
  }

  // NCCL adds in its own order, and halves in their own precision: the one method that the promise of equal bits on all
  // engines leaves out.
  Status allReduce(Operation& operation, const DenseArgs& args, Stream stream) override {
    countRing(operation, args, ranks());
    if (ranks() == 1) {
      reshape(*kernels_,
              {args.in, args.out, args.type, args.n, args.inputScale, args.finish, args.accumulate, args.nonFiniteAt},
              stream);
      return {};
    }
    SC_TRY(orderDense(stream));
    const FrameExpectation identity = operation.identity();
    kernels_->seal({headers_.as<>(), {}, identity, nullptr, false}, stream);
    SC_TRY(args.accumulate ? addSlabs(operation, args, stream) : sumInPlace(operation, args, stream));
    SC_TRY(kernels_->open({headerFrames_, headerBytes_, {}, identity, nullptr, {}, false}, stream));
    return leaveDense(stream);
  }

  // Members receive what the others have of their part and add it up in order, so unlike a sum of NCCL's own this one
  // has the bits of all engines.
  bool sumsAmong() const override { return true; }
  Status sumAmong(Operation& operation, AmongArgs& args, Stream stream) override {
    countAmong(operation, args, rank());
    ++operation.round;
    if (args.half != AmongArgs::Half::kGather) {
      SC_TRY(orderDense(stream));
      if (args.half == AmongArgs::Half::kSum) SC_TRY(meetAll(operation, stream));
      SC_TRY(sumPart(operation, args, stream));
      SC_TRY(leaveDense(stream));
    }
    return args.half == AmongArgs::Half::kSum ? Status() : gatherParts(operation, args, stream);
  }

  // All ranks learn of a mismatch from the frames themselves, whose number and sizes do not depend on it.
  void refuse(const Operation&, const Failure&) override {}
  void end(const Operation& operation) override {
    uint64_t* const counts[] = {replaySequence_.as<uint64_t>(), operation.replays};
    if (captured_ && operation.captured()) kernels_->raise(*flags_, {}, counts, operation.stream);
    if (enqueued_ && !captured_) ended_.record(static_cast<cudaStream_t>(operation.stream.handle));
  }

  Result<bool> await(Stream stream, const Deadline& deadline) override {
    if (capturing(stream)) return true;  // asking would spoil the capture; the kernels tell
    return awaitHandle(static_cast<cudaStream_t>(stream.handle), deadline);
  }

  // What NCCL lets go of on the stream has not brought all that it should.
  void abort() override {
    if (flags_ != nullptr) flags_->endWaits(sparsecollAborted, rank());
    connection_->abort();
  }
  void close(const Deadline& deadline) override { connection_->close(deadline); }

 private:
  void count(Operation& operation, std::span<const Outgoing> out, std::span<const Incoming> in) const {
    ++operation.round;
    operation.sentMessages += out.size();
    for (const Outgoing& message : out) operation.sentBytes += message.layout.capacityBytes();
    for (const Incoming& message : in) operation.receivedBytes += message.capacity;
  }

  static void deliver(std::span<Incoming> in) {
    for (Incoming& message : in) {
      message.frame = message.landing;
      message.bytes = message.capacity;
    }
  }

  Status exchange(const Operation& operation, std::span<const Outgoing> out, std::span<const Incoming> in,
                  void* stream) {
    enqueued_ = enqueued_ || stream != staging_->stream();
    const Library& nccl = connection_->library();
    return grouped("a round of ncclSend and ncclRecv", operation, [&](Comm comm, auto keep) {
      for (const Outgoing& message : out)
        keep(nccl.Send(message.frame, message.layout.capacityBytes(), kUint8, message.peer, comm, stream));
      for (const Incoming& message : in)
        keep(nccl.Recv(message.landing, message.capacity, kUint8, message.peer, comm, stream));
    });
  }

  // One group of calls: keep(call) notes how the first of them failed.
  template <class Calls>
  Status grouped(const char* what, const Operation& operation, Calls calls) {
    return connection_->group(what, operation.deadline, [&](Comm comm) {
      Code code = kSuccess;
      calls(comm, [&code](Code now) {
        if (code == kSuccess || code == kInProgress) code = now;
      });
      return code;
    });
  }

  Status gatherInPlace(const Operation& operation, std::span<const Outgoing> out, std::span<const Incoming> in,
                       void* stream) {
    const uint64_t bytes = in[0].capacity;
    if (bytes != out[0].layout.capacityBytes())
      return fail(sparsecollInternalError, "frames of {} bytes gathered into {}", out[0].layout.capacityBytes(), bytes);
    enqueued_ = true;
    std::byte* const block = in[0].landing - static_cast<uint64_t>(in[0].peer) * bytes;
    return connection_->call("ncclAllGather", operation.deadline, [&](Comm comm) {
      return connection_->library().AllGather(out[0].frame, block, bytes, kUint8, comm, stream);
    });
  }

  Status exchangeStaged(const Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in) {
    SC_TRY(Staged staged, staging_->load(out, in));
    SC_TRY(exchange(operation, staged.out, staged.in, staging_->stream()));
    return unload(operation, in);
  }
  Status gatherStaged(const Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in) {
    SC_TRY(Staged staged, staging_->load(out.first(1), in));
    // Landings are a slot apart, which all of the frame's slot travels to.
    const uint64_t bytes = Staging::kSlotBytes;
    SC_TRY(connection_->call("ncclAllGather", operation.deadline, [&](Comm comm) {
      return connection_->library().AllGather(staged.out[0].frame, staging_->arrivals(), bytes, kUint8, comm,
                                              staging_->stream());
    }));
    return unload(operation, in);
  }
  Status unload(const Operation& operation, std::span<Incoming> in) {
    SC_TRY(staging_->fetch());
    SC_TRY(const bool done, awaitHandle(static_cast<cudaStream_t>(staging_->stream()), operation.deadline));
    if (!done)
      return connection_->failHere(sparsecollTimeout, "a rank has not taken part in operation {} in time",
                                   operation.sequence);
    staging_->unload(in);
    return {};
  }

  // The headers and the slab are used by dense sums on any stream.
  Status orderDense(Stream stream) {
    if (denseMarked_ && denseStream_ != stream.handle && !capturing(stream)) kernels_->await(*lastDense_, stream);
    return {};
  }
  Status leaveDense(Stream stream) {
    if (capturing(stream)) return {};
    kernels_->mark(*lastDense_, stream);
    denseStream_ = stream.handle;
    denseMarked_ = true;
    return {};
  }
  static bool capturing(Stream stream) { return isCaptured(static_cast<cudaStream_t>(stream.handle), false); }

  // One part of a dense sum; with the headers where they have not travelled yet.
  Status reduce(const Operation& operation, const void* in, void* out, uint64_t n, DataType type, bool headers,
                Stream stream) {
    enqueued_ = true;
    const Library& nccl = connection_->library();
    return connection_->group("ncclAllReduce", operation.deadline, [&](Comm comm) {
      Code code = kSuccess;
      if (headers)
        code =
            nccl.AllGather(headers_.as<>(), headers_.as<>() + kHeaderBytes, kHeaderBytes, kUint8, comm, stream.handle);
      if (code != kSuccess && code != kInProgress) return code;
      return nccl.AllReduce(in, out, n, type, kSum, comm, stream.handle);
    });
  }

  Status sumInPlace(const Operation& operation, const DenseArgs& args, Stream stream) {
    const DataType type = dataTypeOf(args.type);
    const void* source = args.in;
    if (!args.inputScale.isOne()) {
      reshape(*kernels_, {args.in, args.out, args.type, args.n, args.inputScale}, stream);
      source = args.out;
    }
    SC_TRY(reduce(operation, source, args.out, args.n, type, true, stream));
    if (args.finish.divisor != 1 || !args.finish.scale.isOne() || args.nonFiniteAt != nullptr)
      reshape(*kernels_, {args.out, args.out, args.type, args.n, 1, args.finish, false, args.nonFiniteAt}, stream);
    return {};
  }

  // What out holds has to stay, so the sum is formed beside it.
  Status addSlabs(const Operation& operation, const DenseArgs& args, Stream stream) {
    const DataType type = dataTypeOf(args.type);
    const uint64_t most = kSlabBytes / elementBytes(args.type);
    for (uint64_t at = 0; at < args.n; at += most) {
      const uint64_t n = std::min(most, args.n - at);
      const auto* const in = static_cast<const std::byte*>(args.in) + at * elementBytes(args.type);
      auto* const out = static_cast<std::byte*>(args.out) + at * elementBytes(args.type);
      reshape(*kernels_, {in, slab_.as<>(), args.type, n, args.inputScale}, stream);
      SC_TRY(reduce(operation, slab_.as<>(), slab_.as<>(), n, type, at == 0, stream));
      reshape(*kernels_, {slab_.as<>(), out, args.type, n, 1, args.finish, true, args.nonFiniteAt}, stream);
    }
    return {};
  }

  Status meetAll(const Operation& operation, Stream stream) {
    if (ranks() == 1) return {};
    enqueued_ = true;
    const FrameExpectation identity = operation.identity();
    kernels_->seal({headers_.as<>(), {}, identity, nullptr, false}, stream);
    SC_TRY(connection_->call("ncclAllGather", operation.deadline, [&](Comm comm) {
      return connection_->library().AllGather(headers_.as<>(), headers_.as<>() + kHeaderBytes, kHeaderBytes, kUint8,
                                              comm, stream.handle);
    }));
    return kernels_->open({headerFrames_, headerBytes_, {}, identity, nullptr, {}, false}, stream);
  }

  // In pieces that fit the slab with those of all members. Pieces are whole lines, so what is aligned stays so.
  Status sumPart(const Operation& operation, const AmongArgs& args, Stream stream) {
    const DenseArgs& dense = args.dense;
    const uint64_t element = elementBytes(dense.type);
    const uint64_t outElement = args.wide ? elementBytes(accumulateTypeOf(dense.type)) : element;
    const size_t own = args.own(rank());
    const bool partAlone = args.half == AmongArgs::Half::kSum;
    const auto* const in = static_cast<const std::byte*>(dense.in);
    auto* const out = static_cast<std::byte*>(dense.out);
    const uint64_t most = std::max<uint64_t>(kSlabBytes / element / args.members.size() / 64 * 64, 64);
    uint64_t longest = 0;
    for (const Range& part : args.parts) longest = std::max(longest, part.length());
    for (uint64_t at = 0; at < longest; at += most) {
      const auto pieceOf = [&](const Range& part) {
        return Range{std::min(part.end, part.begin + at), std::min(part.end, part.begin + at + most)};
      };
      const Range mine = pieceOf(args.parts[own]);
      const auto slot = [&](size_t member) { return slab_.as<>() + member * most * element; };
      SC_TRY(sendAmong(operation, args, stream, [&](size_t member) -> Pieces {
        const Range theirs = pieceOf(args.parts[member]);
        return {in + theirs.begin * element, theirs.length() * element, slot(member), mine.length() * element};
      }));
      if (mine.length() == 0) continue;
      summands_.clear();
      for (size_t member = 0; member < args.members.size(); ++member)
        summands_.push_back(member == own ? in + mine.begin * element : slot(member));
      const uint64_t first = partAlone ? mine.begin - args.parts[own].begin : mine.begin;
      const std::array<void*, 1> sum = {out + first * outElement};
      kernels_->denseSum({summands_, sum, dense.type, mine.length(), dense.inputScale, dense.finish, dense.accumulate,
                          dense.nonFiniteAt, args.wide},
                         stream);
    }
    return {};
  }

  Status gatherParts(const Operation& operation, const AmongArgs& args, Stream stream) {
    const uint64_t element = elementBytes(args.dense.type);
    const Range own = args.parts[args.own(rank())];
    auto* const out = static_cast<std::byte*>(args.dense.out);
    return sendAmong(operation, args, stream, [&](size_t member) -> Pieces {
      const Range& theirs = args.parts[member];
      return {out + own.begin * element, own.length() * element, out + theirs.begin * element,
              theirs.length() * element};
    });
  }

  // What goes to a member, and comes from it; nothing travels where there are no bytes.
  struct Pieces {
    const std::byte* sent;
    uint64_t sentBytes;
    std::byte* received;
    uint64_t receivedBytes;
  };
  template <class PiecesOf>
  Status sendAmong(const Operation& operation, const AmongArgs& args, Stream stream, PiecesOf piecesOf) {
    if (args.members.size() == 1) return {};
    enqueued_ = true;
    const Library& nccl = connection_->library();
    return grouped("ncclSend and ncclRecv of a dense sum", operation, [&](Comm comm, auto keep) {
      for (size_t member = 0; member < args.members.size(); ++member) {
        const int peer = args.members[member];
        if (peer == rank()) continue;
        const Pieces pieces = piecesOf(member);
        if (pieces.sentBytes != 0) keep(nccl.Send(pieces.sent, pieces.sentBytes, kUint8, peer, comm, stream.handle));
        if (pieces.receivedBytes != 0)
          keep(nccl.Recv(pieces.received, pieces.receivedBytes, kUint8, peer, comm, stream.handle));
      }
    });
  }

  Result<bool> awaitHandle(cudaStream_t stream, const Deadline& deadline) {
    const cuda::BesideCaptures beside;
    for (;;) {
      SC_TRY(connection_->health());  // before anything else: what an error left on the stream is no result
      const cudaError_t state = taken(cudaStreamQuery(stream));
      if (state != cudaErrorNotReady) return true;
      if (deadline_.expired() && !ended_.reached())  // what else is on the stream takes the time that it needs
        return connection_->failHere(sparsecollTimeout, "what was begun last has not ended in time: a rank is missing");
      if (deadline.expired()) return false;
      pause(deadline);
    }
  }

  const std::unique_ptr<Connection> connection_;
  const std::shared_ptr<Kernels> kernels_;
  const std::shared_ptr<MemoryBudget> budget_;
  std::unique_ptr<Staging> staging_;
  Buffer headers_;  // this rank's, then one a rank
  Buffer slab_;
  std::vector<const std::byte*> headerFrames_;
  std::vector<uint64_t> headerBytes_;
  std::vector<const void*> summands_;  // of one piece
  std::unique_ptr<Marker> lastDense_;  // behind the latest dense sum
  void* denseStream_ = nullptr;
  bool denseMarked_ = false;
  std::unique_ptr<Flags> flags_;  // none, but what counting replays takes; nullptr: the driver has none
  Buffer replaySequence_;         // of the next captured operation that is replayed
  bool captured_ = false;         // the operation under way is
  Event ended_;                   // behind the latest operation
  bool enqueued_ = false;         // it has put something on the caller's stream
  Deadline deadline_ = Deadline::in(SPARSECOLL_NO_TIMEOUT);  // of the latest operation
};

Result<std::unique_ptr<Transport>> finish(const NcclSetup& setup, std::unique_ptr<Connection> connection) {
  auto transport = std::make_unique<NcclTransport>(setup, std::move(connection));
  SC_TRY(transport->prepare(setup.deadline));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace

Result<int> version() {
  SC_TRY(const Library* const nccl, library());
  return nccl->version;
}

Result<Id> makeId() {
  SC_TRY(const Library* const nccl, library());
  UniqueId made{};
  SC_TRY(statusOf(*nccl, nccl->GetUniqueId(&made), "ncclGetUniqueId"));
  return std::bit_cast<Id>(made);
}

Result<int> deviceOf(ncclComm* comm) {
  SC_TRY(const Library* const nccl, library());
  int device = 0;
  SC_TRY(statusOf(*nccl, nccl->CommCuDevice(comm, &device), "ncclCommCuDevice"));
  return device;
}

Result<std::unique_ptr<Transport>> makeTransport(const NcclSetup& setup, int ranks, int rank, const Id& id) {
  SC_TRY(const Library* const nccl, library());
  SC_TRY(auto connection,
         Connection::make(*nccl, ranks, rank, std::bit_cast<UniqueId>(id), setup.deadline, setup.abortTimeoutMs));
  return finish(setup, std::move(connection));
}

Result<std::unique_ptr<Transport>> makeTransport(const NcclSetup& setup, ncclComm* comm, bool split) {
  SC_TRY(const Library* const nccl, library());
  SC_TRY(auto connection, Connection::adopt(*nccl, comm, split, setup.deadline, setup.abortTimeoutMs));
  return finish(setup, std::move(connection));
}

}  // namespace sparsecoll::nccl
