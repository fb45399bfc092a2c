// The local primitives: no communication.
#include <cmath>
#include <cstring>

#include "core/limits.h"
#include "selectors/selection.h"
#include "src/device_vectors.h"
#include "src/entries.h"
#include "src/methods.h"
#include "src/names.h"
#include "src/params.h"
#include "src/pointer_checks.h"
#include "src/scales.h"
#include "src/vectors.h"

namespace sparsecoll {

namespace {

// Entries as a list in frame form, for kernels that read lists.
struct PackedEntries {
  std::vector<std::byte> payload;
  uint32_t count = 0;
  ListView view() const { return {payload.data(), nullptr, &count}; }
};

PackedEntries pack(const Entries& entries, uint32_t indexBytes) {
  PackedEntries packed;
  packed.count = static_cast<uint32_t>(entries.count());
  packed.payload.resize(alignUp(entries.count() * indexBytes, 16) + entries.count() * sizeof(double) + 16);
  packEntries(entries, 0, entries.count(), indexBytes, packed.payload.data());
  return packed;
}

Status checkSelect(const void* in, uint64_t n, int32_t type, const sparsecollVector_t* out) {
  if (!isElementType(type)) return invalid("type is {}", type);
  if (n == 0) return invalid("n is 0");
  if (n > kMaxReducerLength) return unsupported("n is {}", n);
  if (in == nullptr) return invalid("in is NULL");
  const uint64_t element = elementBytes(static_cast<sparsecollDataType_t>(type));
  SC_TRY(checkPointer("in", in, element));
  SC_TRY(checkVector("out", out));
  if (out->dataType != type) return invalid("out.dataType is {}, type is {}", out->dataType, type);
  if (out->length != n) return invalid("out.length is {}, n is {}", out->length, n);
  SC_TRY(checkDisjoint("in", in, n * element, "out.values", out->values, out->capacity * element));
  return checkDisjoint("in", in, n * element, "out.indices", out->indices, out->capacity * indexBytesOf(*out));
}

Status appendSelected(Communicator& comm, const List& selected, sparsecollVector_t& out, Stream stream) {
  const ListView lists[] = {{selected.indices, selected.values, selected.count}};
  SC_TRY(DeviceAppend append, DeviceAppend::make(comm, 1));
  append.run(comm, lists, sizeof(uint32_t), out, stream);
  SC_TRY(comm.synchronize(stream, 0));
  out.flags |= SPARSECOLL_SORTED;
  return {};
}

// An operand as a list in frame form, made by kernels.
struct LoadedList {
  LoadedVector entries;
  Buffer frame;
  ListView view() const { return {frame.as<>() + kFrameHeaderBytes, nullptr, &frame.as<FrameHeader>()->count}; }
};

Result<LoadedList> loadList(Communicator& comm, const char* name, const sparsecollVector_t& vector, Stream stream) {
  LoadedList list;
  SC_TRY(list.entries, loadVector(comm, name, vector, Order::kSummed, stream));
  FrameLayout layout;
  layout.capacity = list.entries.capacity;
  layout.indexBytes = indexBytesFor(vector.length);
  layout.valueBytes = static_cast<uint32_t>(elementBytes(list.entries.accumulateType));
  SC_TRY(list.frame, comm.kernels().allocate(layout.capacityBytes(), comm.budget()));
  comm.kernels().vectors()->pack(list.entries, 0, ~uint64_t{0}, layout, list.frame.as<>(), stream);
  return list;
}

Status mergeOnDevice(Communicator& comm, const sparsecollVector_t& a, const sparsecollVector_t& b, MergeArgs args,
                     sparsecollVector_t& out, Stream stream) {
  SC_TRY(const LoadedList listA, loadList(comm, "a", a, stream));
  SC_TRY(const LoadedList listB, loadList(comm, "b", b, stream));
  const uint64_t most = std::max(listA.entries.capacity, listB.entries.capacity);
  SC_TRY(DeviceMerge merge, DeviceMerge::make(comm, out, args.indexBytes, 2, most));
  const ListView lists[] = {listA.view(), listB.view()};
  args.lists = lists;
  SC_TRY(merge.run(comm, args, out, stream));
  SC_TRY(comm.synchronize(stream, 0));
  out.flags |= SPARSECOLL_SORTED;
  return {};
}

}  // namespace

Status selectEntries(Communicator& comm, const void* in, uint64_t n, int32_t type, const sparsecollParams_t* userParams,
                     sparsecollVector_t* out, Stream stream) {
  SC_TRY(checkSelect(in, n, type, out));
  SC_TRY(const sparsecollParams_t params, readParams(userParams));
  SC_TRY(checkDensity(params));
  SC_TRY(const SelectorRow* const selector, findSelector(params));
  if (params.selector != sparsecollSelectTopK && params.selector != sparsecollSelectThreshold)
    return unsupported("selector {} needs the other ranks", selectorName(params.selector));
  if (shapesInput(params)) return unsupported("momentum, clipNorm or residualDecay outside of a reducer");
  SelectionRequest request;
  request.n = n;
  request.accumulateType = accumulateTypeOf(static_cast<sparsecollDataType_t>(type));
  request.density = params.density;
  request.k = params.k;
  request.maxDensity = params.density;
  request.params = params;
  request.selectNothing = (params.flags & SPARSECOLL_SELECT_NOTHING) != 0;
  Kernels& kernels = comm.kernels();
  SC_TRY(const auto selection, Selection::make(selector->plan, request, kernels, comm.budget()));

  std::unique_ptr<Workspace> workspace;
  if (!comm.onHost()) {
    SC_TRY(workspace, kernels.makeWorkspace({n, selection->windows(), 1, selection->capacity()}, comm.budget()));
    SC_TRY(comm.synchronize(kernels.stream(), 0));  // what the selection starts from is there
    stream.workspace = workspace.get();
  }
  const uint64_t accElement = elementBytes(request.accumulateType);
  const bool direct = type == request.accumulateType && params.inputScale == 1;
  Buffer acc;
  if (!direct) {
    SC_TRY(acc, kernels.allocate(n * accElement, comm.budget()));
  }
  SC_TRY(const Buffer indices, kernels.allocate(selection->capacity() * sizeof(uint32_t), comm.budget()));
  SC_TRY(const Buffer values, kernels.allocate(selection->capacity() * accElement, comm.budget()));
  SC_TRY(const Buffer count, kernels.allocate(sizeof(uint32_t), comm.budget()));
  const List target{indices.as<uint32_t>(), values.as<>(), count.as<uint32_t>(), selection->capacity(),
                    List::Values::kApart};
  selection->pass(
      {in, static_cast<sparsecollDataType_t>(type), nullptr, direct ? nullptr : acc.as<>(), params.inputScale}, stream);
  SC_TRY(selection->cut(target, stream));
  if (!comm.onHost()) return appendSelected(comm, target, *out, stream);

  const uint32_t found = *target.count;
  *out->count = found;
  if (found > out->capacity) return fail(sparsecollCapacity, "{} entries for {} slots", found, out->capacity);
  std::copy_n(target.indices, found, static_cast<uint32_t*>(out->indices));
  withElement(static_cast<sparsecollDataType_t>(type), [&]<class T>(T) {
    const auto* const from = static_cast<const typename Element<T>::Accumulate*>(target.values);
    for (uint32_t i = 0; i < found; ++i) static_cast<T*>(out->values)[i] = Element<T>::store(from[i]);
  });
  widenIndices(*out, sizeof(uint32_t), found);
  out->flags |= SPARSECOLL_SORTED;
  return {};
}

Status mergeVectors(Communicator& comm, const sparsecollVector_t* a, const sparsecollVector_t* b,
                    sparsecollVector_t* out, Stream stream) {
  SC_TRY(checkVector("a", a));
  SC_TRY(checkVector("b", b));
  SC_TRY(checkVector("out", out));
  SC_TRY(checkAlike("a", *a, "out", *out));
  SC_TRY(checkAlike("b", *b, "out", *out));
  const uint32_t indexBytes = indexBytesFor(out->length);
  MergeArgs args;
  args.accumulateType = accumulateTypeOf(static_cast<sparsecollDataType_t>(out->dataType));
  args.n = out->length;
  args.indexBytes = indexBytes;
  args.outIndices = out->indices;
  args.outValues = out->values;
  args.outType = static_cast<sparsecollDataType_t>(out->dataType);
  args.outCount = out->count;
  args.outCapacity = out->capacity;
  if (!comm.onHost()) return mergeOnDevice(comm, *a, *b, args, *out, stream);
  SC_TRY(const Entries entriesA, readEntries("a", *a));
  SC_TRY(const Entries entriesB, readEntries("b", *b));
  const PackedEntries packedA = pack(entriesA, indexBytes);
  const PackedEntries packedB = pack(entriesB, indexBytes);
  const ListView lists[] = {packedA.view(), packedB.view()};
  args.lists = lists;
  SC_TRY(comm.kernels().merge(args, {}));
  widenIndices(*out, indexBytes, *out->count);
  out->flags |= SPARSECOLL_SORTED;
  return {};
}

Status scatterAdd(Communicator& comm, const sparsecollVector_t* in, void* dense, uint64_t n, double scale,
                  Stream stream) {
  SC_TRY(checkVector("in", in));
  if (n != in->length) return invalid("n is {}, in.length is {}", n, in->length);
  if (dense == nullptr && n > 0) return invalid("dense is NULL");
  if (scale != 0)
    SC_TRY(checkFactor("scale", scale, accumulateTypeOf(static_cast<sparsecollDataType_t>(in->dataType))));
  const uint64_t element = elementBytes(static_cast<sparsecollDataType_t>(in->dataType));
  SC_TRY(checkPointer("dense", dense, element));
  if (!comm.onHost()) {
    SC_TRY(const LoadedVector entries, loadVector(comm, "in", *in, Order::kSorted, stream));
    comm.kernels().vectors()->scatterAdd(entries, dense, static_cast<sparsecollDataType_t>(in->dataType), scale,
                                         stream);
    return comm.synchronize(stream, 0);
  }
  SC_TRY(const Entries entries, readEntries("in", *in, true));
  withElement(static_cast<sparsecollDataType_t>(in->dataType), [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    auto* const to = static_cast<T*>(dense);
    for (uint64_t i = 0; i < entries.count(); ++i) {
      A value{};
      if constexpr (std::is_same_v<A, double>)
        value = entries.values64[i];
      else
        value = entries.values32[i];
      T& slot = to[entries.indices[i]];
      slot = Element<T>::store(canonical(fusedMultiplyAdd(static_cast<A>(scale), value, Element<T>::load(slot))));
    }
  });
  return {};
}

}  // namespace sparsecoll
