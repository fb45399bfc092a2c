// A communicator: one rank's engine, kernels, sequence of operations, failure record and counters.
#pragma once

#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/transport.h"
#include "cuda/cuda_kernels.h"
#include "src/agreement.h"
#include "src/flight_recorder.h"

namespace sparsecoll {

namespace bootstrap {
class Control;
}

struct CommunicatorConfig {
  sparsecollNonFinite_t nonFinite = sparsecollNonFinitePropagate;
  uint64_t opTimeoutMs = 600000;
  uint64_t initTimeoutMs = 120000;
  uint64_t abortTimeoutMs = 10000;
  uint64_t workspaceLimitBytes = 0;  // 0: no limit
  uint64_t bitsPerSecond = 0;        // that the rank may send; 0: no limit
  bool sharesMemory = true;          // with ranks of the same host, where it may
  uint64_t silenceMs = 0;            // without a heartbeat, after which a rank is lost
  sparsecollTransport_t transport = sparsecollTransportAuto;
  std::string name;
  std::string interfaceName;  // empty: the engine's choice
  sparsecollLogFn_t logFn = nullptr;
  void* logUser = nullptr;
  std::optional<sparsecollAllocator_t> allocator;
  int32_t ranksPerNode = 0;      // 0: ranks of one host are a node
  std::optional<uint64_t> node;  // of a communicator made of another one's ranks: where this rank was there
  uint32_t flightEntries = kDefaultFlightEntries;
  std::string flightFolder;  // empty: nobody asks for files of failures

  const sparsecollAllocator_t* ownAllocator() const { return allocator ? &*allocator : nullptr; }
};

// On what terms the memory of ranks on devices comes and goes.
cuda::MemoryTerms memoryTerms(const CommunicatorConfig& config);
// Where the memory of ranks whose vectors are the host's comes from; nullptr: the process's.
std::shared_ptr<MemorySource> hostMemory(const CommunicatorConfig& config);

// engines: what the call that reads it makes communicators over.
Result<CommunicatorConfig> readConfig(const sparsecollConfig_t* user, bool onDevices,
                                      std::initializer_list<sparsecollTransport_t> engines);

class Communicator {
 public:
  Communicator(CommunicatorConfig config, std::shared_ptr<Kernels> kernels, std::shared_ptr<MemoryBudget> budget,
               std::unique_ptr<Transport> transport, int device);
  ~Communicator();

  // Communicators inside this process, one for each place: an ordinal everywhere, or SPARSECOLL_HOST everywhere.
  static Result<std::vector<std::shared_ptr<Communicator>>> inProcess(std::span<const int> places,
                                                                      const CommunicatorConfig& config);
  // This rank's, on an engine that reaches the other ones. Collective: returns when all ranks are there, of one version
  // and with vectors in one kind of memory. Errors: what an operation's are.
  static Result<std::shared_ptr<Communicator>> meet(const CommunicatorConfig& config, std::shared_ptr<Kernels> kernels,
                                                    std::shared_ptr<MemoryBudget> budget,
                                                    std::unique_ptr<Transport> transport, int device,
                                                    const Deadline& deadline);

  // The same on all ranks, and on no others, once they have met.
  uint64_t id() const { return id_; }
  int rank() const { return transport_->rank(); }
  int ranks() const { return transport_->ranks(); }
  const CommunicatorConfig& config() const { return config_; }
  const Logger& log() const { return log_; }
  Kernels& kernels() { return *kernels_; }
  int device() const { return device_; }
  bool onHost() const { return device_ == SPARSECOLL_HOST; }
  // A number that ranks of one node share. Takes memory.
  uint64_t node() const;
  Transport& transport() { return *transport_; }
  const std::shared_ptr<MemoryBudget>& budget() const { return budget_; }

  // The next operation. body(operation) does the work; whatever happens in it, the operation ends on this rank, and a
  // failure is recorded.
  template <class Body>
  Status operate(Operation& operation, Body body) {
    SC_TRY(alive());
    operation.sequence = ++sequence_;
    operation.round = 0;
    operation.sentBytes = operation.receivedBytes = operation.sentMessages = 0;
    operation.deadline = meetsUntil_ ? *meetsUntil_ : Deadline::in(config_.opTimeoutMs);
    operation.record = flight_.begin(operation.sequence, operation.plan, operation.label);
    Status status = transport_->begin(operation);
    try {
      if (status.ok()) status = body(operation);
    } catch (...) {  // peers wait for this rank's part: they must learn that it does not come
      status = fail(sparsecollInternalError, "an exception inside an operation");
    }
    if (status.ok() || !isFatal(status.result())) completed_ = operation.sequence;
    if (status.result() == sparsecollMismatch) transport_->refuse(operation, status.failure());
    if (!operation.onHost) kernels_->noteUse(operation.stream);  // before peers learn that this rank has ended
    transport_->end(operation);
    const Failure& failure = status.failure();
    if (operation.record != nullptr)
      operation.record->end(failure.result, failure.peer, operation.sentBytes, operation.receivedBytes);
    if (!status.ok()) record(status, operation.sequence);
    if (!status.ok()) leaveFlightFile(status);
    // What ended the communicator came first, whatever this operation met because of it.
    if (isFatal(status.result()) && state() != status.result()) return alive();
    return status;
  }

