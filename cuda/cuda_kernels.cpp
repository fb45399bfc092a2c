#include "cuda/cuda_kernels.h"

#include <algorithm>

#include "cuda/conclude.h"
#include "cuda/copy.h"
#include "cuda/dense.h"
#include "cuda/device_clock.h"
#include "cuda/device_memory.h"
#include "cuda/device_vectors.h"
#include "cuda/device_workspace.h"
#include "cuda/flags.h"
#include "cuda/frames.h"
#include "cuda/kernel_table.h"
#include "cuda/lists.h"
#include "cuda/objects.h"
#include "cuda/selection.h"

namespace sparsecoll::cuda {

namespace {

class Event final : public Marker {
 public:
  cudaError_t make() { return event_.make(); }
  cudaEvent_t get() const { return event_.get(); }

 private:
  OwnEvent event_;
};

class CudaKernels final : public Kernels {
 public:
  struct Parts {
    std::shared_ptr<const OwnStreams> streams;
    std::shared_ptr<Users> users;
    std::shared_ptr<DeviceMemory> memory, flagMemory;
    int sharers = 1;  // most ranks of the group on one device
  };
  CudaKernels(DeviceContext device, Parts parts) : parts_(std::move(parts)), device_(std::move(device)) {}

  Status prepare() {
    SC_TRY(user_, parts_.users->add(device_.ordinal()));
    SC_TRY(Buffer findings, allocate(2 * sizeof(Finding), nullptr));
    device_.setFindings(std::move(findings));
    return {};
  }

  sparsecollBackend_t backend() const override { return sparsecollBackendCuda; }
  const char* name() const override { return "cuda"; }

  Result<Buffer> allocate(uint64_t bytes, const std::shared_ptr<MemoryBudget>& budget) override {
    return takeBuffer(parts_.memory, bytes, budget);
  }

  Result<std::unique_ptr<Workspace>> makeWorkspace(const WorkspaceNeed& need,
                                                   const std::shared_ptr<MemoryBudget>& budget) override {
    SC_TRY(Buffer memory, allocate(DeviceWorkspace::bytesFor(need), budget));
    return std::unique_ptr<Workspace>(new DeviceWorkspace(need, std::move(memory)));
  }

  Stream stream() const override { return {parts_.streams->setUp.get(), nullptr}; }
  void noteUse(Stream stream) override {
    if (device_.tookEnqueued()) noteOthersUse(stream);
  }
  void noteOthersUse(Stream stream) override {
    parts_.users->mark(user_, static_cast<cudaStream_t>(stream.handle), captures(stream));
  }
  void beginUse(Stream stream) override { parts_.users->begin(user_, static_cast<cudaStream_t>(stream.handle)); }
  void endUse(Stream stream) override {
    noteUse(stream);
    parts_.users->end(user_);
  }
  bool usesOver() override { return parts_.users->over(); }
  uint64_t abandonedBytes() const override {
    return parts_.memory->abandonedBytes() + parts_.flagMemory->abandonedBytes();
  }

  Result<std::unique_ptr<Marker>> makeMarker() override {
    auto event = std::make_unique<Event>();
    const OnDevice current(device_.ordinal());
    const cudaError_t error = event->make();
    if (error == cudaSuccess) return std::unique_ptr<Marker>(std::move(event));
    return fail(sparsecollCudaError, "an event on device {}: {}", device_.ordinal(), cudaGetErrorString(error));
  }
  void mark(Marker& marker, Stream stream) override {
    device_.note("mark", 1,
                 cudaEventRecord(static_cast<Event&>(marker).get(), static_cast<cudaStream_t>(stream.handle)));
  }
  void await(const Marker& marker, Stream stream) override {
    device_.note(
        "await", 1,
        cudaStreamWaitEvent(static_cast<cudaStream_t>(stream.handle), static_cast<const Event&>(marker).get(), 0));
  }
  bool captures(Stream stream) const override { return isCaptured(static_cast<cudaStream_t>(stream.handle), false); }
  // A stream that waits holds up what shares its hardware queue: a rank that it waits for, or what would free it.
  Status fitsWaits(int ranks) const override {
    const int waiting = ranks != 0 ? ranks : parts_.sharers;
    const int needed = waiting + kOwnStreams;
    if (waiting == 1 || needed <= connections()) return {};
    return unsupported(
        "{} ranks that wait for each other on device {}: CUDA_DEVICE_MAX_CONNECTIONS is {} and has to be {} or more "
        "(at "
        "most {}), from before the process first uses CUDA",
        waiting, device_.ordinal(), connections(), needed, kMostConnections);
  }
  Result<std::unique_ptr<Flags>> makeFlags(uint64_t count) override {
    SC_TRY(Buffer memory, takeBuffer(parts_.flagMemory, flagBytes(count), nullptr));
    return cuda::makeFlags(std::move(memory), device_, parts_.streams, parts_.users);
  }
  void raise(const Flags& own, std::span<uint32_t* const> flags, std::span<uint64_t* const> counts,
             Stream stream) override {
    cuda::raise(own, flags, counts, device_, stream);
  }
  void awaitRaised(const Flags& own, std::span<uint32_t* const> flags, Stream stream) override {
    cuda::awaitRaised(own, flags, device_, stream);
  }
  void lower(const Flags& own, std::span<uint32_t* const> flags, Stream stream) override {
    cuda::lower(own, flags, device_, stream);
  }
  const Control* look(const Control*) const override { return nullptr; }

