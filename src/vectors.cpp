#include "src/vectors.h"

#include <algorithm>
#include <cstring>

#include "collectives/rounds.h"
#include "src/agreement.h"
#include "src/device_vectors.h"
#include "src/entries.h"
#include "src/names.h"
#include "src/params.h"
#include "src/pointer_checks.h"

namespace sparsecoll {

namespace {

sparsecollDataType_t accumulateOf(const sparsecollVector_t& vector) {
  return accumulateTypeOf(static_cast<sparsecollDataType_t>(vector.dataType));
}

// A rank's entries: where the host reads vectors they are here, else with the kernels.
struct Source {
  Entries here;
  LoadedVector there;
  uint64_t count = 0;
};

Result<Source> readSource(Communicator& comm, const sparsecollVector_t& in, Order order, Stream stream) {
  Source source;
  if (comm.onHost()) {
    SC_TRY(source.here, readEntries("in", in, order == Order::kAsGiven));
    source.count = source.here.count();
    return source;
  }
  SC_TRY(source.there, loadVector(comm, "in", in, order, stream));
  source.count = countOf(comm, source.there, stream);
  return source;
}

// What a one-shot call on sparse vectors needs for its exchange. Everything is made before any rank begins it.
struct VectorExchange {
  OperationLabel label;
  FrameLayout layout;
  uint64_t plan = 0;
  std::vector<uint64_t> bounds;  // indices from bounds[p] to bounds[p + 1] go to rank p; empty: all to everyone
  Stream stream;
  DeviceMerge merge;  // on devices, as the call needs it
  DeviceAppend append;
  FullRound round;
  std::vector<ListView> lists;
};

// How a call's lists become out.
enum class Joined { kSum, kRow };

struct ExchangeRequest {
  const char* call;
  const sparsecollVector_t& in;
  const sparsecollVector_t& out;
  uint64_t count;  // of in
  Joined joined = Joined::kSum;
  AgreedFields agreed;
  std::vector<uint64_t> bounds;
  Stream stream;
};

Result<VectorExchange> prepare(Communicator& comm, ExchangeRequest request) {
  const sparsecollVector_t& in = request.in;
  const auto ranks = static_cast<size_t>(comm.ranks());
  VectorExchange exchange;
  exchange.label.call = request.call;
  exchange.label.n = in.length;
  exchange.label.k = request.count;
  exchange.bounds = std::move(request.bounds);
  exchange.stream = request.stream;
  exchange.layout.indexBytes = indexBytesFor(in.length);
  exchange.layout.valueBytes = static_cast<uint32_t>(elementBytes(accumulateOf(in)));
  exchange.plan = hashOf(request.call, request.agreed);
  SC_TRY(const Agreement agreement, agree(comm, request.call, request.agreed, request.count));
  exchange.layout.capacity = *std::max_element(agreement.numbers.begin(), agreement.numbers.end());
  SC_TRY(makeTogether(comm, [&]() -> Status {
    const auto sends = exchange.bounds.empty() ? FullRound::Sends::kSameToAll : FullRound::Sends::kOneToEach;
    SC_TRY(exchange.round, FullRound::make(comm.transport(), comm.kernels(), exchange.layout, sends, comm.budget(), 1));
    exchange.lists.resize(ranks);
    if (comm.onHost()) return {};
    if (request.joined == Joined::kRow) {
      SC_TRY(exchange.append, DeviceAppend::make(comm, ranks));
      return {};
    }
    SC_TRY(exchange.merge,
           DeviceMerge::make(comm, request.out, exchange.layout.indexBytes, ranks, exchange.layout.capacity));
    return {};
  }));
  return exchange;
}

void fillFrame(Communicator& comm, const VectorExchange& exchange, const Operation& operation, const Source& source,
               size_t f) {
  std::byte* const frame = exchange.round.frame(operation, f);
  const bool all = exchange.bounds.empty();
  const uint64_t low = all ? 0 : exchange.bounds[f];
  const uint64_t high = all ? ~uint64_t{0} : exchange.bounds[f + 1];
  if (comm.onHost()) {
    const std::vector<uint64_t>& indices = source.here.indices;
    const auto at = [&](uint64_t bound) {
      return static_cast<uint64_t>(std::lower_bound(indices.begin(), indices.end(), bound) - indices.begin());
    };
    const uint64_t from = all ? 0 : at(low);
    const uint64_t to = all ? source.count : at(high);
    packEntries(source.here, from, to, exchange.layout.indexBytes, entriesIn(frame));
    *countIn(frame) = static_cast<uint32_t>(to - from);
  } else {
    comm.kernels().vectors()->pack(source.there, low, high, exchange.layout, frame, exchange.stream);
  }
}

// finish gets every rank's list.
template <class FinishLists>
Status exchangeEntries(Communicator& comm, VectorExchange& exchange, const Source& source, FinishLists finish) {
  Operation operation;
  operation.label = &exchange.label;
  operation.plan = exchange.plan;
  operation.stream = exchange.stream;
  Status status = comm.operate(operation, [&](Operation& op) -> Status {
    const size_t frames = exchange.bounds.empty() ? 1 : exchange.lists.size();
    for (size_t f = 0; f < frames; ++f) fillFrame(comm, exchange, op, source, f);
    SC_TRY(exchange.round.run(op, exchange.stream, nullptr));
    for (size_t r = 0; r < exchange.lists.size(); ++r) exchange.lists[r] = listOf(exchange.round.from(r));
    return finish(exchange.lists);
  });
  if (!comm.onHost() && status.ok()) {
    status = comm.synchronize(exchange.stream, 0);
    // Peers may still be reading this rank's frames, on a device of their own.
    Status allDone = agree(comm, "done", {}).takeStatusOrOk();
    if (status.ok()) status = std::move(allDone);
  }
  sparsecollStats_t step{};
  step.opsStarted = 1;
  step.opsCompleted = status.ok() ? 1 : 0;
  step.bytesSent = step.lastBytesSent = operation.sentBytes;
  step.bytesReceived = operation.receivedBytes;
  step.lastSequence = operation.sequence;
  step.lastSelected = source.count;
  step.lastRounds = operation.round;
  step.lastMessagesSent = operation.sentMessages;
  comm.addStats(step);
  return status;
}

Status mergeInto(Communicator& comm, VectorExchange& exchange, const Finish& finish, sparsecollVector_t& out) {
  MergeArgs args;
  args.lists = exchange.lists;
  args.accumulateType = accumulateOf(out);
  args.n = out.length;
  args.finish = finish;
  args.indexBytes = exchange.layout.indexBytes;
  args.outIndices = out.indices;
  args.outValues = out.values;
  args.outType = static_cast<sparsecollDataType_t>(out.dataType);
  args.outCount = out.count;
  args.outCapacity = out.capacity;
  if (!comm.onHost()) return exchange.merge.run(comm, args, out, exchange.stream);
  SC_TRY(comm.kernels().merge(args, {}));
  widenIndices(out, args.indexBytes, *out.count);
  return {};
}

Status sumVectors(Communicator& comm, VectorExchange& exchange, const Source& source, const Finish& finish,
                  sparsecollVector_t& out) {
  SC_TRY(exchangeEntries(comm, exchange, source,
                         [&](const std::vector<ListView>&) { return mergeInto(comm, exchange, finish, out); }));
  out.flags |= SPARSECOLL_SORTED;
  return {};
}

Status checkInOut(const sparsecollVector_t* in, sparsecollVector_t* out) {
  SC_TRY(checkVector("in", in));
  SC_TRY(checkVector("out", out));
  return checkAlike("in", *in, "out", *out);
}

Result<std::vector<uint64_t>> readBounds(const uint64_t* bounds, uint64_t length, size_t ranks) {
  SC_TRY(checkPointer("bounds", bounds, alignof(uint64_t)));
  std::vector<uint64_t> cuts;
  for (size_t r = 0; r <= ranks; ++r) {
    const auto equal = static_cast<uint64_t>(static_cast<unsigned __int128>(length) * r / ranks);
    cuts.push_back(bounds != nullptr ? bounds[r] : equal);
  }
  if (cuts.front() != 0 || cuts.back() != length || !std::is_sorted(cuts.begin(), cuts.end()))
    return invalid("bounds do not go from 0 to {} in order", length);
  return cuts;
}

// The ranks' lists one behind the other; sorted: whether the whole is.
Status appendHere(std::span<const ListView> lists, uint32_t indexBytes, sparsecollVector_t& out, bool& sorted) {
  uint64_t total = 0;
  for (const ListView& list : lists) total += *list.count;
  *out.count = total;
  if (total > out.capacity) return fail(sparsecollCapacity, "{} entries for {} slots", total, out.capacity);
  uint64_t written = 0;
  uint64_t previous = 0;
  sorted = true;
  for (const ListView& list : lists) {
    const auto* const values =
        static_cast<const std::byte*>(list.indices) + alignUp(uint64_t{*list.count} * indexBytes, 16);
    for (uint32_t i = 0; i < *list.count; ++i, ++written) {
      const uint64_t index = indexBytes == 8 ? static_cast<const uint64_t*>(list.indices)[i]
                                             : static_cast<const uint32_t*>(list.indices)[i];
      if (index >= out.length) return fail(sparsecollCorrupted, "index {} of {}", index, out.length);
      sorted = sorted && (written == 0 || index > previous);
      previous = index;
      if (indexBytesOf(out) == 8)
        static_cast<uint64_t*>(out.indices)[written] = index;
      else
        static_cast<uint32_t*>(out.indices)[written] = static_cast<uint32_t>(index);
      withElement(static_cast<sparsecollDataType_t>(out.dataType), [&]<class T>(T) {
        using A = typename Element<T>::Accumulate;
        static_cast<T*>(out.values)[written] = Element<T>::store(reinterpret_cast<const A*>(values)[i]);
      });
    }
  }
  return {};
}

}  // namespace

Status allReduceVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out,
                       const sparsecollParams_t* userParams, Stream stream) {
  SC_TRY(checkInOut(in, out));
  sparsecollParams_t params{};
  if (userParams != nullptr) {
    SC_TRY(params, readParams(userParams));
  }
  SC_TRY(const Source source, readSource(comm, *in, Order::kSummed, stream));
  if (params.outputScale == 0) params.outputScale = 1;
  const Finish finish{params.op == sparsecollAvg ? static_cast<double>(comm.ranks()) : 1.0, params.outputScale};
  SC_TRY(
      VectorExchange exchange,
      prepare(comm, {"AllReduceVector", *in, *out, source.count, Joined::kSum, agreedOfSum(*in, params), {}, stream}));
  return sumVectors(comm, exchange, source, finish, *out);
}