  // A call that waits for other ranks outside of operations, for the flight recorder. body() does the work.
  template <class Body>
  auto remember(const char* call, Body body) {
    const OperationLabel label{call};
    FlightRecord* const entry = flight_.begin(0, 0, &label);
    auto result = body();
    const Failure failure = failureIn(result);
    if (entry != nullptr) entry->end(failure.result, failure.peer, 0, 0);
    if (failure.result != sparsecollSuccess) leaveFlightFile(Status(failure));
    return result;
  }
  // Writes what the flight recorder holds. path: nullptr for the usual place in the folder that the environment names.
  // Errors: InvalidArgument, Unsupported (it is off), SystemError. Any thread.
  Status writeFlightFile(const char* path) const;

  // Why it runs over this engine, in a sentence.
  void explain(const Text<128>& why) { reason_ = why; }
  sparsecollCommDetails_t details() const;
  // In the log, for a rank that speaks for all: what it runs over and why; once, what a reducer will do and why.
  void tellPath() const;
  void tellPlan(const sparsecollReducerInfo_t& plan);
  // Why a tuner file is not used, once.
  template <class... Args>
  void tellTuner(fmt::format_string<Args...> why, Args&&... args) {
    if (rank() == 0 && !std::exchange(tunerTold_, true))
      log_.write(sparsecollLogInfo, "plan", why, std::forward<Args>(args)...);
  }

  // Waits for what this rank has enqueued on a stream, and records what was found wrong on the way.
  // Errors: Timeout, and whatever was found.
  Status synchronize(Stream stream, uint64_t timeoutMs);
  // Waits for all that is on the stream, and nothing else: what was found wrong stays to be told by synchronize.
  // Errors: Timeout, CudaError.
  Status reach(Stream stream) const { return kernels_->reach(stream, Deadline::in(config_.opTimeoutMs)); }
  // Waits for what takes other ranks on the stream, where the engine can tell. What was found wrong stays to be told by
  // synchronize. Errors: the engine's.
  Status drain(Stream stream);

  // What tells of the other ranks besides the engine's messages; nullptr: nothing does.
  void watchBy(std::shared_ptr<bootstrap::Control> control) { control_ = std::move(control); }
  const std::shared_ptr<bootstrap::Control>& control() const { return control_; }

  // The latest operation that has not failed for good.
  uint64_t completed() const { return completed_; }
  // Of a communicator that was made of another one's ranks: which, and the latest operation that all of them had
  // completed there; UINT64_MAX: nothing is to be undone.
  void descendFrom(const std::shared_ptr<Communicator>& parent, uint64_t completed) {
    parent_ = parent;
    parentCompleted_ = completed;
  }
  bool descendsFrom(const Communicator& other) const { return parent_.lock().get() == &other; }
  uint64_t parentCompleted() const { return parentCompleted_; }
  // Counts what survivors do together.
  uint64_t nextShrink() { return ++shrinks_; }
  // Ends it in good order, and says why.
  void retire(const Status& why) { record(why, 0, true, &Transport::leave); }

  AgreementRoom& agreementRoom() { return agreementRoom_; }

  // Whether this process was forked from the one that made it: the engine, its threads and connections are the other's.
  bool forked() const { return getpid() != process_; }

  void abort();
  // The handle is gone: peers that wait for this rank are told, also while a reducer keeps the object alive.
  void close();
  // Keeps what the engine has found since the last look, if it has ended the communicator. Does not wait. Any thread.
  void lookAtEngine();
  sparsecollResult_t state() const { return static_cast<sparsecollResult_t>(state_.load(std::memory_order_acquire)); }
  sparsecollFailure_t failure() const;
  // Of another rank that is known to be gone.
  sparsecollFailure_t peerFailure() const;

  // Adds a finished step to the counters.
  void addStats(const sparsecollStats_t& step);
  // Without a step.
  void addEntriesLost(uint64_t entries);
  sparsecollStats_t stats() const;
  void resetStats();

 private:
  void tellRate() const;
  Status alive() const;
  Status makeAgreementRoom();
  FlightSource flightSource() const;
  void end(const Status& why);  // between two operations
  // Where the environment asks for it, after what ends communicators and after a Mismatch.
  void leaveFlightFile(const Status& why) const noexcept;
  // The one of an end that lookAtEngine has found.
  void leaveOwedFlightFile() noexcept;
  template <class T>
  static Failure failureIn(Result<T>& result) {
    if (result.ok()) return Status().failure();
    Status status = result.takeStatus();
    const Failure failure = status.failure();
    result = std::move(status);
    return failure;
  }
  // tell: how the peers learn of a failure that ends the communicator. ends: this one does, whatever the result.
  void record(const Status& status, uint64_t sequence, bool ends = false,
              void (Transport::*tell)() = &Transport::abort);

  const pid_t process_ = getpid();
  const CommunicatorConfig config_;
  const int device_;
  const std::shared_ptr<Kernels> kernels_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::unique_ptr<Transport> transport_;
  std::shared_ptr<bootstrap::Control> control_;
  const Logger log_;
  Text<128> reason_ = "the only engine of the call that made it";
  AgreementRoom agreementRoom_;
  FlightRecorder flight_;
  uint64_t id_ = 0;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<bool> owesFlightFile_{false};
  uint64_t completed_ = 0;
  uint64_t shrinks_ = 0;
  std::weak_ptr<Communicator> parent_;
  uint64_t parentCompleted_ = UINT64_MAX;
  std::optional<Deadline> meetsUntil_;  // while the ranks meet, of all their operations
  std::atomic<int32_t> state_{sparsecollSuccess};
  mutable std::mutex mutex_;  // guards the next two
  sparsecollFailure_t failure_;
  sparsecollStats_t stats_;
  bool planTold_ = false;
  bool tunerTold_ = false;
};

// step's counters added to total; its last* fields replace total's.
void accumulateStats(sparsecollStats_t& total, const sparsecollStats_t& step);

}  // namespace sparsecoll
