// Rounds of frames on a device over an engine that sees them in pinned memory. The caller puts on its stream: the
// frames' copies to their mirrors, a word that says so, a wait for the word that says that the peers' frames have come,
// and the copies of those. The thread does the round in between. All sizes are capacities, as the caller does not know
// counts; what the engine sends is what a frame holds.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "core/checked.h"
#include "core/frame.h"
#include "core/numeric.h"
#include "cuda/calls.h"
#include "transports/common.h"
#include "transports/staged.h"
#include "transports/staged/mirrors.h"
#include "transports/staged/service.h"
#include "transports/staged/words.h"

namespace sparsecoll::staged {

namespace {

constexpr uint64_t kSlabBytes = 4u << 20;  // of a dense sum; two are under way
// One frame's header and nothing else: whether a dense sum has come.
const uint64_t kVerdictBytes = alignUp(FrameLayout{}.capacityBytes(), 64);

// Ranks of this process on a device, whose streams wait for frames: in every step, captured or not.
class Waiting {
 public:
  explicit Waiting(int device) : device_(device) {
    const std::lock_guard lock(mutex());
    ranks_ = ++counts()[device];
  }
  ~Waiting() {
    const std::lock_guard lock(mutex());
    --counts()[device_];
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  int ranks() const { return ranks_; }

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  static std::map<int, int>& counts() {
    static std::map<int, int> instance;
    return instance;
  }
  const int device_;
  int ranks_ = 0;
};

class StagedTransport final : public Transport {
 public:
  StagedTransport(const StagedSetup& setup, std::unique_ptr<Transport> engine)
      : engine_(std::move(engine)),
        kernels_(setup.kernels),
        pinned_(setup.pinned),
        budget_(setup.budget),
        waiting_(setup.device) {}
  ~StagedTransport() override {
    if (service_ == nullptr) return;
    service_->abandon(fail(sparsecollAborted, "the communicator was destroyed"));
    engine_->leave();
    service_->stop();
    scratch_ = {};  // for which it waits until nothing on the device uses pinned memory either
  }

  Status prepare() {
    const uint64_t slab = ranks() > 1 ? kSlabBytes : 0;
    SC_TRY(kernels_->fitsWaits(waiting_.ranks()));
    SC_TRY(words_, Words::make(*pinned_, budget_));
    SC_TRY(last_, kernels_->makeMarker());
    SC_TRY(scratch_, kernels_->allocate(slab + kVerdictBytes, budget_));
    SC_TRY(slabs_, engine_->makeWindow(2 * slab + kVerdictBytes, budget_, pinned_.get()));
    service_ = std::make_shared<Service>(*engine_, *words_);
    mirrors_ = std::make_shared<Mirrors>(service_);
    service_->start();
    return {};
  }

  sparsecollTransport_t kind() const override { return engine_->kind(); }
  int rank() const override { return engine_->rank(); }
  int ranks() const override { return engine_->ranks(); }
  bool sharesMemory() const override { return false; }
  bool checksumsPayload() const override { return engine_->checksumsPayload(); }
  bool sumsItself() const override { return engine_->sumsItself(); }
  uint64_t sharedBytes() const override { return engine_->sharedBytes(); }
  Status share(const std::shared_ptr<SharedMemory>& memory) override { return engine_->share(memory); }

  Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t bytes, std::shared_ptr<MemoryBudget> budget,
                                                  Kernels* memory) override {
    const auto& counted = budget != nullptr ? budget : budget_;
    if (memory != nullptr && memory->backend() == sparsecollBackendHost)
      return engine_->makeWindow(bytes, counted, memory);
    SC_TRY(Buffer buffer, (memory != nullptr ? *memory : *kernels_).allocate(bytes, counted));
    std::unique_ptr<FrameWindow> mirror;
    if (ranks() > 1) {
      SC_TRY(mirror, engine_->makeWindow(buffer.bytes(), counted, pinned_.get()));
    }
    return mirrors_->add(std::move(buffer), std::move(mirror));
  }