  Status reach(Stream stream, const Deadline& deadline) override {
    const OnDevice current(device_.ordinal());
    if (captures(stream)) return fail(sparsecollInvalidUsage, "waiting for a stream that is captured");
    return told(untilDone(static_cast<cudaStream_t>(stream.handle), deadline));
  }
  Status reach(const Marker& marker, const Deadline& deadline) override {
    const OnDevice current(device_.ordinal());
    return told(untilReached(static_cast<const Event&>(marker).get(), deadline));
  }

  Status findings(Stream stream, const Deadline& deadline) override {
    const OnDevice current(device_.ordinal());
    SC_TRY(reach(stream, deadline));
    const auto handle = static_cast<cudaStream_t>(stream.handle);
    Finding findings[2] = {};
    device_.note("findings", 1,
                 cudaMemcpyAsync(findings, device_.finding(), sizeof findings, cudaMemcpyDefault, handle));
    device_.note("findings", 1, forgetFindings(device_.finding(), findings, handle));
    SC_TRY(device_.takeFailure());
    SC_TRY(statusOf(findings[0]));
    return statusOf(findings[1]);
  }

  Status enqueued() override { return device_.takeFailure(); }
  void fillZero(void* data, uint64_t bytes, Stream stream) override {
    const OnDevice current(device_.ordinal());  // communicators of many devices are made on one thread
    cuda::fillZero(data, bytes, device_, stream);
  }
  void copy(void* to, const void* from, uint64_t bytes, Stream stream) override {
    const OnDevice current(device_.ordinal());
    cuda::copy(to, from, bytes, device_, stream);
  }
  void transfer(void* to, const void* from, uint64_t bytes, Stream stream) override {
    const OnDevice current(device_.ordinal());
    cuda::transfer(to, from, bytes, device_, stream);
  }

  void sample(const PassArgs& args, Stream stream) override { cuda::sample(args, device_, stream); }
  void pass(const PassArgs& args, Stream stream) override { cuda::pass(args, device_, stream); }
  void countTrials(const TrialArgs& args, Stream stream) override { cuda::countTrials(args, device_, stream); }
  void cut(const CutArgs& args, Stream stream) override { cuda::cut(args, device_, stream); }
  void apply(const Rule& rule, Control* control, Stream stream) override { device_.launch(rule, control, stream); }
  Status apply(const ListRule& rule, const ListRuleArgs& args, uint64_t items, Stream stream) override {
    device_.launch(rule, args, items, stream);
    return device_.takeFailure();
  }

  void seal(const SealArgs& args, Stream stream) override { cuda::seal(args, device_, stream); }
  Status open(const OpenArgs& args, Stream stream) override {
    cuda::open(args, device_, stream);
    return device_.takeFailure();
  }

  Status gather(const void* acc, sparsecollDataType_t type, uint64_t n, std::span<const ListView> lists,
                std::span<const List> to, Stream stream) override {
    for (size_t l = 0; l < lists.size(); ++l) cuda::gather(acc, type, n, lists[l], to[l], device_, stream);
    return device_.takeFailure();
  }
  void sumValues(std::span<const void* const> from, sparsecollDataType_t type, const uint32_t* count, const List& to,
                 Stream stream) override {
    cuda::sumValues(from, type, count, to, device_, stream);
  }
  Status combine(const CombineArgs& args, Stream stream) override {
    cuda::combine(args, device_, stream);
    return device_.takeFailure();
  }
  Status merge(const MergeArgs& args, Stream stream) override {
    cuda::merge(args, device_, stream);
    return device_.takeFailure();
  }
  Status mergeCut(const MergeCutArgs& args, Stream stream) override {
    cuda::mergeCut(args, device_, stream);
    return device_.takeFailure();
  }
  Status stream(const StreamArgs& args, Stream stream) override {
    cuda::stream(args, device_, stream);
    return device_.takeFailure();
  }
  Status join(const JoinArgs& args, Stream stream) override {
    cuda::join(args, device_, stream);
    return device_.takeFailure();
  }
  Status concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to,
                     Stream stream) override {
    cuda::concatenate(parts, type, to, device_, stream);
    return device_.takeFailure();
  }
  void settle(const SettleArgs& args, Stream stream) override { cuda::settle(args, device_, stream); }
  Status checkOrder(const ListView& list, uint64_t n, Stream stream) override {
    cuda::checkOrder(list, n, device_, stream);
    return device_.takeFailure();
  }
  Status countBlocks(const BlockCountArgs& args, Stream stream) override {
    cuda::countBlocks(args, device_, stream);
    return device_.takeFailure();
  }
  void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control* control, Stream stream) override {
    cuda::tally(sum, bounds, owners, control, device_, stream);
  }
  void denseSum(const DenseSumArgs& args, Stream stream) override { cuda::denseSum(args, device_, stream); }

