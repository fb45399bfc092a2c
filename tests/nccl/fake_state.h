// What the tests' NCCL knows of ranks and their messages.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/nccl/fake_nccl.h"
#include "tests/support/elements.h"

namespace fake {

using sparsecoll::nccl::DataType;
using sparsecoll::nccl::kUint8;

using Bytes = std::vector<std::byte>;

inline Bytes copyOf(const void* from, size_t bytes) {
  Bytes copy(bytes);
  if (bytes != 0) std::memcpy(copy.data(), from, bytes);
  return copy;
}

enum class Kind { kSend, kRecv, kGather, kReduce };

struct Call {
  Kind kind;
  const void* in;
  void* out;
  size_t count;
  DataType type;
  int peer;

  size_t bytes() const {
    return count * (type == kUint8 ? 1 : sparsecoll::test::bytesOf(static_cast<sparsecollDataType_t>(int{type})));
  }
};

// A gather or a sum, as far as the ranks have come to it.
struct Collective {
  Kind kind;
  size_t count;
  DataType type;
  std::map<int, Bytes> parts;
};

struct World {
  explicit World(int size) : ranks(size) {}
  bool complete() const { return joined.size() == static_cast<size_t>(ranks); }

  const int ranks;
  std::set<int> joined;
  std::map<std::pair<int, int>, std::deque<Bytes>> mail;  // by sender and receiver
  std::vector<std::shared_ptr<Collective>> collectives;
  std::vector<Comm> splits;  // of the split under way, by rank
};

}  // namespace fake

struct ncclComm {
  std::shared_ptr<fake::World> world;
  int rank;
  int device;
  bool blocking;
  int unasked = 0;         // how often the state still is ncclInProgress
  size_t collectives = 0;  // begun
  bool aborted = false;
  bool finalized = false;
  uint64_t open = 0;                                  // batches that streams have begun and not done
  uint64_t captured = 0;                              // batches that graphs hold
  ncclComm *split = nullptr, **splitPlace = nullptr;  // a split that has begun, and where it is told
};