  // Operations of the host run on the caller's thread, once the other one has nothing to do. What is captured would be
  // replayed without that thread: no rank runs it, whatever the others do.
  Status begin(Operation& operation) override {
    under_ = Under::kNothing;
    if (operation.onHost) {
      if (!service_->idle(operation.deadline))
        return fail(sparsecollTimeout, "the steps before operation {} have not ended in time", operation.sequence);
      SC_TRY(service_->health());
      under_ = Under::kHost;
      return engine_->begin(operation);
    }
    SC_TRY(service_->health());
    SC_TRY(Job* const job, service_->claim(Job::Kind::kBegin, operation.deadline));
    job->operation = operation;
    job->operation.stream = {};
    job->operation.replays = nullptr;
    job->operation.sequenceAt = nullptr;
    job->operation.record = nullptr;  // which is the calling thread's
    mirrors_->useUntil(operation.deadline);
    service_->post(*job);
    under_ = Under::kStream;
    ordered_ = false;
    copied_.clear();
    if (!kernels_->captures(operation.stream)) return {};
    const Status differs = disagree(rank(), "capture", "rank {} captures the step", rank());
    refuse(operation, differs.failure());
    return unsupported("capture over an engine of messages: a thread of the host takes part in every step");
  }

  Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) override {
    if (under_ == Under::kHost) return engine_->round(operation, out, in, stream);
    return exchange(operation, out, in, stream, false);
  }
  Status gather(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream) override {
    if (under_ == Under::kHost) return engine_->gather(operation, out, in, stream);
    return exchange(operation, out, in, stream, true);
  }

  // Slabs go down, through the engine and up again; one is on its way through the engine while the next one goes down.
  Status allReduce(Operation& operation, const DenseArgs& args, Stream stream) override {
    if (ranks() == 1) {
      reshape(*kernels_,
              {args.in, args.out, args.type, args.n, args.inputScale, args.finish, args.accumulate, args.nonFiniteAt},
              stream);
      return {};
    }
    SC_TRY(service_->health());
    SC_TRY(order(operation, stream));
    countRing(operation, args, ranks());
    const uint64_t most = kSlabBytes / elementBytes(args.type);
    const uint64_t slabs = std::max<uint64_t>(1, (args.n + most - 1) / most);
    std::array<uint32_t, 2> tickets{};
    const auto slab = [&](uint64_t s) { return Slab{s * most, std::min(most, args.n - s * most), s == slabs - 1}; };
    SC_TRY(tickets[0], load(operation, args, slab(0), slabPlace(0), stream));
    for (uint64_t s = 0; s < slabs; ++s) {
      if (s + 1 < slabs) {
        SC_TRY(tickets[(s + 1) % 2], load(operation, args, slab(s + 1), slabPlace(s + 1), stream));
      }
      SC_TRY(words_->awaitPassed(tickets[s % 2], stream));
      unload(args, slab(s), slabPlace(s), stream);
    }
    return judge(operation, stream);
  }

  void refuse(const Operation& operation, const Failure& why) override {
    if (under_ == Under::kHost) return engine_->refuse(operation, why);
    if (under_ != Under::kStream) return;
    auto job = service_->claim(Job::Kind::kRefuse, operation.deadline);
    if (!job.ok()) return;
    (*job)->why = why;
    service_->post(**job);
  }
  void end(const Operation& operation) override {
    const Under under = std::exchange(under_, Under::kNothing);
    if (under == Under::kHost) return engine_->end(operation);
    if (under != Under::kStream) return;
    auto job = service_->claim(Job::Kind::kEnd, operation.deadline);
    if (!job.ok()) return;
    ends_ = {ends_[1], (*job)->ticket};
    service_->post(**job);
    if (!ordered_) return;
    kernels_->mark(*last_, operation.stream);
    lastStream_ = operation.stream.handle;
    marked_ = true;
  }

