// Collective: sparse vectors on P ranks -> the lists whose sum every rank forms. One file per published algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/state_plan.h"
#include "core/transport.h"

namespace sparsecoll {

struct CollectiveSetup {
  uint64_t n = 0;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  uint64_t capacity = 0;                // most entries a rank selects
  uint64_t mostEntries = 0;             // largest k
  std::span<const uint64_t> unitRooms;  // most entries to be kept of every unit that the selection has
  int32_t teams = 1;                    // SparDL
  sparsecollTeamGather_t teamGather = sparsecollTeamGatherDefault;
  bool faithful = false;
  bool chunks = false;  // the units have one length and equally many entries, but for the last
  Kernels* kernels = nullptr;
  Transport* transport = nullptr;
  std::shared_ptr<MemoryBudget> budget;
};

// One step as a collective sees it.
struct CollectiveStep {
  Operation* operation = nullptr;
  const void* acc = nullptr;  // n accumulated gradients of this rank
  Control* control = nullptr;
  const Control* tables = nullptr;  // where control's tables lie; its numbers are not kept up to date
  CutArgs cut;                      // for those that select: all but what is selected and where it goes
  Stream stream;
};

struct Delivered {
  std::span<const ListView> lists;  // valid until the operation ends
  Combine mode = Combine::kAdd;
  std::span<const ListView> sent = {};  // what leaves this rank's residual
  // Lists are cut on their way: only what is in the sum (then `lists` is one list) leaves the residual, and what this
  // rank dropped although it is in the sum comes into it.
  bool settles = false;
  std::span<const ListView> dropped = {};
  bool lossy = false;  // what was dropped does not come back
};

class Collective {
 public:
  virtual ~Collective() = default;
  // Selects between its rounds, from CollectiveStep::cut; then it has no target.
  virtual bool selects() const { return false; }
  // Where the selection of the operation goes. Only after Transport::begin.
  virtual List target(const Operation& operation) = 0;
  // After this the ranks' facts are in the control block.
  virtual Result<Delivered> run(const CollectiveStep& step) = 0;
};

// What it keeps in the control block.
using CollectiveState = StatePlan (*)(uint64_t n, uint32_t ranks, uint32_t teams);

using CollectiveMaker = Result<std::unique_ptr<Collective>> (*)(const CollectiveSetup& setup);

// What most of them are made by: args are of the constructor, after the setup.
template <class Algorithm, class... Args>
Result<std::unique_ptr<Collective>> makeCollective(const CollectiveSetup& setup, const Args&... args) {
  auto made = std::make_unique<Algorithm>(setup, args...);
  SC_TRY(made->make(setup));
  return std::unique_ptr<Collective>(std::move(made));
}

}  // namespace sparsecoll
