#include "src/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/environment.h"
#include "core/limits.h"
#include "cuda/cuda_kernels.h"
#include "host/host_kernels.h"
#include "src/engines.h"
#include "src/names.h"
#include "src/nodes.h"
#include "src/params.h"
#include "src/rate.h"
#include "src/share_memory.h"
#include "src/structs.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/control.h"
#include "transports/threads.h"

namespace sparsecoll {

namespace {

// Tells communicators apart, in the names of files. It is no secret, and none is in it.
uint64_t drawId(const void* own) {
  const auto now = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const AgreedField fields[] = {
      {"now", now}, {"process", static_cast<uint64_t>(getpid())}, {"own", reinterpret_cast<uintptr_t>(own)}};
  return hashOf("communicator", fields);
}

// One a rank. Ranks in host memory share theirs.
Result<std::vector<std::shared_ptr<Kernels>>> kernelsFor(std::span<const int> places,
                                                         const CommunicatorConfig& config) {
  if (places[0] == SPARSECOLL_HOST) {
    const std::shared_ptr<Kernels> kernels = host::makeHostKernels(host::bestIsa(), hostMemory(config));
    return std::vector(places.size(), kernels);
  }
  if (places.size() > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", places.size(), kMostDeviceRanks);
  return cuda::makeCudaKernels(places, memoryTerms(config));
}

// An interface of Linux has 1 to 15 bytes.
bool namesInterface(const char* name) {
  if (bootstrap::literalAddress(name)) return true;
  const size_t length = strnlen(name, 16);
  return length >= 1 && length <= 15 && std::strpbrk(name, "/ \t\n") == nullptr;
}

Result<std::optional<sparsecollAllocator_t>> readAllocator(const sparsecollAllocator_t* user) {
  if (user == nullptr) return std::optional<sparsecollAllocator_t>();
  SC_TRY(const sparsecollAllocator_t allocator, readStruct(user, "config.allocator"));
  if (allocator.allocate == nullptr) return invalid("config.allocator.allocate is NULL");
  if (allocator.release == nullptr) return invalid("config.allocator.release is NULL");
  return std::optional<sparsecollAllocator_t>(allocator);
}

template <size_t kSize>
void copyText(char (&to)[kSize], const Text<kSize>& from) {
  std::memcpy(to, from.c_str(), kSize);
}

sparsecollFailure_t asStruct(const Failure& failure, uint64_t sequence) {
  auto made = SPARSECOLL_INIT(sparsecollFailure_t);
  made.result = failure.result;
  made.peer = failure.peer;
  made.sequence = sequence;
  copyText(made.field, failure.field);
  copyText(made.text, failure.text);
  return made;
}

}  // namespace

cuda::MemoryTerms memoryTerms(const CommunicatorConfig& config) {
  return {config.ownAllocator(), config.abortTimeoutMs, Logger(config.name, config.logFn, config.logUser)};
}

std::shared_ptr<MemorySource> hostMemory(const CommunicatorConfig& config) {
  return config.allocator ? callersMemory(*config.allocator) : nullptr;
}

Result<CommunicatorConfig> readConfig(const sparsecollConfig_t* user, bool onDevices,
                                      std::initializer_list<sparsecollTransport_t> engines) {
  SC_TRY(const sparsecollConfig_t given, readStructOr(user, "config"));
  SC_TRY(checkEnum("config.backend", given.backend, backendName));
  SC_TRY(checkEnum("config.transport", given.transport, transportName));
  SC_TRY(checkEnum("config.nonFinite", given.nonFinite, nonFiniteName));
  SC_TRY(checkEnum("config.security", given.security, securityName));
  if (given.security == sparsecollSecurityNone)
    return unsupported("config.security is None: connections of this version are always authenticated");
  if (given.interfaceName != nullptr && !namesInterface(given.interfaceName))
    return invalid("config.interfaceName is no name of a network interface, and no address");
  if (given.reserved0 != 0) return unsupported("config.reserved0 is not 0");
  if (given.reserved1 != 0) return unsupported("config.reserved1 is not 0");
  if (given.reserved2 != 0) return unsupported("config.reserved2 is not 0");
  if (given.backend == sparsecollBackendCuda && !onDevices)
    return invalid("config.backend is Cuda, and the vectors are in host memory (SPARSECOLL_HOST)");
  if (given.backend == sparsecollBackendHost && onDevices)
    return invalid("config.backend is Host, and the vectors are on a device");
  CommunicatorConfig config;
  config.transport = static_cast<sparsecollTransport_t>(given.transport);
  if (config.transport != sparsecollTransportAuto && std::ranges::find(engines, config.transport) == engines.end())
    return unsupported("config.transport is {}, over which this call makes no communicators",
                       engineName(config.transport));
  if (given.nonFinite == sparsecollNonFiniteError) config.nonFinite = sparsecollNonFiniteError;
  if (given.opTimeoutMs != 0) config.opTimeoutMs = given.opTimeoutMs;
  if (given.initTimeoutMs != 0) config.initTimeoutMs = given.initTimeoutMs;
  if (given.abortTimeoutMs != 0) config.abortTimeoutMs = given.abortTimeoutMs;
  config.workspaceLimitBytes = given.workspaceLimitBytes;
  config.name = given.name != nullptr ? given.name : "comm";
  config.interfaceName = given.interfaceName != nullptr ? given.interfaceName : "";
  config.logFn = given.logFn;
  config.logUser = given.logUser;
  SC_TRY(config.allocator, readAllocator(given.allocator));
  SC_TRY(config.bitsPerSecond, sendRate());
  constexpr uint64_t kDay = 86'400'000;
  SC_TRY(config.silenceMs,
         environmentNumber(variable::kSilence, bootstrap::ControlTimes().silenceMs, {20, kDay, "milliseconds"}));
  SC_TRY(const uint64_t shares, environmentNumber(variable::kSharedMemory, 1, {0, 1, "a number"}));
  config.sharesMemory = shares != 0;
  SC_TRY(config.ranksPerNode, ranksPerNodeOf(given.ranksPerNode));
  SC_TRY(config.flightEntries, flightEntries());
  SC_TRY(config.flightFolder, flightFolder());
  return config;
}

Communicator::Communicator(CommunicatorConfig config, std::shared_ptr<Kernels> kernels,
                           std::shared_ptr<MemoryBudget> budget, std::unique_ptr<Transport> transport, int device)
    : config_(std::move(config)),
      device_(device),
      kernels_(std::move(kernels)),
      budget_(std::move(budget)),
      transport_(std::move(transport)),
      log_(fmt::format("{} rank {}/{}", config_.name, transport_->rank(), transport_->ranks()), config_.logFn,
           config_.logUser),
      flight_(config_.flightEntries),
      failure_(asStruct(Status().failure(), 0)),
      stats_(SPARSECOLL_INIT(sparsecollStats_t)) {
  log_.write(sparsecollLogInfo, "comm", "ready, {} kernels", kernels_->name());
  if (config_.bitsPerSecond != 0) tellRate();
}

Communicator::~Communicator() {
  log_.write(sparsecollLogInfo, "comm", "destroyed after {} operations", sequence_.load());
}

Result<std::vector<std::shared_ptr<Communicator>>> Communicator::inProcess(std::span<const int> places,
                                                                           const CommunicatorConfig& config) {
  SC_TRY(const auto kernels, kernelsFor(places, config));
  std::vector<std::shared_ptr<MemoryBudget>> budgets;
  for (size_t rank = 0; rank < places.size(); ++rank)
    budgets.push_back(std::make_shared<MemoryBudget>(config.workspaceLimitBytes));
  SC_TRY(auto transports, makeThreadsTransports(kernels, budgets));
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    communicators.push_back(std::make_shared<Communicator>(config, kernels[rank], budgets[rank],
                                                           std::move(transports[rank]), places[rank]));
    communicators.back()->id_ = rank == 0 ? drawId(communicators.front().get()) : communicators.front()->id_;
    SC_TRY(communicators.back()->makeAgreementRoom());
  }
  return communicators;
}

Result<std::shared_ptr<Communicator>> Communicator::meet(const CommunicatorConfig& config,
                                                         std::shared_ptr<Kernels> kernels,
                                                         std::shared_ptr<MemoryBudget> budget,
                                                         std::unique_ptr<Transport> transport, int device,
                                                         const Deadline& deadline) {
  auto made =
      std::make_shared<Communicator>(config, std::move(kernels), std::move(budget), std::move(transport), device);
  SC_TRY(made->makeAgreementRoom());
  made->meetsUntil_ = deadline;
  const AgreedFields fields = agreedOfCommunicator(config, made->onHost(), made->transport());
  SC_TRY(const Agreement agreement, agree(*made, "CommInit", fields, drawId(made.get())));
  made->id_ = agreement.numbers[0];
  if (made->transport().sharedBytes() != 0) SC_TRY(shareMemory(*made));
  made->meetsUntil_.reset();
  return made;
}

// What ranks agree on is for the host to read, wherever their vectors lie.
Status Communicator::makeAgreementRoom() {
  SC_TRY(agreementRoom_, AgreementRoom::make(*transport_, onHost() ? hostMemory(config_) : nullptr, budget_));
  return {};
}

void Communicator::end(const Status& why) {
  record(why, sequence_);
  owesFlightFile_ = false;
  leaveFlightFile(why);
}

void Communicator::lookAtEngine() {
  if (state() != sparsecollSuccess) return;
  const Status health = transport_->health();
  if (health.ok()) return;
  owesFlightFile_ = true;
  record(health, sequence_);
}

void Communicator::leaveOwedFlightFile() noexcept {
  if (owesFlightFile_.exchange(false)) leaveFlightFile(fail(state(), "{}", failure().text));
}

Status Communicator::drain(Stream stream) {
  for (;;) {
    auto over = transport_->await(stream, Deadline::in(config_.opTimeoutMs));
    if (!over.ok()) {
      end(over.takeStatus());
      return alive();  // by now it tells the first reason
    }
    if (*over) return {};  // else what takes no other rank, and as long as it needs
  }
}

Status Communicator::synchronize(Stream stream, uint64_t timeoutMs) {
  const bool wasAlive = state() == sparsecollSuccess;
  const Deadline deadline = Deadline::in(timeoutMs != 0 ? timeoutMs : config_.opTimeoutMs);
  const Status engine = transport_->await(stream, deadline).takeStatusOrOk();
  if (!engine.ok()) {
    end(engine);
    return alive();  // by now it tells the first reason
  }
  Status status = kernels_->findings(stream, deadline);
  const bool inTime = status.result() != sparsecollTimeout;
  if (Status sound = transport_->replaysSound(inTime); !sound.ok()) status = std::move(sound);
  if (!wasAlive) return alive();  // what comes later follows from the first failure
  if (!status.ok() && status.result() != sparsecollTimeout) end(status);
  return status;
}

void Communicator::close() {
  if (forked()) return;
  // NCCL alone may have work of all ranks on the way that nothing but its end makes safe to leave.
  const bool overNccl = transport_->kind() == sparsecollTransportNccl;
  const uint64_t patienceMs = overNccl ? config_.opTimeoutMs : std::min(config_.abortTimeoutMs, config_.opTimeoutMs);
  if (state() == sparsecollSuccess) transport_->close(Deadline::in(patienceMs));
  leaveOwedFlightFile();
  record(fail(sparsecollInvalidUsage, "the communicator was destroyed"), 0, true, &Transport::leave);
  transport_->shutDown();
}

Status Communicator::alive() const {
  const sparsecollResult_t now = state();
  if (now == sparsecollSuccess) return {};
  return fail(now, "the communicator is dead: {}", failure().text);
}

uint64_t Communicator::node() const {
  if (config_.node) return *config_.node;
  if (config_.ranksPerNode != 0) return static_cast<uint64_t>(rank() / config_.ranksPerNode);
  return bootstrap::hostId();
}

void Communicator::abort() {
  record(fail(sparsecollAborted, "the communicator was aborted"), 0, true);
  leaveOwedFlightFile();
}

void Communicator::record(const Status& status, uint64_t sequence, bool ends, void (Transport::*tell)()) {
  if (forked()) return;
  const Failure& failure = status.failure();
  const bool fatal = ends || isFatal(failure.result);
  {
    const std::lock_guard lock(mutex_);
    if (state() != sparsecollSuccess) return;  // the first fatal failure is the one that explains the others
    failure_ = asStruct(failure, sequence);
    if (fatal) state_.store(failure.result, std::memory_order_release);
  }
  if (fatal) (*transport_.*tell)();  // peers must not wait for this rank
  log_.write(fatal && !ends ? sparsecollLogError : sparsecollLogInfo, "comm", "operation {}: {}", sequence,
             failure.text);
}

FlightSource Communicator::flightSource() const {
  FlightSource source;
  source.id = id_;
  source.name = config_.name;
  source.rank = rank();
  source.ranks = ranks();
  source.device = device_;
  source.transport = transport_->kind();
  source.opTimeoutMs = config_.opTimeoutMs;
  source.failure = failure();
  return source;
}

Status Communicator::writeFlightFile(const char* path) const {
  if (!flight_.on()) return unsupported("the flight recorder is off: {} is 0", variable::kFlightEntries);
  if (path != nullptr && *path == '\0') return invalid("path is empty");
  const FlightSource source = flightSource();
  if (path != nullptr) return writeFlight(flight_, source, path);
  if (config_.flightFolder.empty()) return invalid("path is NULL, and {} names no folder", variable::kFlightFolder);
  return writeFlight(flight_, source, flightPathIn(config_.flightFolder, source).c_str());
}

void Communicator::leaveFlightFile(const Status& why) const noexcept try {
  // Before the ranks have met in it there is nothing to join.
  if (config_.flightFolder.empty() || !flight_.on() || id_ == 0 || forked()) return;
  if (why.result() != sparsecollMismatch && !isFatal(why.result())) return;
  FlightSource source = flightSource();
  source.failed = true;
  const FlightPath path = flightPathIn(config_.flightFolder, source);
  const Status written = writeFlight(flight_, source, path.c_str());
  if (written.ok())
    log_.write(sparsecollLogWarn, "flight", "the last operations are in {}", path);
  else
    log_.write(sparsecollLogWarn, "flight", "{}", written.failure().text);
} catch (...) {  // what has failed already is what the caller gets to know
  return;
}

sparsecollCommDetails_t Communicator::details() const {
  auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
  details.rank = rank();
  details.nRanks = ranks();
  details.device = device_;
  details.transport = transport_->kind();
  copyText(details.reason, reason_);
  if (control_ != nullptr) copyText(details.interfaceName, bootstrap::placeOf(control_->at()));
  return details;
}

void Communicator::tellPath() const {
  const sparsecollCommDetails_t own = details();
  log_.write(sparsecollLogInfo, "comm", "{} ranks, engine {}: {}; interface {}", ranks(), transportName(own.transport),
             own.reason, own.interfaceName[0] != '\0' ? own.interfaceName : "-");
}

void Communicator::tellRate() const {
  if (transport_->sharesMemory()) {
    log_.write(sparsecollLogWarn, "comm", "{} has no effect: ranks that share memory send nothing", variable::kRate);
    return;
  }
  log_.write(sparsecollLogInfo, "comm", "sends at most {} bit/s ({})", config_.bitsPerSecond, variable::kRate);
}

void Communicator::tellPlan(const sparsecollReducerInfo_t& plan) {
  if (rank() != 0 || std::exchange(planTold_, true)) return;
  const bool selects = plan.selector != sparsecollSelectDefault;
  log_.write(sparsecollLogInfo, "plan", "n {}, k {}: {}{}{}, {}; {} bytes of memory", plan.n, plan.k,
             selects ? selectorName(plan.selector) : "", selects ? " and " : "", collectiveName(plan.collective),
             plan.reason, plan.workspaceBytes);
}

sparsecollFailure_t Communicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

sparsecollFailure_t Communicator::peerFailure() const {
  return asStruct(control_ != nullptr ? control_->goneRank().failure() : Status().failure(), 0);
}

void accumulateStats(sparsecollStats_t& total, const sparsecollStats_t& step) {
  const sparsecollStats_t before = total;
  total = step;
  total.structSize = before.structSize;
  total.magic = before.magic;
  total.headerVersion = before.headerVersion;
  total.opsStarted += before.opsStarted;
  total.opsCompleted += before.opsCompleted;
  total.opsDense += before.opsDense;
  total.opsNonFinite += before.opsNonFinite;
  total.opsOverflow += before.opsOverflow;
  total.opsFallback += before.opsFallback;
  total.bytesDense += before.bytesDense;
  total.entriesLost += before.entriesLost;
  total.bytesSent += before.bytesSent;
  total.bytesReceived += before.bytesReceived;
  total.bytesSentBetweenNodes += before.bytesSentBetweenNodes;
  total.bytesReceivedBetweenNodes += before.bytesReceivedBetweenNodes;
}

void Communicator::addStats(const sparsecollStats_t& step) {
  const std::lock_guard lock(mutex_);
  accumulateStats(stats_, step);
}

void Communicator::addEntriesLost(uint64_t entries) {
  const std::lock_guard lock(mutex_);
  stats_.entriesLost += entries;
}

sparsecollStats_t Communicator::stats() const {
  const std::lock_guard lock(mutex_);
  sparsecollStats_t now = stats_;
  now.workspaceBytes = budget_->inUse();
  now.workspacePeakBytes = budget_->peak();
  now.bytesAbandoned = kernels_->abandonedBytes();
  return now;
}

void Communicator::resetStats() {
  const std::lock_guard lock(mutex_);
  stats_ = SPARSECOLL_INIT(sparsecollStats_t);
}

}  // namespace sparsecoll
