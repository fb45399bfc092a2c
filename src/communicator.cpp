#include "src/communicator.h"

#include <algorithm>
#include <cstring>

#include "core/limits.h"
#include "cuda/cuda_kernels.h"
#include "host/host_kernels.h"
#include "src/params.h"
#include "src/structs.h"
#include "transports/threads.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kDefaultOpTimeoutMs = 600000;

// One a rank. Ranks in host memory share theirs.
Result<std::vector<std::shared_ptr<Kernels>>> kernelsFor(int ranks, const int* devices) {
  std::vector<std::shared_ptr<Kernels>> kernels;
  if (devices == nullptr) kernels.assign(static_cast<size_t>(ranks), host::makeHostKernels());
  if (devices != nullptr && ranks > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", ranks, kMostDeviceRanks);
  for (int rank = 0; devices != nullptr && rank < ranks; ++rank) {
    SC_TRY(auto made, cuda::makeCudaKernels(devices[rank]));
    kernels.push_back(std::move(made));
  }
  return kernels;
}

template <size_t kSize>
void copyText(char (&to)[kSize], const Text<kSize>& from) {
  std::memcpy(to, from.c_str(), kSize);
}

}  // namespace

Result<CommunicatorConfig> readConfig(const sparsecollConfig_t* user, bool onDevices, sparsecollTransport_t engine) {
  SC_TRY(const sparsecollConfig_t given, readStructOr(user, "config"));
  if (given.backend < sparsecollBackendAuto || given.backend > sparsecollBackendCuda)
    return invalid("config.backend is {}", given.backend);
  if (given.transport < sparsecollTransportAuto || given.transport > sparsecollTransportSimulated)
    return invalid("config.transport is {}", given.transport);
  if (given.nonFinite < sparsecollNonFiniteDefault || given.nonFinite > sparsecollNonFiniteError)
    return invalid("config.nonFinite is {}", given.nonFinite);
  if (given.reserved0 != 0) return unsupported("config.reserved0 is not 0");
  if (given.backend == sparsecollBackendCuda && !onDevices) return invalid("config.backend is CUDA without devices");
  if (given.backend == sparsecollBackendHost && onDevices) return invalid("config.backend is the host, with devices");
  if (given.transport != sparsecollTransportAuto && given.transport != engine)
    return engine == sparsecollTransportThreads
               ? unsupported("transport {} does not run ranks inside one process", given.transport)
               : unsupported("transport {} is not one for this call", given.transport);
  CommunicatorConfig config;
  if (given.nonFinite == sparsecollNonFiniteError) config.nonFinite = sparsecollNonFiniteError;
  config.opTimeoutMs = given.opTimeoutMs != 0 ? given.opTimeoutMs : kDefaultOpTimeoutMs;
  config.workspaceLimitBytes = given.workspaceLimitBytes;
  config.name = given.name != nullptr ? given.name : "comm";
  config.logFn = given.logFn;
  config.logUser = given.logUser;
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
      failure_(SPARSECOLL_INIT(sparsecollFailure_t)),
      stats_(SPARSECOLL_INIT(sparsecollStats_t)) {
  failure_.peer = -1;
  log_.write(sparsecollLogInfo, "comm", "ready, {} kernels", kernels_->name());
}

Communicator::~Communicator() { log_.write(sparsecollLogInfo, "comm", "destroyed after {} operations", sequence_); }

Result<std::vector<std::shared_ptr<Communicator>>> Communicator::inProcess(int ranks, const int* devices,
                                                                           const CommunicatorConfig& config) {
  if (ranks < 1 || ranks > kMaxRanks) return invalid("nRanks is {}, allowed are 1 to {}", ranks, kMaxRanks);
  SC_TRY(const auto kernels, kernelsFor(ranks, devices));
  std::vector<std::shared_ptr<MemoryBudget>> budgets;
  for (int rank = 0; rank < ranks; ++rank)
    budgets.push_back(std::make_shared<MemoryBudget>(config.workspaceLimitBytes));
  SC_TRY(auto transports, makeThreadsTransports(kernels, budgets));
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    const int device = devices != nullptr ? devices[rank] : -1;
    communicators.push_back(
        std::make_shared<Communicator>(config, kernels[rank], budgets[rank], std::move(transports[rank]), device));
    SC_TRY(communicators.back()->makeAgreementRoom());
  }
  return communicators;
}