  // What the thread finds is there before a stream goes on because of it.
  Result<bool> await(Stream stream, const Deadline& deadline) override {
    if (kernels_->captures(stream)) return true;  // asking would spoil the capture; the kernels tell
    const cuda::BesideCaptures beside;
    for (;;) {
      const cudaError_t state = cuda::taken(cudaStreamQuery(static_cast<cudaStream_t>(stream.handle)));
      SC_TRY(service_->health());
      if (state != cudaErrorNotReady) return true;
      if (deadline.expired()) return false;
      pause(deadline);
    }
  }

  Status health() const override { return service_->health(); }
  void abort() override {
    service_->abandon(fail(sparsecollAborted, "the communicator was aborted"));
    engine_->abort();
  }
  void close(const Deadline& deadline) override {
    (void)service_->idle(deadline);
    engine_->close(deadline);
  }
  void leave() override {
    service_->abandon(fail(sparsecollAborted, "the communicator was destroyed"));
    engine_->leave();
  }
  void shutDown() override {
    service_->stop();
    engine_->shutDown();
  }
  Status replaysSound(bool inTime) override { return inTime ? service_->takeNotice() : Status(); }

 private:
  enum class Under { kNothing, kHost, kStream };
  struct Slab {
    uint64_t at, n;
    bool last;
  };

  // Once an operation, before anything of it goes to the stream: what was before it on another one is over, and so is
  // the operation before the previous one, whose mirrors come next.
  Status order(const Operation& operation, Stream stream) {
    if (std::exchange(ordered_, true)) return {};
    if (marked_ && lastStream_ != operation.stream.handle) kernels_->await(*last_, stream);
    return words_->awaitPassed(ends_[0], stream);
  }

  Status exchange(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream stream,
                  bool gathers) {
    SC_TRY(service_->health());
    SC_TRY(Job* const job, service_->claim(Job::Kind::kRound, operation.deadline));
    job->gathers = gathers;
    job->out.assign(out.begin(), out.end());
    job->in.assign(in.begin(), in.end());
    SC_TRY(copyDown(operation, *job, stream));
    const uint32_t ticket = job->ticket;
    service_->post(*job);
    ++operation.round;
    operation.sentMessages += out.size();
    for (const Outgoing& message : out) operation.sentBytes += message.layout.capacityBytes();
    if (in.empty()) return {};
    SC_TRY(words_->awaitPassed(ticket, stream));
    copyUp(in, stream);
    for (Incoming& message : in) {
      operation.receivedBytes += message.capacity;
      message.frame = message.landing;
      message.bytes = message.capacity;
    }
    return {};
  }

  // The job's messages in their mirrors, where the frames are once the stream has told so.
  Status copyDown(const Operation& operation, Job& job, Stream stream) {
    for (Incoming& message : job.in) {
      message.landing = mirrors_->of(message.landing);
      if (message.landing == nullptr) return fail(sparsecollInternalError, "a landing that is in no window");
    }
    job.awaitsStream = !job.out.empty() || !job.in.empty();
    if (!job.awaitsStream) return {};
    SC_TRY(order(operation, stream));
    for (Outgoing& message : job.out) {
      std::byte* const mirror = mirrors_->of(message.frame);
      if (mirror == nullptr) return fail(sparsecollInternalError, "a frame that is in no window");
      if (std::find(copied_.begin(), copied_.end(), message.frame) == copied_.end()) {
        kernels_->copy(mirror, message.frame, message.layout.capacityBytes(), stream);
        copied_.push_back(message.frame);
      }
      message.frame = mirror;
    }
    return words_->tell(job.ticket, stream);
  }

