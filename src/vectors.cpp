#include "src/vectors.h"

#include <algorithm>
#include <cstring>

#include "collectives/full_round.h"
#include "src/agreement.h"
#include "src/entries.h"
#include "src/params.h"
#include "src/reducer.h"

namespace sparsecoll {

namespace {

sparsecollDataType_t accumulateOf(const sparsecollVector_t& vector) {
  return accumulateTypeOf(static_cast<sparsecollDataType_t>(vector.dataType));
}

// What a one-shot call on sparse vectors needs for its exchange. Everything is made before any rank begins it.
struct Exchange {
  FrameLayout layout;
  uint64_t plan = 0;
  std::vector<uint64_t> cut;  // entries cut[p] to cut[p + 1] go to rank p; empty: all to everyone
  std::unique_ptr<FrameWindow> window;
  FullRound round;
  std::vector<std::byte*> frames;
  std::vector<ListView> lists;
};

Result<Exchange> prepare(Communicator& comm, const char* call, const sparsecollVector_t& in, uint64_t count,
                         std::initializer_list<Agreed> further, std::vector<uint64_t> cut) {
  std::vector<Agreed> fields = {{"n", in.length}, {"type", static_cast<uint64_t>(in.dataType)}};
  fields.insert(fields.end(), further);
  const auto ranks = static_cast<size_t>(comm.ranks());
  Exchange exchange;
  exchange.cut = std::move(cut);
  exchange.layout.indexBytes = indexBytesFor(in.length);
  exchange.layout.valueBytes = static_cast<uint32_t>(elementBytes(accumulateOf(in)));
  exchange.plan = hashOf(call, fields);
  SC_TRY(const Agreement agreement, agree(comm, call, fields, count));
  exchange.layout.capacity = *std::max_element(agreement.numbers.begin(), agreement.numbers.end());
  SC_TRY(makeTogether(comm, [&]() -> Status {
    const uint64_t frameBytes = exchange.layout.capacityBytes();
    const size_t frameCount = exchange.cut.empty() ? 1 : ranks;
    SC_TRY(const uint64_t bytes, checkedMul(frameBytes, frameCount));
    SC_TRY(exchange.window, comm.transport().makeWindow(bytes));
    SC_TRY(exchange.round, FullRound::make(comm.transport(), comm.kernels(), exchange.layout, comm.budget()));
    for (size_t f = 0; f < frameCount; ++f) exchange.frames.push_back(exchange.window->data() + f * frameBytes);
    exchange.lists.resize(ranks);
    return {};
  }));
  return exchange;
}

void fillFrame(Communicator& comm, const Exchange& exchange, const Operation& operation, const Entries& entries,
               uint64_t from, uint64_t to, std::byte* frame) {
  const auto count = static_cast<uint32_t>(to - from);
  packEntries(entries, from, to, exchange.layout.indexBytes, frame + kFrameHeaderBytes);
  std::memcpy(frame + offsetof(FrameHeader, count), &count, sizeof count);
  comm.kernels().seal({frame, exchange.layout, operation.identity(), nullptr, comm.transport().checksumsPayload()}, {});
}

void viewFrames(std::span<const std::byte* const> frames, std::span<ListView> lists) {
  for (size_t r = 0; r < frames.size(); ++r)
    lists[r] = {frames[r] + kFrameHeaderBytes, nullptr,
                reinterpret_cast<const uint32_t*>(frames[r] + offsetof(FrameHeader, count))};
}

// finish gets every rank's list.
template <class FinishLists>
Status exchangeEntries(Communicator& comm, Exchange& exchange, const Entries& entries, FinishLists finish) {
  const std::vector<uint64_t>& cut = exchange.cut;
  FullRound& round = exchange.round;
  Operation operation;
  operation.plan = exchange.plan;
  const Status status = comm.operate(operation, [&](Operation& op) -> Status {
    for (size_t f = 0; f < exchange.frames.size(); ++f)
      fillFrame(comm, exchange, op, entries, cut.empty() ? 0 : cut[f], cut.empty() ? entries.count() : cut[f + 1],
                exchange.frames[f]);
    SC_TRY(cut.empty() ? round.sameToAll(op, exchange.frames[0], {}) : round.oneToEach(op, exchange.frames, {}));
    const FrameExpectation identity = op.identity();
    const bool withPayload = comm.transport().checksumsPayload();
    SC_TRY(
        comm.kernels().open({round.frames(), round.bytes(), exchange.layout, identity, nullptr, {}, withPayload}, {}));
    viewFrames(round.frames(), exchange.lists);
    return finish(exchange.lists);
  });
  sparsecollStats_t step{};
  step.opsStarted = 1;
  step.opsCompleted = status.ok() ? 1 : 0;
  step.bytesSent = step.lastBytesSent = operation.sentBytes;
  step.bytesReceived = operation.receivedBytes;
  step.lastSequence = operation.sequence;
  step.lastSelected = entries.count();
  comm.addStats(step);
  return status;
}

Status mergeInto(Communicator& comm, std::span<const ListView> lists, uint32_t indexBytes, const Finish& finish,
                 sparsecollVector_t& out) {
  MergeArgs args;
  args.lists = lists;
  args.accumulateType = accumulateOf(out);
  args.n = out.length;
  args.finish = finish;
  args.indexBytes = indexBytes;
  args.outIndices = out.indices;
  args.outValues = out.values;
  args.outType = static_cast<sparsecollDataType_t>(out.dataType);
  args.outCount = out.count;
  args.outCapacity = out.capacity;
  SC_TRY(comm.kernels().merge(args, {}));
  widenIndices(out, indexBytes, *out.count);
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

}  // namespace

Status allReduceVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out,
                       const sparsecollParams_t* userParams) {
  SC_TRY(checkInOut(in, out));
  sparsecollParams_t params{};
  if (userParams != nullptr) {
    SC_TRY(params, readParams(userParams));
  }
  SC_TRY(const Entries entries, readEntries("in", *in));
  const Finish finish{params.op == sparsecollAvg ? static_cast<double>(comm.ranks()) : 1.0,
                      params.outputScale == 0 ? 1.0 : params.outputScale};
  SC_TRY(Exchange exchange, prepare(comm, "AllReduceVector", *in, entries.count(),
                                    {{"op", static_cast<uint64_t>(params.op)},
                                     {"outputScale", std::bit_cast<uint64_t>(finish.scale)},
                                     {"tag", params.tag}},
                                    {}));
  return exchangeEntries(comm, exchange, entries, [&](const std::vector<ListView>& lists) {
    return mergeInto(comm, lists, exchange.layout.indexBytes, finish, *out);
  });
}

Status reduceScatterVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out,
                           const uint64_t* userBounds) {
  SC_TRY(checkInOut(in, out));
  SC_TRY(const std::vector<uint64_t> bounds, readBounds(userBounds, in->length, static_cast<size_t>(comm.ranks())));
  SC_TRY(const Entries entries, readEntries("in", *in));
  std::vector<Agreed> cuts;
  std::vector<uint64_t> cut;
  for (const uint64_t bound : bounds) {
    cuts.push_back({"bound", bound});
    const auto at = std::lower_bound(entries.indices.begin(), entries.indices.end(), bound);
    cut.push_back(static_cast<uint64_t>(at - entries.indices.begin()));
  }
  SC_TRY(Exchange exchange, prepare(comm, "ReduceScatterVector", *in, entries.count(),
                                    {{"bounds", hashOf("bounds", cuts)}}, std::move(cut)));
  return exchangeEntries(comm, exchange, entries, [&](const std::vector<ListView>& lists) {
    return mergeInto(comm, lists, exchange.layout.indexBytes, {}, *out);
  });
}

