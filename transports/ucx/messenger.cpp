// Messages over UCX's tagged sends and receives. Endpoints have no error handling of UCX's: in version 1.13 that would
// rule out shared memory, and it would not end a receive whose sender is dead. What it leaves open is decided here:
// a receive is cancelled; a send cannot be, so once a send to a dead rank is given up nothing of this worker runs
// again, and its memory stays UCX's for ever.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/beside.h"
#include "core/environment.h"
#include "core/poll.h"
#include "core/wait.h"
#include "transports/engine/tag.h"
#include "transports/ucx.h"
#include "transports/ucx/library.h"

namespace sparsecoll::ucx {

namespace {

constexpr uint64_t kGiveUpMs = 100;  // for what was cancelled to end after all
constexpr uint64_t kStuckMs = 1000;  // for the last messages to leave, where peers have not met or take nothing
constexpr int kFailed = 1;

// Version 1.13 ends a process that reads from a dead one by cross-memory attach. It does so, too, when a rank dies
// while connections over several transports are still being made, or are taken down, which on one host need not be:
// there memory alone will do, and no port is opened.
constexpr const char* kOneHost = "posix,sysv,self";
constexpr const char* kManyHosts = "^cma";

// In shared memory a message that waits for its receive costs more messages than it saves copies. Segments of dense
// sums, of 128 KiB at most, go at once, and so do frames up to this size. What comes too early is in UCX's memory until
// its receive is posted: of each peer a frame, and the few segments that it has under way. Contributions to a sum count
// as under way until they are taken, which may be long after they have left: their receiver waits for other ranks.
constexpr const char* kWaitFrom = "256k";
// Over sockets a message that waits asks on the connection on which its sender sends, too, and two ranks take turns:
// over 100 Mbit/s two frames of 1.28 MB for each other took 213 ms instead of 106. There none waits, however
// long a frame is.
constexpr const char* kNoneWaits = "inf";
constexpr const char* kNoMemoryToShare = " (UCX takes 8 MiB of /dev/shm a rank; UCX_TLS=tcp,self does without)";
constexpr const char* kRemoteMemoryVerbs = "/dev/infiniband";
constexpr const char* kRemoteMemoryDevices = "/sys/class/infiniband";  // EFA's are among them

// Looks in vain: at first they come at once, then others get the core in between, then this thread sleeps.
constexpr uint32_t kYieldAfter = 64;
constexpr uint32_t kSleepAfter = 512;
constexpr uint64_t kSleepMs = 1;

uint64_t tagOf(int sender, int tag) { return (static_cast<uint64_t>(sender) << 32) | static_cast<uint32_t>(tag); }

bool hasRemoteMemory() {
  std::error_code none;
  return !std::filesystem::is_empty(kRemoteMemoryDevices, none) && !none;
}

std::vector<std::filesystem::path> entriesOf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code failed;
  for (std::filesystem::directory_iterator each(folder, failed), end; !failed && each != end; each.increment(failed))
    entries.push_back(each->path());
  return entries;
}

// As UCX names them, with commas before them: "mlx5_0:1". Those that are up.
std::string remoteMemoryPorts() {
  std::string ports;
  std::error_code none;
  if (!std::filesystem::exists(kRemoteMemoryVerbs, none)) return ports;  // a container that was not given them
  for (const auto& device : entriesOf(kRemoteMemoryDevices)) {
    for (const auto& port : entriesOf(device / "ports")) {
      std::string state;
      std::ifstream file(port / "state");
      std::getline(file, state);
      if (state.find("ACTIVE") != std::string::npos)
        ports += ',' + device.filename().string() + ':' + port.filename().string();
    }
  }
  return ports;
}

ucs_log_func_rc_t sayNothing(const char*, unsigned, const char*, ucs_log_level_t, const ucs_log_component_config_t*,
                             const char*, va_list) {
  return UCS_LOG_FUNC_RC_STOP;
}

struct Request {
  void* ucs = nullptr;  // nullptr: it was done at once
  bool receives = false;
  bool cancelled = false;
  ucp_tag_recv_info_t info{};
};

class UcxMessenger final : public engine::Messenger {
 public:
  explicit UcxMessenger(const Library& ucx) : ucx_(ucx) {}
  ~UcxMessenger() override { close(); }
  UcxMessenger(const UcxMessenger&) = delete;
  UcxMessenger& operator=(const UcxMessenger&) = delete;

