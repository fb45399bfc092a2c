#include "src/share_memory.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <span>
#include <vector>

#include "core/environment.h"
#include "src/agreement.h"
#include "transports/bootstrap/address.h"
#include "transports/shared_memory.h"

namespace sparsecoll {

namespace {

// Why this rank shares nothing, wherever the others are. Errors: Unsupported.
Status mayShare(const Communicator& comm) {
  if (!comm.config().sharesMemory) return unsupported("{} is 0", variable::kSharedMemory);
  if (comm.config().bitsPerSecond != 0) return unsupported("{} is for what ranks send", variable::kRate);
  if (comm.onHost() && comm.config().allocator) return unsupported("config.allocator gives the memory");
  if (SharedMemory::spaceOfProcess() == 0) return unsupported("there is no /proc");
  return {};
}

// Ranks that give the same number may be able to map each other's memory. Never 0.
uint64_t neighbourhood() {
  const AgreedField fields[] = {{"host", bootstrap::hostId()}, {"space", SharedMemory::spaceOfProcess()}};
  return hashOf("neighbourhood", fields) | 1;
}

// Errors: SystemError, OutOfMemory.
Result<std::shared_ptr<SharedMemory>> memoryOf(Communicator& comm) try {
  return SharedMemory::make(comm.id(), comm.rank(), comm.ranks(), comm.transport().sharedBytes());
} catch (const std::bad_alloc&) {
  return fail(sparsecollOutOfMemory, "out of memory");
}

// The other ranks that gave this rank's number, and whether any two ranks gave the same. To find them takes no memory.
struct Neighbours {
  explicit Neighbours(int ranks) {
    near.reserve(static_cast<size_t>(ranks));
    sorted.reserve(static_cast<size_t>(ranks));
  }
  void find(int rank, uint64_t own, std::span<const uint64_t> numbers) {
    for (size_t peer = 0; peer < numbers.size(); ++peer)
      if (own != 0 && peer != static_cast<size_t>(rank) && numbers[peer] == own) near.push_back(static_cast<int>(peer));
    std::ranges::copy_if(numbers, std::back_inserter(sorted), [](uint64_t number) { return number != 0; });
    std::ranges::sort(sorted);
    anywhere = std::ranges::adjacent_find(sorted) != sorted.end();
  }

  std::vector<int> near;
  std::vector<uint64_t> sorted;
  bool anywhere = false;
};

}  // namespace

Status shareMemory(Communicator& comm) {
  const auto agreed = [&](uint64_t own) { return agree(comm, "shared memory", {}, own); };
  const auto shareNothing = [&](const Failure& why) {
    comm.log().write(sparsecollLogInfo, "comm", "shares no memory with ranks of its host: {}", why.text);
    return Status();
  };
  Neighbours neighbours(comm.ranks());
  Status failed = mayShare(comm);
  const uint64_t own = failed.ok() ? neighbourhood() : 0;
  SC_TRY(const Agreement hosts, agreed(own));
  neighbours.find(comm.rank(), own, hosts.numbers);
  if (!neighbours.anywhere) return failed.ok() ? Status() : shareNothing(failed.failure());
  std::shared_ptr<SharedMemory> memory;
  if (!neighbours.near.empty()) {
    auto made = memoryOf(comm);
    if (made.ok())
      memory = *made;
    else
      failed = made.takeStatus();
  }
  SC_TRY(const Agreement places, agreed(memory != nullptr ? memory->place() : 0));
  for (const int peer : neighbours.near)
    if (failed.ok()) failed = memory->map(peer, places.numbers[static_cast<size_t>(peer)]);
  SC_TRY(const Agreement mapped, agreed(failed.ok() ? 1 : 0));
  if (memory != nullptr) memory->conceal();
  for (const int peer : neighbours.near)
    if (failed.ok() && mapped.numbers[static_cast<size_t>(peer)] == 0) failed = unsupported("rank {} cannot", peer);
  if (!failed.ok()) return shareNothing(failed.failure());
  if (memory == nullptr) return {};
  SC_TRY(comm.transport().share(memory));
  comm.log().write(sparsecollLogInfo, "comm", "sums dense vectors in memory that it shares with ranks of its host");
  return {};
}

}  // namespace sparsecoll
