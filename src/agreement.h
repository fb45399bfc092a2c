// Agreement: before ranks build something together or run a one-shot call, they compare what they were asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "collectives/rounds.h"
#include "core/status.h"
#include "src/agreed_fields.h"

namespace sparsecoll {

class Communicator;

inline constexpr uint32_t kMostAgreedFields = 32;

// What a communicator keeps ready, so that comparing needs no memory.
struct AgreementRoom {
  std::unique_ptr<Kernels> kernels;  // the host's
  FullRound round;
  std::vector<uint64_t> numbers;
  uint64_t turn = 0;

  // memory: where the host's comes from; nullptr: the process's.
  static Result<AgreementRoom> make(Transport& transport, std::shared_ptr<MemorySource> memory,
                                    const std::shared_ptr<MemoryBudget>& budget);
};

struct Agreement {
  uint64_t sequence = 0;              // of the operation that compared; the same on all ranks
  std::span<const uint64_t> numbers;  // every rank's own, in rank order; valid until the next agreement
};

// Compares the fields on all ranks. own: a number that may differ. Needs no memory.
// Errors: Mismatch, on all ranks, naming the first field that differs and the lowest rank that differs from rank 0.
Result<Agreement> agree(Communicator& comm, const char* what, std::span<const AgreedField> fields, uint64_t own = 0);

// The second half of makeTogether: made is what became of this rank's part.
Status agreeMade(Communicator& comm, const Status& made);

// What becomes of a rank's part, without memory too.
template <class Make>
Status makeOwn(Make make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return fail(sparsecollOutOfMemory, "out of memory");
  }
}

// After an agreement each rank makes what it needs to go on. A rank without memory for it must not leave the others
// waiting: it returns OutOfMemory, they Mismatch in the field "memory", and all are where they were before.
template <class Make>
Status makeTogether(Communicator& comm, Make make) {
  return agreeMade(comm, makeOwn(std::move(make)));
}

}  // namespace sparsecoll
