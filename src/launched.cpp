#include "src/launched.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/environment.h"
#include "sparsecoll/launch.h"
#include "src/ranks.h"
#include "transports/bootstrap/id_file.h"
#include "transports/bootstrap/star.h"

namespace sparsecoll {

namespace {

// Numbers that a launcher's own variables hold are its business; these are the user's.
Status checkVariables(const sparsecollLaunch_t& launch) {
  if (launch.size < 1 || launch.size > kMostMeshRanks)
    return invalid("{} tells of {} ranks, allowed are 1 to {}", launch.by, launch.size, kMostMeshRanks);
  if (launch.rank >= launch.size) return invalid("{} tells of rank {} of {}", launch.by, launch.rank, launch.size);
  SC_TRY(environmentNumber(variable::kPort, 0, {1, 65535, "a port"}));
  if (const char* const problem = sparsecollLaunchProblem(&launch)) return unsupported("{}", problem);
  return {};
}

void warnOnce(const CommunicatorConfig& config, const bootstrap::Place& place) {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  Logger(config.name, config.logFn, config.logUser)
      .write(sparsecollLogWarn, "launch",
             "whoever reaches {} while ranks meet can take the place of one: {} names no file with a secret",
             place.text(), variable::kSecretFile);
}

Result<Meeting> meetAtHost(const CommunicatorConfig& config, const sparsecollLaunch_t& launch, uint32_t number,
                           const Deadline& deadline) {
  const bootstrap::Place place{launch.host, static_cast<uint16_t>(launch.port), static_cast<uint16_t>(launch.ports)};
  const bootstrap::JobId job = bootstrap::jobOf(launch.job, static_cast<uint32_t>(launch.restart), number);
  const char* const file = environmentText(variable::kSecretFile);
  bootstrap::Key key = bootstrap::openKey(job);
  if (file != nullptr) {
    SC_TRY(key, bootstrap::keyFromFile(file, job));
  } else if (launch.rank == 0) {
    warnOnce(config, place);
  }
  auto met = bootstrap::meetAt(place, key, job, launch.rank, launch.size, deadline);
  if (!met.ok()) {
    Failure why = met.takeStatus().failure();
    if (why.result == sparsecollAuthFailed)
      why.text = Text<256>::format("{}: {} has to name the same secret on all ranks", why.text, variable::kSecretFile);
    return Status(why);
  }
  bootstrap::Exchange* const exchange = met->get();
  return Meeting{std::move(*met), [exchange, deadline, key] { return drawTogether(*exchange, deadline, key); },
                 deadline};
}

Result<Meeting> meetByFile(const CommunicatorConfig& config, const sparsecollLaunch_t& launch, uint32_t number,
                           const Deadline& deadline) {
  std::array<uint8_t, SPARSECOLL_UNIQUE_ID_BYTES> id{};
  const bootstrap::Wiping wiped(id);
  bootstrap::IdFile file(std::string(launch.path) + "-" + std::to_string(number));
  if (launch.rank == 0) {
    std::string interfaceName = interfaceOf(config);
    if (interfaceName.empty() && launch.size > 1 && launch.oneHost == 0) interfaceName = "auto";
    SC_TRY(bootstrap::invite(config.transport, interfaceName.c_str(), deadline, id));
    if (launch.size > 1) SC_TRY(file.write(id));
  } else {
    SC_TRY(file.read(id, deadline));
  }
  SC_TRY(const bootstrap::Invitation invitation, bootstrap::readInvitation(id));
  SC_TRY(auto exchange, meet(invitation, launch.rank, launch.size, deadline));
  const bootstrap::MeshSecret secret{invitation.key, invitation.job};
  return Meeting{std::move(exchange), [secret] { return Result<bootstrap::MeshSecret>(secret); }, deadline};
}

}  // namespace

Deadline deadlineToMeet(const CommunicatorConfig& config, int rank) {
  constexpr uint64_t kLongerMs = 500;
  const bool waits = rank != 0 && config.initTimeoutMs < SPARSECOLL_NO_TIMEOUT - kLongerMs;
  return Deadline::in(config.initTimeoutMs + (waits ? kLongerMs : 0));
}

Result<Meeting> meetLaunched(const CommunicatorConfig& config) {
  static std::atomic<uint32_t> communicators{0};
  sparsecollLaunch_t launch;
  sparsecollLaunchRead(&launch);
  SC_TRY(checkVariables(launch));
  SC_TRY(bootstrap::cryptoReady());
  const uint32_t number = communicators++;
  const Deadline deadline = deadlineToMeet(config, launch.rank);
  const bool byHost = launch.host[0] != '\0' && launch.size > 1;
  return (byHost ? meetAtHost : meetByFile)(config, launch, number, deadline);
}

}  // namespace sparsecoll
