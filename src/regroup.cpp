#include "src/regroup.h"

#include <algorithm>

#include "core/bytes.h"
#include "host/host_kernels.h"
#include "src/ranks.h"
#include "transports/bootstrap/survivors.h"
#include "transports/threads.h"

namespace sparsecoll {

namespace {

Status checkRegroups(Communicator& comm) {
  const sparsecollTransport_t kind = comm.transport().kind();
  if (!comm.onHost()) return unsupported("new communicators of ranks on devices");
  if (kind != sparsecollTransportThreads && comm.control() == nullptr)
    return unsupported("new communicators of ranks over an engine of the caller's");
  return {};
}

// A key and a job for the ranks that the words name.
bootstrap::MeshSecret secretFor(const bootstrap::Control& control, uint64_t tag, std::span<const int> members) {
  Writer writer;
  writer.write(tag);
  writer.append(members.data(), members.size_bytes());
  bootstrap::MeshSecret made{bootstrap::deriveKey(control.key(), "sparsecoll regrouped key", writer.bytes()), {}};
  const bootstrap::Key job = bootstrap::deriveKey(control.key(), "sparsecoll regrouped job", writer.bytes());
  std::copy_n(job.bytes().begin(), made.job.size(), made.job.begin());
  return made;
}

Result<std::shared_ptr<Communicator>> meetAgain(Communicator& comm, const CommunicatorConfig& config,
                                                bootstrap::MembersExchange& exchange, uint64_t tag,
                                                std::span<const int> members, const Deadline& deadline) {
  const bootstrap::MeshSecret secret = secretFor(*comm.control(), tag, members);
  return meetOverMesh(comm.transport().kind(), config, exchange, secret, config.interfaceName, deadline);
}

struct InProcess {
  std::shared_ptr<Communicator> made;
  uint64_t lowest = 0;
};

Result<InProcess> regroupInProcess(Communicator& comm, const Regrouping& call, const CommunicatorConfig& config,
                                   const Deadline& deadline) {
  std::shared_ptr<Kernels> kernels = host::makeHostKernels(host::bestIsa(), hostMemory(config));
  const auto budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  SC_TRY(Regrouped regrouped, regroupThreads(comm.transport(), call, kernels, budget, deadline));
  InProcess result;
  result.lowest = regrouped.lowest;
  SC_TRY(result.made, Communicator::meet(config, std::move(kernels), budget, std::move(regrouped.transport),
                                         comm.device(), deadline));
  return result;
}

// Whether the failure is that of a member that is known to be gone by now, so that the others can go on without it.
bool lostOne(const bootstrap::MembersExchange& exchange, bootstrap::Control& control) {
  const auto anyGone = [&] {
    for (int rank = 0; rank < exchange.ranks(); ++rank)
      if (exchange.isGone(rank)) return true;
    return false;
  };
  constexpr uint64_t kNoticeMs = 200;  // the new connections may have told of it first
  for (int peer = 0; peer < control.ranks(); ++peer) control.listenTo(peer);
  return control.await(Deadline::in(kNoticeMs), anyGone);
}

Result<std::shared_ptr<Communicator>> shrinkOverMesh(Communicator& comm, uint64_t call,
                                                     const std::vector<bool>& excluded,
                                                     const CommunicatorConfig& config, uint64_t& lowest,
                                                     const Deadline& deadline) {
  // One for all tries: who was said to be gone stays so, or others would wait for it in vain.
  bootstrap::RollCall roll(comm.rank(), excluded, call, comm.completed());
  for (;;) {
    SC_TRY(const bootstrap::Survivors left, bootstrap::agreeOnSurvivors(*comm.control(), roll, deadline));
    bootstrap::MembersExchange exchange(comm.control(), left.members, left.tag, bootstrap::Aborts::kMeanNothing);
    auto made = meetAgain(comm, config, exchange, left.tag, left.members, deadline);
    lowest = left.lowest;
    if (made.ok() || deadline.expired() || !lostOne(exchange, *comm.control())) return made;
  }
}

}  // namespace

Result<CommunicatorConfig> configOf(Communicator& comm, const sparsecollConfig_t* user) {
  if (user == nullptr) {
    CommunicatorConfig config = comm.config();
    // Ranks are counted anew, and stay where they are.
    if (config.ranksPerNode != 0) config.node = comm.node();
    return config;
  }
  const sparsecollTransport_t kind = comm.control() != nullptr ? comm.transport().kind() : sparsecollTransportThreads;
  return readConfig(user, !comm.onHost(), {kind});
}

Result<std::shared_ptr<Communicator>> splitRanks(const std::shared_ptr<Communicator>& comm, int color, int key,
                                                 const CommunicatorConfig& config) {
  SC_TRY(checkRegroups(*comm));
  const uint64_t own = static_cast<uint64_t>(static_cast<uint32_t>(color)) << 32 | static_cast<uint32_t>(key);
  SC_TRY(const Agreement agreement, agree(*comm, "CommSplit", {}, own));
  const std::vector<uint64_t> numbers(agreement.numbers.begin(), agreement.numbers.end());
  if (color == SPARSECOLL_NO_COLOR) return std::shared_ptr<Communicator>();
  std::vector<int> members;
  for (size_t r = 0; r < numbers.size(); ++r)
    if (numbers[r] >> 32 == own >> 32) members.push_back(static_cast<int>(r));
  const auto keyOf = [&](int rank) { return static_cast<int32_t>(numbers[static_cast<size_t>(rank)] & 0xffffffff); };
  std::ranges::stable_sort(members, {}, keyOf);
  const Deadline deadline = Deadline::in(config.initTimeoutMs);
  const uint64_t tag = agreement.sequence << 16;
  std::shared_ptr<Communicator> made;
  if (comm->control() != nullptr) {
    bootstrap::MembersExchange exchange(comm->control(), members, tag, bootstrap::Aborts::kEnd);
    SC_TRY(made, meetAgain(*comm, config, exchange, tag, members, deadline));
  } else {
    Regrouping call{tag, std::vector<bool>(numbers.size(), false), members, false, 0};
    for (const int member : members) call.wanted[static_cast<size_t>(member)] = true;
    SC_TRY(const InProcess result, regroupInProcess(*comm, call, config, deadline));
    made = result.made;
  }
  made->descendFrom(comm, UINT64_MAX);
  return made;
}

Result<std::shared_ptr<Communicator>> shrinkRanks(const std::shared_ptr<Communicator>& comm, uint64_t call,
                                                  std::vector<bool> excluded, const CommunicatorConfig& config) {
  SC_TRY(checkRegroups(*comm));
  const Deadline deadline = Deadline::in(config.initTimeoutMs);
  std::shared_ptr<Communicator> made;
  uint64_t lowest = 0;
  if (comm->control() != nullptr) {
    SC_TRY(made, shrinkOverMesh(*comm, call, excluded, config, lowest, deadline));
  } else {
    constexpr uint64_t kAboveOperations = uint64_t{1} << 62;
    Regrouping regrouping{kAboveOperations + call, {}, {}, true, comm->completed()};
    for (int rank = 0; rank < comm->ranks(); ++rank) {
      regrouping.wanted.push_back(!excluded[static_cast<size_t>(rank)]);
      regrouping.order.push_back(rank);
    }
    SC_TRY(const InProcess result, regroupInProcess(*comm, regrouping, config, deadline));
    made = result.made;
    lowest = result.lowest;
  }
  made->descendFrom(comm, lowest);
  comm->retire(fail(sparsecollInvalidUsage, "the communicator was shrunk"));
  return made;
}

}  // namespace sparsecoll