Result<std::shared_ptr<Communicator>> Communicator::onEngine(const CommunicatorConfig& config,
                                                             std::shared_ptr<Kernels> kernels,
                                                             std::shared_ptr<MemoryBudget> budget,
                                                             std::unique_ptr<Transport> transport, int device) {
  auto made =
      std::make_shared<Communicator>(config, std::move(kernels), std::move(budget), std::move(transport), device);
  SC_TRY(made->makeAgreementRoom());
  return made;
}

// What ranks agree on is for the host to read, wherever their vectors lie.
Status Communicator::makeAgreementRoom() {
  SC_TRY(agreementRoom_, AgreementRoom::make(*transport_, budget_));
  return {};
}

Status Communicator::settle(Stream stream, uint64_t timeoutMs) {
  const Deadline deadline = Deadline::in(timeoutMs != 0 ? timeoutMs : config_.opTimeoutMs);
  const Status engine = transport_->await(stream, deadline).takeStatusOrOk();
  if (!engine.ok()) {
    record(engine, sequence_);
    return alive();  // by now it tells the first reason
  }
  Status status = kernels_->findings(stream, deadline);
  if (Status sound = transport_->replaysSound(); !sound.ok()) status = std::move(sound);
  if (!status.ok() && status.result() != sparsecollTimeout) record(status, sequence_);
  return status;
}

void Communicator::close() {
  if (state() == sparsecollSuccess) transport_->close(Deadline::in(config_.opTimeoutMs));
  record(fail(sparsecollInvalidUsage, "the communicator was destroyed"), 0, true, &Transport::leave);
}

Status Communicator::alive() const {
  const sparsecollResult_t now = state();
  if (now == sparsecollSuccess) return {};
  return fail(now, "the communicator is dead: {}", failure().text);
}

void Communicator::abort() { record(fail(sparsecollAborted, "the communicator was aborted"), 0, true); }

void Communicator::record(const Status& status, uint64_t sequence, bool ends, void (Transport::*tell)()) {
  const Failure& failure = status.failure();
  const bool fatal = ends || isFatal(failure.result);
  {
    const std::lock_guard lock(mutex_);
    if (state() != sparsecollSuccess) return;  // the first fatal failure is the one that explains the others
    failure_.result = failure.result;
    failure_.peer = failure.peer;
    failure_.sequence = sequence;
    copyText(failure_.field, failure.field);
    copyText(failure_.text, failure.text);
    if (fatal) state_.store(failure.result, std::memory_order_release);
  }
  if (fatal) (*transport_.*tell)();  // peers must not wait for this rank
  log_.write(fatal && !ends ? sparsecollLogError : sparsecollLogInfo, "comm", "operation {}: {}", sequence,
             failure.text);
}

sparsecollFailure_t Communicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
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
}

void Communicator::addStats(const sparsecollStats_t& step) {
  const std::lock_guard lock(mutex_);
  accumulateStats(stats_, step);
}

sparsecollStats_t Communicator::stats() const {
  const std::lock_guard lock(mutex_);
  sparsecollStats_t now = stats_;
  now.workspaceBytes = budget_->inUse();
  now.workspacePeakBytes = budget_->peak();
  return now;
}

void Communicator::resetStats() {
  const std::lock_guard lock(mutex_);
  stats_ = SPARSECOLL_INIT(sparsecollStats_t);
}

}  // namespace sparsecoll
