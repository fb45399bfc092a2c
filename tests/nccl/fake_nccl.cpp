#include "tests/nccl/fake_nccl.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

#include "tests/nccl/fake_state.h"
#include "tests/simt/streams.h"
#include "tests/support/elements.h"
#include "tests/support/memory_exempt.h"

using namespace sparsecoll::nccl;

#define FAKE_DECLARE(name, ...) \
  extern "C" __attribute__((visibility("default"))) std::type_identity_t<__VA_ARGS__> nccl##name;
SC_NCCL_CALLS(FAKE_DECLARE)
SC_NCCL_LATER_CALLS(FAKE_DECLARE)

namespace fake {

namespace {

// Ranks of NCCL have a device each. Here they share one, which has a queue for every stream instead.
const bool kQueuesForAll = (simt::needConnections(32), true);

constexpr int kUsualVersion = versionOf(2, 28, 9);

struct State {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<World>> worlds;  // by id
  std::vector<std::unique_ptr<ncclComm>> all;
  std::set<Comm> alive;
  std::vector<std::string> misuse;
  std::map<std::string, uint64_t> calls;
  std::map<int, Code> planted;
  uint64_t ids = 0;
  uint64_t aborting = 0;
  std::atomic<int64_t> waiting{0};
  int version = 0;
};
State& state() {
  static State instance;
  return instance;
}

void accuse(const std::string& text) { state().misuse.push_back(text); }

// One thread at a time, which is refused no memory.
struct Entry {
  const sparsecoll::test::memory::Exempt exempt;
  const std::lock_guard<std::mutex> lock{state().mutex};
};

struct Group {
  int depth = 0;
  Comm comm = nullptr;
  StreamHandle stream = nullptr;
  std::vector<Call> calls;
};
thread_local Group group;

// What one group puts on a stream.
class Batch {
 public:
  Batch(Comm comm, std::vector<Call> calls, bool captured)
      : comm_(comm), world_(comm->world), calls_(std::move(calls)), captured_(captured) {
    for (const Call& call : calls_) {
      const bool collective = call.kind != Kind::kSend && call.kind != Kind::kRecv;
      numbers_.push_back(!collective ? kNone : captured ? 0 : comm_->collectives++);
    }
    if (captured_) ++comm_->captured;
  }
  ~Batch() {
    if (!captured_) return;
    const std::lock_guard lock(state().mutex);
    --comm_->captured;
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  bool ready() {
    const std::lock_guard lock(state().mutex);
    if (comm_->aborted) return true;
    if (!posted_) post();
    const bool come = allCome();
    if (!come && !counted_) ++state().waiting;
    if (come && counted_) --state().waiting;
    counted_ = !come;
    return come;
  }

  void run() {
    const std::lock_guard lock(state().mutex);
    if (posted_) --comm_->open;
    if (std::exchange(counted_, false)) --state().waiting;
    if (comm_->aborted) return;
    for (size_t c = 0; c < calls_.size(); ++c) finish(calls_[c], numbers_[c]);
    posted_ = false;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  std::deque<Bytes>& mail(int from, int to) { return world_->mail[{from, to}]; }

  void post() {
    posted_ = true;
    ++comm_->open;
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Call& call = calls_[c];
      if (captured_ && numbers_[c] != kNone) numbers_[c] = comm_->collectives++;
      if (call.kind == Kind::kSend) mail(comm_->rank, call.peer).push_back(copyOf(call.in, call.bytes()));
      if (call.kind == Kind::kGather || call.kind == Kind::kReduce) join(call, numbers_[c]);
    }
  }

  void join(const Call& call, size_t number) {
    auto& all = world_->collectives;
    if (all.size() <= number) all.resize(number + 1);
    if (all[number] == nullptr)
      all[number] = std::make_shared<Collective>(Collective{call.kind, call.count, call.type, {}});
    Collective& met = *all[number];
    if (met.kind != call.kind || met.count != call.count || met.type != call.type) {
      accuse("rank " + std::to_string(comm_->rank) + " is in another collective than the others, or with " +
             std::to_string(call.count) + " elements where they have " + std::to_string(met.count));
      return;  // and never ends
    }
    met.parts[comm_->rank] = copyOf(call.in, call.bytes());
  }

  bool allCome() {
    std::map<int, size_t> wanted;
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Call& call = calls_[c];
      if (call.kind == Kind::kRecv) {
        const std::deque<Bytes>& box = mail(call.peer, comm_->rank);
        const size_t which = wanted[call.peer]++;
        if (box.size() <= which) return false;
        if (box[which].size() == call.bytes()) continue;
        if (!std::exchange(accused_, true))
          accuse("rank " + std::to_string(call.peer) + " sends " + std::to_string(box[which].size()) + " bytes, rank " +
                 std::to_string(comm_->rank) + " receives " + std::to_string(call.bytes()));
        return false;
      }
      if (call.kind == Kind::kSend) continue;
      const auto& met = world_->collectives[numbers_[c]];
      if (met->parts.size() < static_cast<size_t>(world_->ranks)) return false;
    }
    return true;
  }

