// Callers' sparse vectors in memory that only kernels read. Each call on them waits for its own end: so it can tell
// what kernels found, and its memory can go.
#pragma once

#include "core/vector_kernels.h"
#include "src/communicator.h"

namespace sparsecoll {

// As room for entries: its capacity in place of a count.
VectorView roomOf(const sparsecollVector_t& vector);

// The vector's entries. Errors: InvalidArgument (what readEntries finds), and what kernels found before.
Result<LoadedVector> loadVector(Communicator& comm, const char* name, const sparsecollVector_t& vector, Order order,
                                Stream stream);
// How many they are.
uint64_t countOf(Communicator& comm, const LoadedVector& entries, Stream stream);

// A merge that writes the vector, with a workspace for it; widens its indices. Keep it until the stream is done.
class DeviceMerge {
 public:
  static Result<DeviceMerge> make(Communicator& comm, const sparsecollVector_t& out, uint32_t indexBytes,
                                  uint64_t lists, uint64_t entriesPerList);
  // args: all but where the sum goes.
  Status run(Communicator& comm, MergeArgs args, const sparsecollVector_t& out, Stream stream);

 private:
  std::unique_ptr<Workspace> workspace_;
  Buffer narrow_;  // indices that have to be widened
};

// Lists one behind the other as a vector. Keep it until the stream is done.
class DeviceAppend {
 public:
  static Result<DeviceAppend> make(Communicator& comm, uint64_t lists);
  void run(Communicator& comm, std::span<const ListView> lists, uint32_t indexBytes, const sparsecollVector_t& out,
           Stream stream);
  bool isSorted(Communicator& comm, Stream stream) const;  // the whole

 private:
  Buffer starts_;
  Buffer sorted_;
};

}  // namespace sparsecoll
