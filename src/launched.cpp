#include "src/launched.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "core/environment.h"
#include "sparsecoll/launch.h"
#include "src/ranks.h"
#include "transports/bootstrap/crypto.h"
#include "transports/bootstrap/id_file.h"
#include "transports/bootstrap/notice.h"
#include "transports/bootstrap/pmi.h"
#include "transports/bootstrap/pmix.h"
#include "transports/bootstrap/star.h"

namespace sparsecoll {

namespace {

// Numbers that a launcher's own variables hold are its business; these are the user's.
Status checkVariables(const sparsecollLaunch_t& launch) {
  if (launch.wrong != nullptr) {
    const char* const text = environmentText(launch.wrong);
    return invalid("{} is '{}', which is no number of a rank or of ranks", launch.wrong, text != nullptr ? text : "");
  }
  if (launch.size < 1 || launch.size > kMostMeshRanks)
    return invalid("{} tells of {} ranks, allowed are 1 to {}", launch.by, launch.size, kMostMeshRanks);
  if (launch.rank >= launch.size) return invalid("{} tells of rank {} of {}", launch.by, launch.rank, launch.size);
  SC_TRY(environmentNumber(variable::kPort, 0, {1, 65535, "a port"}));
  if (const char* const problem = sparsecollLaunchProblem(&launch)) return unsupported("{}", problem);
  return {};
}

Logger loggerOf(const CommunicatorConfig& config) { return {config.name, config.logFn, config.logUser}; }

void warnOnce(const CommunicatorConfig& config, const bootstrap::Place& place) {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  loggerOf(config).write(
      sparsecollLogWarn, "launch",
      "whoever reaches {} while ranks meet can take the place of one: {} names no file with a secret", place.text(),
      variable::kSecretFile);
}

using Secret = std::optional<bootstrap::Key>;

// nullopt: no file is named.
Result<Secret> secretHere() {
  const char* const file = environmentText(variable::kSecretFile);
  if (file == nullptr) return Secret();
  SC_TRY(const bootstrap::Key secret, bootstrap::secretFromFile(file));
  return Secret(secret);
}

// shared: what the ranks know by their launcher; nullptr: nothing.
bootstrap::Key keyOf(const bootstrap::JobId& job, const Secret& secret, const bootstrap::Key* shared) {
  const bootstrap::Key key = secret ? bootstrap::keyOf(*secret, job) : bootstrap::openKey(job);
  return shared != nullptr ? bootstrap::deriveKey(*shared, "sparsecoll launcher's key", key.bytes()) : key;
}

Result<Meeting> meetAtPlace(const sparsecollLaunch_t& launch, uint32_t number, const bootstrap::Place& place,
                            const Secret& secret, const bootstrap::Key* shared, const Deadline& deadline) {
  const bootstrap::JobId job = bootstrap::jobOf(launch.job, static_cast<uint32_t>(launch.restart), number);
  const bootstrap::Key key = keyOf(job, secret, shared);
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

Result<Meeting> meetAtHost(const CommunicatorConfig& config, const sparsecollLaunch_t& launch, uint32_t number,
                           const Secret& secret, const Deadline& deadline) {
  const bootstrap::Place place{launch.host, static_cast<uint16_t>(launch.port), static_cast<uint16_t>(launch.ports)};
  if (launch.rank == 0 && !secret) warnOnce(config, place);
  return meetAtPlace(launch, number, place, secret, nullptr, deadline);
}

Result<std::unique_ptr<bootstrap::Launcher>> openLauncher(const sparsecollLaunch_t& launch) {
  if (std::string_view(launch.service) == "PMIx")
    return bootstrap::pmixLauncher(environmentText(variable::kPmixLibrary));
  return bootstrap::pmiLauncher(sparsecollLaunchNumber("PMI_FD", -1));
}

// What the ranks of this job know by their launcher, which is asked once for all communicators.
class Told {
 public:
  // Errors: Unsupported (no other rank has heard of this one), those of Launcher and of notices.
  Result<bootstrap::Notice> ask(const CommunicatorConfig& config, const sparsecollLaunch_t& launch,
                                const Deadline& deadline) {
    const std::lock_guard lock(mutex_);
    if (told_) return *told_;
    if (!launcher_) {
      SC_TRY(launcher_, openLauncher(launch));
    }
    if (launch.rank == 0 && word_.empty()) {
      const bool chosen = launch.port > 0 && launch.ports > 0;
      SC_TRY(const bootstrap::Notice own,
             bootstrap::makeNotice(interfaceOf(config).c_str(), static_cast<uint16_t>(chosen ? launch.port : 0),
                                   static_cast<uint16_t>(chosen ? launch.ports : SPARSECOLL_LAUNCH_PORTS)));
      word_ = writeNotice(own);
    }
    SC_TRY(word_, launcher_->spread(word_, launch.rank, deadline));
    SC_TRY(told_, bootstrap::readNotice(word_));
    bootstrap::wipe(std::as_writable_bytes(std::span(word_)));
    launcher_.reset();
    if (launch.rank == 0)
      loggerOf(config).write(sparsecollLogInfo, "launch", "the other ranks learn by {} that rank 0 is at {}",
                             launch.service, told_->place.text());
    return *told_;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<bootstrap::Launcher> launcher_;
  std::string word_;
  std::optional<bootstrap::Notice> told_;
};

Result<Meeting> meetByFile(const CommunicatorConfig& config, const sparsecollLaunch_t& launch, uint32_t number,
                           const Deadline& deadline) {
  std::array<uint8_t, SPARSECOLL_UNIQUE_ID_BYTES> id{};
  const bootstrap::Wiping wiped(id);
  bootstrap::IdFile file(std::string(launch.path) + "-" + std::to_string(number));
  const auto meetBy = [&]() -> Result<Meeting> {
    SC_TRY(const bootstrap::Invitation invitation, bootstrap::readInvitation(id));
    SC_TRY(auto exchange, meet(invitation, launch.rank, launch.size, deadline, [&] { return file.replaced(id); }));
    const bootstrap::MeshSecret secret{invitation.key, invitation.job};
    return Meeting{std::move(exchange), [secret] { return Result<bootstrap::MeshSecret>(secret); }, deadline};
  };
  if (launch.rank == 0) {
    std::string interfaceName = interfaceOf(config);
    if (interfaceName.empty() && launch.size > 1 && launch.oneHost == 0) interfaceName = "auto";
    SC_TRY(bootstrap::invite(config.transport, interfaceName.c_str(), deadline, id));
    if (launch.size > 1) SC_TRY(file.write(id));
    return meetBy();
  }
  for (;;) {  // the first id may be of a rank 0 that was killed, and has left it
    SC_TRY(file.read(id, deadline));
    Result<Meeting> met = meetBy();
    if (met.ok() || deadline.expired() || !file.replaced(id)) return met;
  }
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
  // What is wrong with this rank's own settings comes to light before the call counts, so that it may be repeated.
  const bool byHost = launch.host[0] != '\0' && launch.size > 1;
  Secret secret;
  if (byHost || launch.service != nullptr) {
    SC_TRY(secret, secretHere());
  }
  if (!byHost && launch.rank == 0) {
    SC_TRY([[maybe_unused]] const bootstrap::Address at, bootstrap::addressOf(interfaceOf(config).c_str()));
  }
  const uint32_t number = communicators++;
  const Deadline deadline = deadlineToMeet(config, launch.rank);
  if (launch.service != nullptr) {
    static Told told;
    auto notice = told.ask(config, launch, deadline);
    if (notice.ok()) return meetAtPlace(launch, number, notice->place, secret, &notice->key, deadline);
    const Status why = notice.takeStatus();
    if (why.result() != sparsecollUnsupported) return Status(why.failure());
    loggerOf(config).write(sparsecollLogInfo, "launch", "{}", why.failure().text);
    launch.service = nullptr;
    if (sparsecollLaunchProblem(&launch) != nullptr)
      return unsupported("no place to meet: {}; set MASTER_ADDR and MASTER_PORT, or SPARSECOLL_LAUNCH_DIR",
                         why.failure().text);
  }
  return byHost ? meetAtHost(config, launch, number, secret, deadline) : meetByFile(config, launch, number, deadline);
}

}  // namespace sparsecoll