  void finish(const Call& call, size_t number) {
    if (call.kind == Kind::kSend) return;
    if (call.kind == Kind::kRecv) {
      std::deque<Bytes>& box = mail(call.peer, comm_->rank);
      std::memcpy(call.out, box.front().data(), call.bytes());
      box.pop_front();
      return;
    }
    const Collective& met = *world_->collectives[number];
    auto* const out = static_cast<std::byte*>(call.out);
    if (call.kind == Kind::kGather) {
      for (const auto& [rank, part] : met.parts)
        std::memcpy(out + static_cast<size_t>(rank) * part.size(), part.data(), part.size());
      return;
    }
    const auto type = static_cast<sparsecollDataType_t>(int{call.type});
    for (size_t i = 0; i < call.count; ++i) {  // in rank order, rounded after every sum, as NCCL's rings do it
      double sum = 0;
      for (const auto& [rank, part] : met.parts) {
        const double x = sparsecoll::test::loadElement(type, part.data(), i);
        sum = rank == 0 ? x : sparsecoll::test::roundTo(type, sum + x);
      }
      sparsecoll::test::storeElement(type, out, i, sum);
    }
  }

  const Comm comm_;
  const std::shared_ptr<World> world_;
  const std::vector<Call> calls_;
  const bool captured_;  // every replay is another collective
  std::vector<size_t> numbers_;
  bool posted_ = false;
  bool counted_ = false;
  bool accused_ = false;
};

// Counts a call; whether the communicator may be used for it.
bool enter(const char* name, Comm comm, bool asks = false) {
  ++state().calls[name];
  if (!state().alive.contains(comm)) {
    accuse(std::string(name) + " with a communicator that is destroyed or aborted");
    return false;
  }
  if (!asks && comm->unasked > 0) accuse(std::string(name) + " while the communicator is still in progress");
  return true;
}

Code add(const char* name, const Call& call, Comm comm, StreamHandle stream) {
  const sparsecoll::test::memory::Exempt exempt;
  {
    const std::lock_guard lock(state().mutex);
    if (!enter(name, comm)) return kInvalidArgument;
    const bool peers = call.kind == Kind::kSend || call.kind == Kind::kRecv;
    if (peers && (call.peer < 0 || call.peer >= comm->world->ranks)) return kInvalidArgument;
    if (group.depth > 0 && !group.calls.empty() && (group.comm != comm || group.stream != stream))
      accuse("one group with several communicators or streams");
  }
  const bool alone = group.depth == 0;
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  if (!alone) return kSuccess;
  ++group.depth;
  return static_cast<Code>(ncclGroupEnd());
}

Code tell(const char* name, Comm comm, int value, int* out) {
  const Entry entry;
  if (!enter(name, comm)) return kInvalidArgument;
  *out = value;
  return kSuccess;
}

Comm makeComm(std::shared_ptr<World> world, int rank, bool blocking) {
  state().all.emplace_back(new ncclComm{std::move(world), rank, simt::currentDevice(), blocking});
  const Comm comm = state().all.back().get();
  comm->world->joined.insert(rank);
  state().alive.insert(comm);
  return comm;
}

Code statusOf(Comm comm) {
  if (const auto planted = state().planted.find(comm->rank); planted != state().planted.end()) return planted->second;
  if (!comm->world->complete()) return kInProgress;
  if (comm->split != nullptr) {
    if (!comm->split->world->complete()) return kInProgress;
    *std::exchange(comm->splitPlace, nullptr) = std::exchange(comm->split, nullptr);
  }
  if (comm->finalized && comm->captured != 0) return kInProgress;  // NCCL waits for graphs
  if (comm->unasked == 0) return kSuccess;
  --comm->unasked;
  return kInProgress;
}

}  // namespace

std::vector<std::string> misuse() {
  const std::lock_guard lock(state().mutex);
  return state().misuse;
}
std::map<std::string, uint64_t> calls() {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}
uint64_t waiting() { return static_cast<uint64_t>(state().waiting.load()); }
uint64_t unreceived() {
  const std::lock_guard lock(state().mutex);
  uint64_t count = 0;
  std::set<World*> worlds;
  for (Comm comm : state().alive) worlds.insert(comm->world.get());
  for (World* world : worlds)
    for (const auto& [way, box] : world->mail) count += box.size();
  return count;
}
void reset() {
  const std::lock_guard lock(state().mutex);
  state().misuse.clear();
  state().calls.clear();
  state().planted.clear();
  state().version = 0;
}

std::vector<Comm> makeComms(int ranks, bool blocking) {
  const std::lock_guard lock(state().mutex);
  auto world = std::make_shared<World>(ranks);
  std::vector<Comm> comms;
  for (int rank = 0; rank < ranks; ++rank) comms.push_back(makeComm(world, rank, blocking));
  return comms;
}
bool isAlive(Comm comm) {
  const std::lock_guard lock(state().mutex);
  return state().alive.contains(comm);
}
uint64_t aborting() {
  const std::lock_guard lock(state().mutex);
  return state().aborting;
}
uint64_t aliveCount() {
  const std::lock_guard lock(state().mutex);
  return state().alive.size();
}
void plant(int rank, Code error) {
  const std::lock_guard lock(state().mutex);
  state().planted[rank] = error;
}
void pretendVersion(int version) {
  const std::lock_guard lock(state().mutex);
  state().version = version;
}

}  // namespace fake

