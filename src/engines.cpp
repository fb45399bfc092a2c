#include "src/engines.h"

#include <algorithm>
#include <vector>

#include "core/bytes.h"
#include "core/environment.h"
#include "cuda/cuda_kernels.h"
#include "src/names.h"
#include "src/rate.h"
#include "transports/bootstrap/address.h"
#include "transports/nccl.h"
#include "transports/tcp.h"
#include "transports/ucx.h"

namespace sparsecoll {

namespace {

struct EngineRow {
  sparsecollTransport_t engine;
  const char* name;  // in prose; transportName has the word for command lines
  bool inHostMemory = true;
  bool oneVersion = false;             // ranks with different versions of it cannot talk
  bool ownDevices = false;             // ranks that share a device cannot use it
  bool keepsRate = true;               // sends no faster than it is told to
  Result<int> (*version)() = nullptr;  // nullptr: ranks do not meet over it

  bool isCalled(std::string_view word) const { return version != nullptr && word == transportName(engine); }
};

constexpr EngineRow kRows[] = {
    {sparsecollTransportAuto, "Auto"},
    {sparsecollTransportThreads, "Threads"},
    {sparsecollTransportUcx, "UCX", true, false, false, true, ucx::version},
    {sparsecollTransportNccl, "NCCL", false, true, true, false, nccl::version},
    {sparsecollTransportEngine, "Engine"},
    {sparsecollTransportSimulated, "Simulated"},
    {sparsecollTransportTcp, "TCP", true, true, false, true, tcp::version},
};
static_assert(std::ranges::all_of(kRows, [](const EngineRow& row) { return &row == &kRows[row.engine]; }));

Result<bool> isDisabled(const EngineRow& row) {
  const char* const given = environmentText(variable::kDisableEngines);
  std::string_view left = given != nullptr ? given : "";
  bool found = false;
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    const bool known = std::ranges::any_of(kRows, [&](const EngineRow& one) { return one.isCalled(word); });
    if (!known) return invalid("{} has '{}': it takes nccl, ucx and tcp, with commas between", variable::kDisableEngines, word);
    found = found || row.isCalled(word);
  }
  return found;
}

Ability lacking(const Status& why) { return {0, Text<112>(why.failure().text.view())}; }

// Ranks that keep all from an engine, and why; none: all can use it.
struct Obstacle {
  std::vector<int> ranks;
  Text<112> why;  // of the first of them
};

// The first earlier rank on the same device; -1: there is none, or the device is not known.
int sharerOf(size_t rank, std::span<const Candidate> candidates) {
  const Candidate& own = candidates[rank];
  for (size_t r = 0; r < rank && !own.deviceName.empty(); ++r)
    if (candidates[r].host == own.host && candidates[r].deviceName == own.deviceName.view()) return static_cast<int>(r);
  return -1;
}

// named: a rank asks for this engine, which then decides on its own whether ranks may share a device.
Obstacle obstacleTo(size_t engine, std::span<const Candidate> candidates, bool named) {
  Obstacle found;
  const auto add = [&](size_t rank, const Text<112>& why) {
    if (found.ranks.empty()) found.why = why;
    found.ranks.push_back(static_cast<int>(rank));
  };
  for (size_t rank = 0; rank < candidates.size(); ++rank)
    if (const Text<112>& lack = candidates[rank].abilities[engine].lack; !lack.empty()) add(rank, lack);
  const EngineRow& row = kRows[kMeetingEngines[engine]];
  if (!found.ranks.empty()) return found;
  const int version = candidates[0].abilities[engine].version;
  for (size_t rank = 1; row.oneVersion && rank < candidates.size(); ++rank)
    if (const int other = candidates[rank].abilities[engine].version; other != version)
      add(rank, Text<112>::format("it has version {}, rank 0 has {}", other, version));
  if (!found.ranks.empty() || !row.ownDevices || named) return found;
  for (size_t rank = 1; rank < candidates.size(); ++rank)
    if (const int sharer = sharerOf(rank, candidates); sharer >= 0)
      add(rank, Text<112>::format("it shares device {} with rank {}", candidates[rank].deviceName, sharer));
  return found;
}

// What all ranks have to say alike; they get the first that differs.
Result<sparsecollTransport_t> namedByAll(std::span<const Candidate> candidates) {
  sparsecollTransport_t named = sparsecollTransportAuto;
  int by = -1;
  for (size_t r = 0; r < candidates.size(); ++r) {
    const Candidate& one = candidates[r];
    const int rank = static_cast<int>(r);
    if (one.version != candidates[0].version)
      return disagree(rank, "version", "rank {} has version {} of this library, rank 0 has {}", rank, one.version,
                      candidates[0].version);
    if (one.onDevice != candidates[0].onDevice)
      return disagree(rank, "backend", "rank {} has its vectors {}, rank 0 has not", rank,
                      one.onDevice ? "on a device" : "in host memory");
    if (one.named == sparsecollTransportAuto || one.named == named) continue;
    if (named != sparsecollTransportAuto)
      return disagree(rank, "transport", "rank {} names {}, rank {} names {}", rank, engineName(one.named), by,
                      engineName(named));
    named = one.named;
    by = rank;
  }
  return named;
}

void writeText(Writer& writer, std::string_view text) {
  writer.write(static_cast<uint32_t>(text.size()));
  writer.append(text.data(), text.size());
}

template <size_t kSize>
Result<Text<kSize>> readText(Reader& reader) {
  SC_TRY(const auto length, reader.read<uint32_t>());
  SC_TRY(const bootstrap::Bytes text, reader.take(length));
  return Text<kSize>(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
}

std::vector<std::byte> write(const Candidate& own) {
  Writer writer;
  writer.write(own.version);
  writer.write(static_cast<uint16_t>(own.named));
  writer.write(static_cast<uint16_t>(own.onDevice));
  writer.write(own.host);
  writeText(writer, own.deviceName.view());
  for (const Ability& ability : own.abilities) {
    writer.write(static_cast<int32_t>(ability.version));
    writeText(writer, ability.lack.view());
  }
  return writer.bytes();
}

// Of another version only that is read: the rest may be something else there.
Result<Candidate> read(bootstrap::Bytes part) {
  Reader reader(part);
  Candidate candidate;
  SC_TRY(candidate.version, reader.read<uint32_t>());
  if (candidate.version != SPARSECOLL_VERSION_CODE) return candidate;
  SC_TRY(const auto named, reader.read<uint16_t>());
  SC_TRY(const auto onDevice, reader.read<uint16_t>());
  const bool known = named < std::size(kRows) && (named == sparsecollTransportAuto || kRows[named].version != nullptr);
  if (!known || onDevice > 1) return fail(sparsecollCorrupted, "a rank names engine {}", named);
  candidate.named = static_cast<sparsecollTransport_t>(named);
  candidate.onDevice = onDevice != 0;
  SC_TRY(candidate.host, reader.read<uint64_t>());
  SC_TRY(candidate.deviceName, readText<32>(reader));
  for (Ability& ability : candidate.abilities) {
    SC_TRY(ability.version, reader.read<int32_t>());
    SC_TRY(ability.lack, readText<112>(reader));
  }
  return candidate;
}

}  // namespace

const char* engineName(sparsecollTransport_t engine) { return kRows[engine].name; }

Status checkMemory(sparsecollTransport_t engine, bool onDevice) {
  const EngineRow& row = kRows[engine];
  if (onDevice || row.inHostMemory) return {};
  return invalid("the vectors are in host memory (SPARSECOLL_HOST, {}), and {} is for devices only", SPARSECOLL_HOST,
                 row.name);
}

Result<Ability> abilityHere(sparsecollTransport_t engine, bool onDevice) {
  const EngineRow& row = kRows[engine];
  SC_TRY(const bool disabled, isDisabled(row));
  if (disabled) return Ability{0, Text<112>::format("{} names it", variable::kDisableEngines)};
  SC_TRY(const uint64_t rate, sendRate());
  if (rate != 0 && !row.keepsRate) return Ability{0, Text<112>::format("it cannot keep to {}", variable::kRate)};
  if (const Status fits = checkMemory(engine, onDevice); !fits.ok()) return lacking(fits);
  if (onDevice && cuda::deviceCount() == 0) return lacking(cuda::currentDevice().takeStatus());
  auto version = row.version();  // loads the engine's library
  return version.ok() ? Ability{*version, {}} : lacking(version.takeStatus());
}

Result<Candidate> candidateHere(sparsecollTransport_t named, int device) {
  const bool onDevice = device != SPARSECOLL_HOST;
  Candidate own;
  own.named = named;
  own.onDevice = onDevice;
  own.host = bootstrap::hostId();
  if (onDevice) own.deviceName = cuda::busIdOf(device);
  for (size_t e = 0; e < kMeetingEngines.size(); ++e) {
    // Of engines that are not the named one nobody will ask.
    if (named != sparsecollTransportAuto && named != kMeetingEngines[e]) continue;
    SC_TRY(own.abilities[e], abilityHere(kMeetingEngines[e], onDevice));
  }
  return own;
}

Result<Choice> choose(std::span<const Candidate> candidates) {
  SC_TRY(const sparsecollTransport_t named, namedByAll(candidates));
  Text<320> refused;
  int peer = -1;
  for (size_t e = 0; e < kMeetingEngines.size(); ++e) {
    const sparsecollTransport_t engine = kMeetingEngines[e];
    const bool moves = candidates[0].onDevice || kRows[engine].inHostMemory;
    if (named != sparsecollTransportAuto ? engine != named : !moves) continue;
    const Obstacle obstacle = obstacleTo(e, candidates, named != sparsecollTransportAuto);
    const char* const name = engineName(engine);
    if (obstacle.ranks.empty()) {
      if (named != sparsecollTransportAuto) return Choice{engine, Text<128>::format("{} was named", name)};
      if (refused.empty()) return Choice{engine, Text<128>::format("{} is the best, and all ranks have it", name)};
      return Choice{engine, Text<128>::format("{}", refused)};
    }
    if (peer < 0) peer = obstacle.ranks[0];
    refused.append("{}rank(s) {} cannot use {} ({})", refused.empty() ? "" : "; ", bootstrap::listOf(obstacle.ranks),
                   name, obstacle.why);
  }
  if (named != sparsecollTransportAuto)
    return failBy(peer, sparsecollUnsupported, "{} was named, and {}", engineName(named), refused);
  return failBy(peer, sparsecollUnsupported, "no engine that all ranks can use: {}", refused);
}

Result<Choice> agreeOnEngine(bootstrap::Exchange& exchange, const Candidate& own, const Deadline& deadline) {
  SC_TRY(const bootstrap::Parts parts, exchange.allgather(write(own), deadline));
  std::vector<Candidate> candidates;
  for (const auto& part : parts) {
    SC_TRY(Candidate one, read(part));
    candidates.push_back(std::move(one));
  }
  return choose(candidates);
}

}  // namespace sparsecoll