  Status open(bool oneHost, const bootstrap::Address& at) {
    ucp_config_t* config = nullptr;
    SC_TRY(check(ucx_.ucp_config_read(nullptr, nullptr, &config), "ucp_config_read"));
    const bool ours = environmentText(variable::kUcxTransports) == nullptr;
    memoryOnly_ = ours && oneHost;
    if (ours) (void)ucx_.ucp_config_modify(config, "TLS", oneHost ? kOneHost : kManyHosts);
    if (environmentText(variable::kUcxRendezvous) == nullptr && (memoryOnly_ || !hasRemoteMemory()))
      (void)ucx_.ucp_config_modify(config, "RNDV_THRESH", memoryOnly_ ? kWaitFrom : kNoneWaits);
    // Left to itself UCX takes any card of this machine, also one that leads to no rank.
    std::string interface = oneHost || at.isLoopback() ? "" : bootstrap::interfaceWith(at);
    interface.resize(std::min(interface.size(), interface.find(':')));  // an address may have a label of its own
    if (environmentText(variable::kUcxDevices) == nullptr && !interface.empty())
      (void)ucx_.ucp_config_modify(config, "NET_DEVICES", (interface + remoteMemoryPorts()).c_str());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    const ucs_status_t made = ucx_.ucp_init_version(UCP_API_MAJOR, kApiMinor, &params, config, &context_);
    ucx_.ucp_config_release(config);
    if (made != UCS_OK) context_ = nullptr;
    SC_TRY(check(made, "ucp_init"));
    ucp_worker_params_t workerParams{};
    workerParams.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    workerParams.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (const ucs_status_t opened = ucx_.ucp_worker_create(context_, &workerParams, &worker_); opened != UCS_OK)
      return fail(sparsecollSystemError, "ucp_worker_create: {}{}", ucx_.ucs_status_string(opened),
                  memoryOnly_ ? kNoMemoryToShare : "");
    SC_TRY(check(ucx_.ucp_worker_get_efd(worker_, &wakeUp_), "ucp_worker_get_efd"));
    ucp_address_t* address = nullptr;
    size_t bytes = 0;
    SC_TRY(check(ucx_.ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address"));
    const auto* const begin = reinterpret_cast<const std::byte*>(address);
    address_.assign(begin, begin + bytes);
    ucx_.ucp_worker_release_address(worker_, address);
    return {};
  }

  std::vector<std::byte> card() const override { return address_; }

  Status connect(bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh, const Deadline&) override {
    rank_ = mesh.rank;
    endpoints_.resize(mesh.cards.size(), nullptr);
    for (size_t peer = 0; peer < mesh.cards.size(); ++peer) {
      if (static_cast<int>(peer) == rank_) continue;
      ucp_ep_params_t params{};
      params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
      params.address = reinterpret_cast<const ucp_address_t*>(mesh.cards[peer].data());
      const ucs_status_t made = ucx_.ucp_ep_create(worker_, &params, &endpoints_[peer]);
      // The shared memory of a rank that has gone cannot be opened any more.
      if (made != UCS_OK) SC_TRY(bootstrap::whyUnreachable(exchange, mesh));
      SC_TRY(check(made, "ucp_ep_create"));
    }
    return {};
  }

  void keepAwake(std::shared_ptr<const std::atomic<bool>> awake) override { awake_ = std::move(awake); }

  engine::MessengerCalls calls() const override {
    return {.sleeps = true, .closeBy = [](void* user, const Deadline& latest) { self(user).latest_ = latest; }};
  }

  sparsecollEngine_t table() override {
    auto table = SPARSECOLL_INIT(sparsecollEngine_t);
    table.user = this;
    table.isend = [](void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
      return self(user).send(peer, tag, data, bytes, request);
    };
    table.irecv = [](void* user, int peer, int tag, void* data, size_t capacity, void** request) {
      return self(user).receive(peer, tag, data, capacity, request);
    };
    table.test = [](void* user, void** request, int* done, size_t* bytes) {
      return self(user).test(request, done, bytes);
    };
    table.cancel = [](void* user, void** request) { return self(user).cancel(request); };
    table.progress = [](void* user) { return self(user).progress(); };
    table.release = [](void* user) { delete &self(user); };
    return table;
  }

 private:
  static constexpr unsigned kApiMinor = UCP_API_MINOR;
  static UcxMessenger& self(void* user) { return *static_cast<UcxMessenger*>(user); }

  Status check(ucs_status_t status, const char* call) const {
    if (status == UCS_OK) return {};
    return fail(sparsecollSystemError, "{}: {}", call, ucx_.ucs_status_string(status));
  }

  Request* take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Request>());
      free_.reserve(all_.size());
      return all_.back().get();
    }
    Request* const request = free_.back();
    free_.pop_back();
    *request = {};
    return request;
  }