using namespace fake;

Code ncclGetVersion(int* version) {
  const Entry entry;
  *version = state().version != 0 ? state().version : kUsualVersion;
  return kSuccess;
}

Code ncclGetUniqueId(UniqueId* id) {
  const Entry entry;
  std::memset(id, 0, sizeof *id);
  const std::string text = "fake " + std::to_string(++state().ids);
  std::memcpy(id->internal, text.data(), text.size());
  return kSuccess;
}

Code ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  const Entry entry;
  ++state().calls["ncclCommInitRankConfig"];
  if (config->magic != Config{}.magic || config->size < sizeof(Config)) return kInvalidArgument;
  const std::string name(id.internal, sizeof id.internal);
  std::shared_ptr<World> world = state().worlds[name].lock();
  if (world == nullptr) state().worlds[name] = world = std::make_shared<World>(ranks);
  if (world->ranks != ranks || rank < 0 || rank >= ranks) return kInvalidArgument;
  if (world->joined.contains(rank)) return kInvalidUsage;
  *comm = makeComm(world, rank, config->blocking != 0);
  if (config->blocking != 0) accuse("a blocking communicator");
  return kInProgress;
}

// As NCCL does it, whether the new communicator blocks or not: of one that blocks it waits for all ranks, of another it
// has begun once the call is over, and says so to nobody but those who ask the old one.
Code ncclCommSplit(Comm comm, int color, int key, Comm* made, Config* config) {
  *made = nullptr;
  Comm split = nullptr;
  {
    const Entry entry;
    if (!enter("ncclCommSplit", comm)) return kInvalidArgument;
    if (color != 0 || key != comm->rank || config->blocking != 0) accuse("a split that the library has no reason for");
    std::vector<Comm>& splits = comm->world->splits;
    splits.resize(static_cast<size_t>(comm->world->ranks));
    std::shared_ptr<World> world;
    for (Comm other : splits)
      if (other != nullptr) world = other->world;
    if (world == nullptr) world = std::make_shared<World>(comm->world->ranks);
    split = splits[static_cast<size_t>(comm->rank)] = makeComm(world, key, false);
    if (world->complete()) splits.clear();
    if (!comm->blocking) {
      comm->split = split;
      comm->splitPlace = made;
      return kSuccess;
    }
  }
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    const Entry entry;
    if (!split->world->complete()) continue;
    *made = split;
    return kSuccess;
  }
}