Status allGatherVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out) {
  SC_TRY(checkInOut(in, out));
  SC_TRY(const Entries entries, readEntries("in", *in, true));
  SC_TRY(Exchange exchange, prepare(comm, "AllGatherVector", *in, entries.count(), {}, {}));
  return exchangeEntries(comm, exchange, entries, [&](const std::vector<ListView>& lists) -> Status {
    uint64_t total = 0;
    for (const ListView& list : lists) total += *list.count;
    *out->count = total;
    if (total > out->capacity) return fail(sparsecollCapacity, "{} entries for {} slots", total, out->capacity);
    uint64_t written = 0;
    uint64_t previous = 0;
    bool sorted = true;
    const uint32_t indexBytes = exchange.layout.indexBytes;
    for (const ListView& list : lists) {
      const auto* const values =
          static_cast<const std::byte*>(list.indices) + alignUp(uint64_t{*list.count} * indexBytes, 16);
      for (uint32_t i = 0; i < *list.count; ++i, ++written) {
        const uint64_t index = indexBytes == 8 ? static_cast<const uint64_t*>(list.indices)[i]
                                               : static_cast<const uint32_t*>(list.indices)[i];
        if (index >= out->length) return fail(sparsecollCorrupted, "index {} of {}", index, out->length);
        sorted = sorted && (written == 0 || index > previous);
        previous = index;
        if (indexBytesOf(*out) == 8)
          static_cast<uint64_t*>(out->indices)[written] = index;
        else
          static_cast<uint32_t*>(out->indices)[written] = static_cast<uint32_t>(index);
        withElement(static_cast<sparsecollDataType_t>(out->dataType), [&]<class T>(T) {
          using A = typename Element<T>::Accumulate;
          static_cast<T*>(out->values)[written] = Element<T>::store(reinterpret_cast<const A*>(values)[i]);
        });
      }
    }
    out->flags = sorted ? out->flags | SPARSECOLL_SORTED : out->flags & ~SPARSECOLL_SORTED;
    return {};
  });
}

}  // namespace sparsecoll