  // What UCX gave back for a request that was just made.
  int begun(Request* request, ucs_status_ptr_t ucs, void** out) {
    if (UCS_PTR_IS_ERR(ucs)) {
      free_.push_back(request);
      return kFailed;
    }
    request->ucs = ucs;
    *out = request;
    return 0;
  }

  int send(int peer, int tag, const void* data, size_t bytes, void** out) {
    if (stuck_) return kFailed;
    Request* const request = take();
    const ucp_request_param_t param{};
    const auto call = tag == engine::kContributions ? ucx_.ucp_tag_send_sync_nbx : ucx_.ucp_tag_send_nbx;
    return begun(request, call(endpoints_[static_cast<size_t>(peer)], data, bytes, tagOf(rank_, tag), &param), out);
  }

  int receive(int peer, int tag, void* data, size_t capacity, void** out) {
    if (stuck_) return kFailed;
    Request* const request = take();
    request->receives = true;
    // Of what completes at once version 1.13 does not tell how long it was.
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    return begun(request, ucx_.ucp_tag_recv_nbx(worker_, data, capacity, tagOf(peer, tag), UINT64_MAX, &param), out);
  }

  int test(void** out, int* done, size_t* bytes) {
    auto* const request = static_cast<Request*>(*out);
    ucs_status_t status = UCS_OK;
    if (request->ucs != nullptr) {
      status = request->receives ? ucx_.ucp_tag_recv_request_test(request->ucs, &request->info)
                                 : ucx_.ucp_request_check_status(request->ucs);
      if (status == UCS_INPROGRESS && request->cancelled && giveUp_.expired()) return leave(request, done);
      *done = status != UCS_INPROGRESS ? 1 : 0;
      if (*done == 0) return 0;
      ucx_.ucp_request_free(request->ucs);
    }
    *done = 1;
    idle_ = 0;
    *bytes = request->receives ? request->info.length : 0;
    const bool good = status == UCS_OK || request->cancelled;
    free_.push_back(request);
    return good ? 0 : kFailed;
  }

  // From here on UCX is not called any more, so it does not touch what the request points at.
  int leave(Request* request, int* done) {
    stuck_ = true;
    ucx_.ucp_request_free(request->ucs);
    free_.push_back(request);
    *done = 1;
    return 0;
  }

  int cancel(void** out) {
    auto* const request = static_cast<Request*>(*out);
    if (!request->cancelled && !anyCancelled_) giveUp_ = Deadline::in(kGiveUpMs);
    request->cancelled = anyCancelled_ = true;
    sendsGivenUp_ = sendsGivenUp_ || !request->receives;
    if (request->ucs != nullptr && request->receives && !stuck_) ucx_.ucp_request_cancel(worker_, request->ucs);
    return 0;
  }