Status reduceScatterVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out,
                           const uint64_t* userBounds, Stream stream) {
  SC_TRY(checkInOut(in, out));
  SC_TRY(std::vector<uint64_t> bounds, readBounds(userBounds, in->length, static_cast<size_t>(comm.ranks())));
  SC_TRY(const Source source, readSource(comm, *in, Order::kSummed, stream));
  AgreedFields agreed = agreedOfParts(*in, bounds);
  SC_TRY(VectorExchange exchange, prepare(comm, {"ReduceScatterVector", *in, *out, source.count, Joined::kSum,
                                                 std::move(agreed), std::move(bounds), stream}));
  return sumVectors(comm, exchange, source, {}, *out);
}

Status allGatherVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out, Stream stream) {
  SC_TRY(checkInOut(in, out));
  SC_TRY(const Source source, readSource(comm, *in, Order::kAsGiven, stream));
  SC_TRY(VectorExchange exchange,
         prepare(comm, {"AllGatherVector", *in, *out, source.count, Joined::kRow, agreedOfVector(*in), {}, stream}));
  const uint32_t indexBytes = exchange.layout.indexBytes;
  bool sorted = false;
  SC_TRY(exchangeEntries(comm, exchange, source, [&](const std::vector<ListView>& lists) -> Status {
    if (comm.onHost()) return appendHere(lists, indexBytes, *out, sorted);
    exchange.append.run(comm, lists, indexBytes, *out, stream);
    return {};
  }));
  if (!comm.onHost()) sorted = exchange.append.isSorted(comm, stream);
  out->flags = sorted ? out->flags | SPARSECOLL_SORTED : out->flags & ~SPARSECOLL_SORTED;
  return {};
}

}  // namespace sparsecoll
