// Collective: sparse vectors on P ranks -> the lists whose sum every rank forms. One file per published algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

namespace sparsecoll {

struct CollectiveSetup {
  uint64_t n = 0;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  uint64_t capacity = 0;  // most entries a rank sends
  Kernels* kernels = nullptr;
  Transport* transport = nullptr;
  std::shared_ptr<MemoryBudget> budget;
};

// One step as a collective sees it.
struct CollectiveStep {
  Operation* operation = nullptr;
  const void* acc = nullptr;  // n accumulated gradients of this rank
  Control* control = nullptr;
  Stream stream;
};

// Whose entries leave this rank's residual.
enum class Commit {
  kOwnList,   // what this rank sent
  kAllLists,  // the union: every rank's value at those indices is in the sum
};

struct Delivered {
  std::span<const ListView> lists;  // valid until the operation ends
  Combine mode = Combine::kAdd;
  Commit commit = Commit::kOwnList;
};

class Collective {
 public:
  virtual ~Collective() = default;
  // Where the selection of the operation goes. Only after Transport::begin.
  virtual List target(const Operation& operation) = 0;
  // After this the ranks' facts are in the control block.
  virtual Result<Delivered> run(const CollectiveStep& step) = 0;
};

using CollectiveMaker = Result<std::unique_ptr<Collective>> (*)(const CollectiveSetup& setup);

}  // namespace sparsecoll