  // Landings that lie one behind the other go in one copy.
  void copyUp(std::span<const Incoming> in, Stream stream) {
    for (size_t first = 0; first < in.size();) {
      std::byte* const to = in[first].landing;
      const std::byte* const from = mirrors_->of(to);
      uint64_t bytes = in[first].capacity;
      size_t next = first + 1;
      for (; next < in.size() && in[next].landing == to + bytes && mirrors_->of(in[next].landing) == from + bytes;
           ++next)
        bytes += in[next].capacity;
      kernels_->copy(to, from, bytes, stream);
      first = next;
    }
  }

  std::byte* slabPlace(uint64_t s) const { return slabs_->data() + s % 2 * kSlabBytes; }
  std::byte* verdictPlace() const { return slabs_->data() + 2 * kSlabBytes; }

  Result<uint32_t> load(const Operation& operation, const DenseArgs& args, const Slab& slab, std::byte* place,
                        Stream stream) {
    const uint64_t element = elementBytes(args.type);
    SC_TRY(Job* const job, service_->claim(Job::Kind::kSum, operation.deadline));
    job->sum = {place, place, slab.n, args.type, args.inputScale, args.finish};
    job->verdict = slab.last ? verdictPlace() : nullptr;
    job->awaitsStream = true;
    const uint32_t ticket = job->ticket;
    kernels_->copy(place, static_cast<const std::byte*>(args.in) + slab.at * element, slab.n * element, stream);
    SC_TRY(words_->tell(ticket, stream));
    service_->post(*job);
    return ticket;
  }

  // What out holds has to stay where it is added to.
  void unload(const DenseArgs& args, const Slab& slab, const std::byte* place, Stream stream) {
    const uint64_t element = elementBytes(args.type);
    auto* const out = static_cast<std::byte*>(args.out) + slab.at * element;
    std::byte* const to = args.accumulate ? scratch_.as<>() : out;
    kernels_->copy(to, place, slab.n * element, stream);
    if (args.accumulate || args.nonFiniteAt != nullptr)
      reshape(*kernels_, {to, out, args.type, slab.n, 1, {}, args.accumulate, args.nonFiniteAt}, stream);
  }

  // A sum that has not come is found by kernels, as a frame is that has not.
  Status judge(const Operation& operation, Stream stream) {
    std::byte* const verdict = scratch_.as<>() + kSlabBytes;
    kernels_->copy(verdict, verdictPlace(), kFrameHeaderBytes, stream);
    const std::array<const std::byte*, 1> frames = {verdict};
    const std::array<uint64_t, 1> bytes = {kFrameHeaderBytes};
    OpenArgs args;
    args.frames = frames;
    args.bytes = bytes;
    args.expected = operation.identity();
    args.withPayload = true;
    args.peer = rank();
    return kernels_->open(args, stream);
  }

  const std::unique_ptr<Transport> engine_;
  const std::shared_ptr<Kernels> kernels_;
  const std::shared_ptr<Kernels> pinned_;
  const std::shared_ptr<MemoryBudget> budget_;
  const Waiting waiting_;
  std::unique_ptr<Words> words_;
  std::unique_ptr<FrameWindow> slabs_;  // of dense sums, two in turn, and the verdict
  std::shared_ptr<Service> service_;    // windows, which may outlive this, keep it
  std::shared_ptr<Mirrors> mirrors_;
  Buffer scratch_;                // on the device: a sum that is added to what out holds, and the verdict
  std::unique_ptr<Marker> last_;  // behind what the latest operation has on its stream
  void* lastStream_ = nullptr;
  bool marked_ = false;
  std::array<uint32_t, 2> ends_{};        // tickets by which the two latest operations are over
  std::vector<const std::byte*> copied_;  // frames of the operation that are on their way to their mirrors
  Under under_ = Under::kNothing;         // which operation is
  bool ordered_ = false;
};

}  // namespace

Result<std::unique_ptr<Transport>> makeTransport(const StagedSetup& setup, std::unique_ptr<Transport> engine) {
  auto transport = std::make_unique<StagedTransport>(setup, std::move(engine));
  SC_TRY(transport->prepare());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace sparsecoll::staged