  Status conclude(const ConcludeArgs& args, Stream stream) override {
    cuda::conclude(args, device_, stream);
    return device_.takeFailure();
  }
  void restore(void* x, const void* before, sparsecollDataType_t type, uint64_t n, const Control* decision,
               Stream stream) override {
    cuda::restore(x, before, type, n, decision, device_, stream);
  }
  void zeroAt(void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const Control* decision,
              Stream stream) override {
    cuda::zeroAt(acc, type, n, list, decision, device_, stream);
  }
  void clearNonFinite(void* acc, sparsecollDataType_t type, uint64_t n, const Control* control,
                      Stream stream) override {
    cuda::clearNonFinite(acc, type, n, control, device_, stream);
  }
  void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
                 double factor, Scale divisor, const Control* decision, Stream stream) override {
    cuda::addFinite(acc, accType, x, type, n, factor, divisor, decision, device_, stream);
  }
  void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n,
             Stream stream) override {
    cuda::flush(acc, accType, x, type, n, device_, stream);
  }
  void squares(const void* x, sparsecollDataType_t type, uint64_t n, double* squaresAt, Stream stream) override {
    cuda::squares(x, type, n, squaresAt, device_, stream);
  }
  void clip(std::span<const double> squares, Scale scale, double mostNorm, double* scaleAt, Stream stream) override {
    cuda::clip(squares, scale, mostNorm, scaleAt, device_, stream);
  }
  VectorKernels* vectors() override { return &vectors_; }
  Result<std::unique_ptr<StepClock>> makeClock() override { return DeviceClock::make(device_.ordinal()); }

 private:
  Status told(cudaError_t state) const {
    if (state == cudaSuccess) return {};
    if (state == cudaErrorNotReady)
      return fail(sparsecollTimeout, "device {} has not finished its work in time", device_.ordinal());
    return fail(sparsecollCudaError, "work on device {}: {}", device_.ordinal(), cudaGetErrorString(state));
  }

  const Parts parts_;
  size_t user_ = 0;  // of the memory
  DeviceContext device_;
  DeviceVectors vectors_{*this, device_};
};

}  // namespace

int deviceCount() {
  int count = 0;
  return taken(cudaGetDeviceCount(&count)) == cudaSuccess ? count : 0;
}

Result<int> currentDevice() {
  if (deviceCount() == 0) return unsupported("there is no device, or no driver for it");
  int device = 0;
  const cudaError_t error = taken(cudaGetDevice(&device));
  if (error == cudaSuccess) return device;
  return fail(sparsecollCudaError, "no current device: {}", cudaGetErrorString(error));
}

Text<32> busIdOf(int device) {
  char id[32] = {};
  if (taken(cudaDeviceGetPCIBusId(id, sizeof id, device)) != cudaSuccess) return {};
  return Text<32>(id);
}

// What fails here the next call of the library's on the device tells.
OnDevice::OnDevice(int device) {
  int before = kStays;
  if (device < 0 || taken(cudaGetDevice(&before)) != cudaSuccess || before == device) return;
  if (taken(cudaSetDevice(device)) == cudaSuccess) before_ = before;
}
OnDevice::~OnDevice() {
  if (before_ != kStays) (void)taken(cudaSetDevice(before_));
}

Result<std::vector<std::shared_ptr<Kernels>>> makeCudaKernels(std::span<const int> devices, const MemoryTerms& terms) {
  CudaKernels::Parts parts;
  parts.users = std::make_shared<Users>(terms.patienceMs, terms.log);
  for (const int device : devices)
    parts.sharers = std::max(parts.sharers, static_cast<int>(std::ranges::count(devices, device)));
  std::vector<std::shared_ptr<Kernels>> made;
  for (const int device : devices) {
    SC_TRY(DeviceContext context, DeviceContext::make(device));
    const OnDevice current(device);
    SC_TRY(loadKernels(device));
    SC_TRY(parts.streams, ownStreams(device));
    SC_TRY(parts.memory, makeDeviceMemory(device, devices, terms.allocator, parts.streams, parts.users));
    parts.flagMemory = makeFlagMemory(device, parts.streams, parts.users);
    auto kernels = std::make_shared<CudaKernels>(std::move(context), parts);
    SC_TRY(kernels->prepare());
    made.push_back(std::move(kernels));
  }
  SC_TRY(connectDevices(devices));
  return made;
}

Result<std::shared_ptr<Kernels>> makeCudaKernels(int device, const MemoryTerms& terms) {
  SC_TRY(auto made, makeCudaKernels(std::span(&device, 1), terms));
  return std::move(made.front());
}

}  // namespace sparsecoll::cuda
