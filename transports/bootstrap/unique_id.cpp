#include "transports/bootstrap/unique_id.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr uint32_t kIdMagic = 0x31555053;  // "SPU1"
constexpr size_t kTailBytes = 40;
constexpr size_t kRemembered = 1024;  // uses; older ids have expired long since

Status malformed() { return invalid("these bytes are no unique id of this library"); }

struct Kept {
  JobId job;
  Fd port;
  Deadline expires;
};

struct Use {
  JobId job;
  int rank;
};

// Ports that wait for their rank 0, and ids that were used, in this process.
struct Registry {
  std::mutex mutex;
  std::vector<Kept> kept;
  std::deque<Use> used;
};

Registry& registry() {
  static Registry one;
  return one;
}

}  // namespace

Result<Invitation> readInvitation(ConstIdBytes id) {
  Reader reader(std::as_bytes(id));
  Invitation made;
  SC_TRY(const auto magic, reader.read<uint32_t>());
  SC_TRY(const auto version, reader.read<uint16_t>());
  SC_TRY(const auto engine, reader.read<uint16_t>());
  if (magic != kIdMagic) return malformed();
  if (version != kWireVersion)
    return invalid("a unique id of version {}, this library reads {}", version, kWireVersion);
  auto address = readAddress(reader);
  if (!address.ok()) return malformed();
  made.address = *address;
  SC_TRY(const auto none, reader.read<uint32_t>());
  SC_TRY(made.host, reader.read<uint64_t>());
  SC_TRY(const Bytes job, reader.take(made.job.size()));
  SC_TRY(const Bytes key, reader.take(kKeyBytes));
  SC_TRY(const Bytes tail, reader.take(kTailBytes));
  std::copy(job.begin(), job.end(), made.job.begin());
  made.key = Key(key.first<kKeyBytes>());
  made.engine = static_cast<sparsecollTransport_t>(engine);
  const bool clean = std::all_of(tail.begin(), tail.end(), [](std::byte b) { return b == std::byte{0}; });
  constexpr std::array kEngines = {sparsecollTransportAuto, sparsecollTransportUcx, sparsecollTransportNccl,
                                   sparsecollTransportTcp};
  const bool known = std::ranges::find(kEngines, made.engine) != kEngines.end();
  if (!known || none != 0 || !clean || made.address.port == 0 || made.address.isAny()) return malformed();
  return made;
}

void writeInvitation(const Invitation& invitation, IdBytes id) {
  std::memset(id.data(), 0, id.size());
  size_t at = 0;
  const auto put = [&](const void* data, size_t bytes) {
    std::memcpy(id.data() + at, data, bytes);
    at += bytes;
  };
  const auto engine = static_cast<uint16_t>(invitation.engine);
  Writer address;
  writeAddress(address, invitation.address);
  put(&kIdMagic, sizeof kIdMagic);
  put(&kWireVersion, sizeof kWireVersion);
  put(&engine, sizeof engine);
  put(address.bytes().data(), Address::kWireBytes);
  at += sizeof(uint32_t);
  put(&invitation.host, sizeof invitation.host);
  put(invitation.job.data(), invitation.job.size());
  put(invitation.key.bytes().data(), kKeyBytes);
}

Status invite(sparsecollTransport_t engine, const char* interfaceName, const Deadline& deadline, IdBytes id) {
  SC_TRY(cryptoReady());
  SC_TRY(const Address at, addressOf(interfaceName));
  SC_TRY(Fd port, bindTo(at));
  Invitation made;
  SC_TRY(made.address, localAddress(port));
  made.host = hostId();
  made.engine = engine;
  fillRandom(made.job);
  std::array<std::byte, kKeyBytes> secret;
  fillRandom(secret);
  made.key = Key(secret);
  wipe(secret);
  writeInvitation(made, id);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.kept, [](const Kept& one) { return one.expires.expired(); });
  all.kept.push_back({made.job, std::move(port), deadline});
  return {};
}

Result<Claimed> claim(const Invitation& invitation) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.kept, [](const Kept& one) { return one.expires.expired(); });
  const auto mine =
      std::find_if(all.kept.begin(), all.kept.end(), [&](const Kept& one) { return one.job == invitation.job; });
  if (mine == all.kept.end())
    return fail(sparsecollInvalidUsage,
                "this unique id is of another process, was used before, or has expired: rank 0 makes its own");
  Claimed claimed{std::move(mine->port), mine->expires};
  all.kept.erase(mine);
  return claimed;
}

Status useOnce(const Invitation& invitation, int rank) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const Use& one : all.used)
    if (one.rank == rank && one.job == invitation.job)
      return fail(sparsecollInvalidUsage, "rank {} has used this unique id before", rank);
  if (all.used.size() == kRemembered) all.used.pop_front();
  all.used.push_back({invitation.job, rank});
  return {};
}

}  // namespace sparsecoll::bootstrap