  int progress() {
    if (stuck_) return 0;
    const bool awake = awake_ != nullptr && awake_->load(std::memory_order_relaxed);
    if (ucx_.ucp_worker_progress(worker_) != 0 || awake) {
      idle_ = 0;
      return 0;
    }
    if (++idle_ < kYieldAfter) return 0;
    if (idle_ < kSleepAfter) {
      std::this_thread::yield();
      return 0;
    }
    if (ucx_.ucp_worker_arm(worker_) != UCS_OK) return 0;  // something has come
    std::array<pollfd, 1> watched = {{{wakeUp_, POLLIN, 0}}};
    (void)awaitAny(watched, Deadline::in(kSleepMs));
    return 0;
  }

  void close() {
    if (stuck_ && !memoryOnly_) return;  // its worker cannot be taken down safely: it stays
    const bool quiet = ucx_.pushLogHandler != nullptr;
    if (quiet) ucx_.pushLogHandler(sayNothing);
    const bool safe = stuck_ || flush();
    if (safe && worker_ != nullptr) ucx_.ucp_worker_destroy(worker_);
    if (safe && context_ != nullptr) ucx_.ucp_cleanup(context_);
    if (quiet) ucx_.popLogHandler();
  }

  // Messages that the other ranks do not have yet leave. A rank that is not there any more cannot take them, so this
  // has a limit: false, and the worker is not to be touched any more.
  bool flush() {
    const bool met = latest_.has_value() && !sendsGivenUp_;
    const Deadline limit = Deadline::in(met ? engine::kMostCloseMs : kStuckMs);
    const Deadline deadline = latest_ ? Deadline::earlier(*latest_, limit) : limit;
    std::vector<ucs_status_ptr_t> closing;
    for (ucp_ep_h endpoint : endpoints_) {
      if (endpoint == nullptr) continue;
      const ucp_request_param_t param{};
      const ucs_status_ptr_t request = ucx_.ucp_ep_close_nbx(endpoint, &param);
      if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
    }
    for (const ucs_status_ptr_t request : closing) {
      while (ucx_.ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.expired()) {
        if (ucx_.ucp_worker_progress(worker_) == 0) pause(deadline);
      }
      if (ucx_.ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ucx_.ucp_request_free(request);
    }
    return true;
  }

  const Library& ucx_;
  int rank_ = 0;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wakeUp_ = -1;
  std::vector<std::byte> address_;
  std::vector<ucp_ep_h> endpoints_;
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
  std::shared_ptr<const std::atomic<bool>> awake_;
  uint32_t idle_ = 0;
  bool anyCancelled_ = false;
  std::optional<Deadline> latest_;                         // for the last messages to leave
  Deadline giveUp_ = Deadline::in(SPARSECOLL_NO_TIMEOUT);  // of what was cancelled
  bool sendsGivenUp_ = false;
  bool stuck_ = false;
  bool memoryOnly_ = false;
};

// To open a worker may take for ever: version 1.13 tries again and again to get a TCP port, and does not look at a
// clock. Whoever is last, the thread that opens or the one that waits, clears up.
struct Opening {
  void run(bool oneHost, const bootstrap::Address& at) {
    try {
      status = made->open(oneHost, at);
    } catch (const std::bad_alloc&) {
      status = fail(sparsecollOutOfMemory, "out of memory");
    }
  }

  Status status;  // of the one that is made, once that has ended
  std::unique_ptr<UcxMessenger> made;
};

}  // namespace

Result<int> version() {
  SC_TRY(const Library* const ucx, library());
  return ucx->version;
}

Result<std::unique_ptr<engine::Messenger>> makeMessenger(bool oneHost, const bootstrap::Address& at,
                                                         const Deadline& deadline) {
  SC_TRY(const Library* const ucx, library());
  const auto opening = std::make_shared<Opening>();
  opening->made = std::make_unique<UcxMessenger>(*ucx);
  if (!runBeside([opening, oneHost, at] { opening->run(oneHost, at); }, deadline))
    return fail(sparsecollTimeout,
                "UCX has not opened a worker in time, and is left behind (are there free TCP ports?)");
  SC_TRY(std::move(opening->status));
  return std::unique_ptr<engine::Messenger>(std::move(opening->made));
}

}  // namespace sparsecoll::ucx
