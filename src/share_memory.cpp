#include "src/share_memory.h"

#include <algorithm>
#include <new>
#include <vector>

#include "core/environment.h"
#include "src/agreement.h"
#include "transports/bootstrap/address.h"
#include "transports/shared_memory.h"

namespace sparsecoll {

namespace {

// What this rank has to share. Errors: Unsupported (why it shares nothing), SystemError, OutOfMemory.
Result<std::shared_ptr<SharedMemory>> memoryToShare(Communicator& comm) try {
  const uint64_t bytes = comm.transport().sharedBytes();
  if (!comm.config().sharesMemory) return unsupported("{} is 0", variable::kSharedMemory);
  if (comm.config().bitsPerSecond != 0) return unsupported("{} is for what ranks send", variable::kRate);
  if (comm.onHost() && comm.config().allocator) return unsupported("config.allocator gives the memory");
  if (bytes == 0) return unsupported("this engine has nothing to share");
  return SharedMemory::make(comm.id(), comm.rank(), comm.ranks(), bytes);
} catch (const std::bad_alloc&) {
  return fail(sparsecollOutOfMemory, "out of memory");
}

// Ranks that give the same number may be able to map each other's memory. Never 0.
uint64_t neighbourhood() {
  const uint64_t words[] = {bootstrap::hostId(), SharedMemory::spaceOfProcess()};
  const AgreedField fields[] = {{"host", words[0]}, {"space", words[1]}};
  return hashOf("neighbourhood", fields) | 1;
}

}  // namespace

Status shareMemory(Communicator& comm) {
  if (comm.ranks() == 1) return {};
  const auto agreed = [&](uint64_t own) { return agree(comm, "shared memory", {}, own); };
  auto made = memoryToShare(comm);
  Status failed = made.ok() ? Status() : made.takeStatus();
  const std::shared_ptr<SharedMemory> memory = failed.ok() ? *made : nullptr;
  std::vector<uint64_t> neighbourhoods(static_cast<size_t>(comm.ranks()));
  const uint64_t own = memory != nullptr ? neighbourhood() : 0;
  SC_TRY(const Agreement hosts, agreed(own));
  std::ranges::copy(hosts.numbers, neighbourhoods.begin());
  const auto isNear = [&](size_t rank) {
    return own != 0 && rank != static_cast<size_t>(comm.rank()) && neighbourhoods[rank] == own;
  };
  SC_TRY(const Agreement places, agreed(memory != nullptr ? memory->place() : 0));
  bool any = false;
  for (size_t rank = 0; rank < neighbourhoods.size() && failed.ok(); ++rank)
    if (isNear(rank)) {
      any = true;
      failed = memory->map(static_cast<int>(rank), places.numbers[rank]);
    }
  SC_TRY(const Agreement mapped, agreed(failed.ok() ? 1 : 0));
  if (memory != nullptr) memory->conceal();
  for (size_t rank = 0; rank < neighbourhoods.size() && failed.ok(); ++rank)
    if (isNear(rank) && mapped.numbers[rank] == 0) failed = unsupported("rank {} cannot", rank);
  if (!failed.ok()) {
    comm.log().write(sparsecollLogInfo, "comm", "shares no memory with ranks of its host: {}", failed.failure().text);
    return {};
  }
  if (!any) return {};
  SC_TRY(comm.transport().share(memory));
  comm.log().write(sparsecollLogInfo, "comm", "sums dense vectors in memory that it shares with ranks of its host");
  return {};
}

}  // namespace sparsecoll
