// Communicators that some ranks of another one make, while it works and after it has failed.
#pragma once

#include <memory>
#include <vector>

#include "src/communicator.h"

namespace sparsecoll {

// What such a communicator is configured by: comm's own configuration where user is nullptr.
Result<CommunicatorConfig> configOf(Communicator& comm, const sparsecollConfig_t* user);

// nullptr for a rank without a color.
Result<std::shared_ptr<Communicator>> splitRanks(const std::shared_ptr<Communicator>& comm, int color, int key,
                                                 const CommunicatorConfig& config);

// call: this rank's how-manieth; the first calls of all ranks meet, the second ones, and so on. excluded: by rank.
Result<std::shared_ptr<Communicator>> shrinkRanks(const std::shared_ptr<Communicator>& comm, uint64_t call,
                                                  std::vector<bool> excluded, const CommunicatorConfig& config);

}  // namespace sparsecoll
