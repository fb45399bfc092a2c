#include "src/device_vectors.h"

#include <algorithm>

#include "src/entries.h"

namespace sparsecoll {

namespace {

// Tables of a merge grow with the vector up to this length.
constexpr uint64_t kMostTabled = uint64_t{1} << 28;

}  // namespace

VectorView roomOf(const sparsecollVector_t& vector) {
  VectorView view;
  view.indices = vector.indices;
  view.indexBytes = indexBytesOf(vector);
  view.values = vector.values;
  view.type = static_cast<sparsecollDataType_t>(vector.dataType);
  view.count = vector.capacity;
  view.length = vector.length;
  view.isSorted = (vector.flags & SPARSECOLL_SORTED) != 0;
  return view;
}

Result<LoadedVector> loadVector(Communicator& comm, const char* name, const sparsecollVector_t& vector, Order order,
                                Stream stream) {
  Kernels& kernels = comm.kernels();
  VectorView view = roomOf(vector);
  SC_TRY(comm.synchronize(stream, 0));
  kernels.transfer(&view.count, vector.count, sizeof view.count, stream);
  if (view.count > vector.capacity) return invalid("{} has {} entries in {} slots", name, view.count, vector.capacity);
  if (view.count > 0xffffffffull) return unsupported("{} has {} entries", name, view.count);
  SC_TRY(LoadedVector loaded, kernels.vectors()->makeRoom(view, comm.budget()));
  kernels.vectors()->load(view, order, loaded, stream);
  SC_TRY(comm.synchronize(stream, 0));
  return loaded;
}

uint64_t countOf(Communicator& comm, const LoadedVector& entries, Stream stream) {
  uint64_t count = 0;
  comm.kernels().transfer(&count, entries.count.as<>(), sizeof count, stream);
  return count;
}

Result<DeviceMerge> DeviceMerge::make(Communicator& comm, const sparsecollVector_t& out, uint32_t indexBytes,
                                      uint64_t lists, uint64_t entriesPerList) {
  DeviceMerge merge;
  WorkspaceNeed need;
  need.n = std::min(out.length, kMostTabled);
  need.lists = lists;
  need.entries = std::max<uint64_t>(1, lists * entriesPerList);
  SC_TRY(merge.workspace_, comm.kernels().makeWorkspace(need, comm.budget()));
  if (indexBytesOf(out) != indexBytes) {
    SC_TRY(merge.narrow_, comm.kernels().allocate(out.capacity * sizeof(uint32_t), comm.budget()));
  }
  return merge;
}

Status DeviceMerge::run(Communicator& comm, MergeArgs args, const sparsecollVector_t& out, Stream stream) {
  const bool widens = indexBytesOf(out) != args.indexBytes;
  auto* const narrow = narrow_.as<uint32_t>();
  if (widens) args.outIndices = narrow;
  stream.workspace = workspace_.get();
  SC_TRY(comm.kernels().merge(args, stream));
  if (widens)
    comm.kernels().vectors()->widen(narrow, static_cast<uint64_t*>(out.indices), out.count, out.capacity, stream);
  return {};
}

Result<DeviceAppend> DeviceAppend::make(Communicator& comm, uint64_t lists) {
  DeviceAppend append;
  SC_TRY(append.starts_, comm.kernels().allocate((lists + 1) * sizeof(uint64_t), comm.budget()));
  SC_TRY(append.sorted_, comm.kernels().allocate(sizeof(uint32_t), comm.budget()));
  return append;
}

void DeviceAppend::run(Communicator& comm, std::span<const ListView> lists, uint32_t indexBytes,
                       const sparsecollVector_t& out, Stream stream) {
  constexpr uint32_t kSoFar = 1;
  Kernels& kernels = comm.kernels();
  kernels.transfer(sorted_.as<>(), &kSoFar, sizeof kSoFar, stream);
  kernels.vectors()->append(lists, indexBytes, roomOf(out), out.count, starts_.as<uint64_t>(), sorted_.as<uint32_t>(),
                            stream);
}

bool DeviceAppend::isSorted(Communicator& comm, Stream stream) const {
  uint32_t sorted = 0;
  comm.kernels().transfer(&sorted, sorted_.as<>(), sizeof sorted, stream);
  return sorted != 0;
}

}  // namespace sparsecoll