Code ncclCommUserRank(Comm comm, int* rank) { return tell("ncclCommUserRank", comm, comm->rank, rank); }
Code ncclCommCount(Comm comm, int* ranks) { return tell("ncclCommCount", comm, comm->world->ranks, ranks); }
Code ncclCommCuDevice(Comm comm, int* device) { return tell("ncclCommCuDevice", comm, comm->device, device); }

Code ncclCommGetAsyncError(Comm comm, Code* code) {
  const Entry entry;
  if (!enter("ncclCommGetAsyncError", comm, true)) return kInvalidArgument;
  *code = fake::statusOf(comm);
  return kSuccess;
}

Code ncclCommFinalize(Comm comm) {
  const Entry entry;
  if (!enter("ncclCommFinalize", comm)) return kInvalidArgument;
  comm->finalized = true;
  comm->unasked = comm->open == 0 ? 3 : INT_MAX;  // what is on streams is waited for
  return kInProgress;
}

Code ncclCommDestroy(Comm comm) {
  const Entry entry;
  if (!enter("ncclCommDestroy", comm)) return kInvalidArgument;
  state().alive.erase(comm);
  return kSuccess;
}

// Like NCCL it lets streams go on, and then waits until no graph holds operations of the communicator.
Code ncclCommAbort(Comm comm) {
  {
    const Entry entry;
    if (!enter("ncclCommAbort", comm, true)) return kInvalidArgument;
    comm->aborted = true;
    state().alive.erase(comm);
    ++state().aborting;
  }
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    const Entry entry;
    if (comm->captured != 0) continue;
    --state().aborting;
    return kSuccess;
  }
}

const char* ncclGetErrorString(Code code) { return code == kRemoteError ? "a remote process has gone" : "an error"; }
const char* ncclGetLastError(Comm) { return ""; }

Code ncclGroupStart() {
  const Entry entry;
  ++state().calls["ncclGroupStart"];
  ++group.depth;
  return kSuccess;
}

Code ncclGroupEnd() {
  const sparsecoll::test::memory::Exempt exempt;
  std::vector<Call> calls;
  const Comm comm = group.comm;
  {
    const Entry entry;
    ++state().calls["ncclGroupEnd"];
    if (group.depth == 0) return kInvalidUsage;
    if (--group.depth > 0) return kSuccess;
    calls.swap(group.calls);
    if (calls.empty()) return kSuccess;
  }
  const bool captured = simt::capturing(static_cast<cudaStream_t>(group.stream));
  const auto batch = [&] {
    const Entry entry;
    return std::make_shared<Batch>(comm, std::move(calls), captured);
  }();
  const cudaError_t error = simt::submitWhen(
      static_cast<cudaStream_t>(group.stream), [batch] { return batch->ready(); }, [batch] { batch->run(); });
  if (error != cudaSuccess) return kUnhandledCudaError;
  const Entry entry;
  if (comm->blocking) return kSuccess;
  comm->unasked = 3;
  return kInProgress;
}

Code ncclSend(const void* data, size_t count, DataType type, int peer, Comm comm, StreamHandle stream) {
  return add("ncclSend", {Kind::kSend, data, nullptr, count, type, peer}, comm, stream);
}
Code ncclRecv(void* data, size_t count, DataType type, int peer, Comm comm, StreamHandle stream) {
  return add("ncclRecv", {Kind::kRecv, nullptr, data, count, type, peer}, comm, stream);
}
Code ncclAllGather(const void* in, void* out, size_t count, DataType type, Comm comm, StreamHandle stream) {
  return add("ncclAllGather", {Kind::kGather, in, out, count, type, -1}, comm, stream);
}
Code ncclAllReduce(const void* in, void* out, size_t count, DataType type, RedOp, Comm comm, StreamHandle stream) {
  return add("ncclAllReduce", {Kind::kReduce, in, out, count, type, -1}, comm, stream);
}
