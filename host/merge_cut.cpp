#include "host/merge_cut.h"

#include <algorithm>

#include "core/list_span.h"
#include "host/canonical.h"
#include "host/descent.h"
#include "host/merge.h"
#include "host/settle.h"

namespace sparsecoll::host {

namespace {

// The lists' sum as one list in scratch.
Status sumInto(std::span<const ListView> lists, sparsecollDataType_t type, uint64_t n, const List& scratch,
               const Isa& isa) {
  uint64_t count = 0;
  MergeArgs args;
  args.lists = lists;
  args.accumulateType = type;
  args.n = n;
  args.outIndices = scratch.indices;
  args.outValues = scratch.values;
  args.outType = type;
  args.outCount = &count;
  args.outCapacity = scratch.capacity;
  const Status merged = merge(args, isa);
  // What a rank may send is known, so lists that do not fit are not those of the schedule.
  if (merged.result() == sparsecollCapacity) return fail(sparsecollCorrupted, "{}", merged.failure().text.view());
  *scratch.count = static_cast<uint32_t>(count);
  return merged;
}

template <class A>
class MergeCutter {
  using Key = typename Magnitude<A>::Key;

 public:
  MergeCutter(const MergeCutArgs& args, const Isa& isa)
      : isa_(isa), args_(args), sums_(static_cast<const A*>(args.scratch.values)) {}

  void run() {
    const uint64_t count = *args_.scratch.count;
    const Key least = args_.key != nullptr ? static_cast<Key>(*args_.key) : Key{0};
    uint64_t passing = 0;
    for (uint64_t i = 0; i < count; ++i) passing += keyAt(i) >= least ? 1 : 0;
    const uint64_t kept = std::min(passing, *args_.limit);
    Boundary<Key> boundary{least, count};
    if (kept == 0)
      boundary = {~Key{0} >> 1, 0};  // above every magnitude
    else if (kept < passing)
      boundary = boundaryOf(count, kept);
    if (kept == count)
      keepAll(count);
    else
      split(count, kept, boundary);
    if (args_.keptKey != nullptr && kept != 0)
      *args_.keptKey = kept < passing ? boundary.key : lowestFrom(count, least);
  }

 private:
  Key keyAt(uint64_t i) const { return Magnitude<A>::of(sums_[i]); }

  Key lowestFrom(uint64_t count, Key least) const {
    Key lowest = ~Key{0};
    for (uint64_t i = 0; i < count; ++i) lowest = std::min(lowest, keyAt(i) >= least ? keyAt(i) : lowest);
    return lowest;
  }

  Boundary<Key> boundaryOf(uint64_t count, uint64_t kept) const {
    Descent<Key> descent(isa_);
    return descent.findAmongMany([this](uint64_t i) { return keyAt(i); }, count, kept);
  }

  void keepAll(uint64_t count) const {
    const ListSlots<A> to = slotsOf<A>(args_.target, count);
    std::copy_n(args_.scratch.indices, count, to.indices);
    std::copy_n(sums_, count, to.values);
    *args_.target.count = static_cast<uint32_t>(count);
    if (args_.dropped.indices != nullptr) *args_.dropped.count = 0;
  }

  void split(uint64_t count, uint64_t kept, Boundary<Key> boundary) const {
    const ListSlots<A> to = slotsOf<A>(args_.target, kept);
    SplitSpan<A> span;
    span.indices = args_.scratch.indices;
    span.values = sums_;
    span.count = count;
    span.key = boundary.key;
    span.equals = boundary.equals;
    span.kept = kept;
    span.keptIndices = to.indices;
    span.keptValues = to.values;
    *args_.target.count = static_cast<uint32_t>(kept);
    if (args_.dropped.indices != nullptr) {
      const ListSlots<A> rest = slotsOf<A>(args_.dropped, 0);
      span.restIndices = rest.indices;
      span.restValues = rest.values;
      span.restScale = static_cast<A>(args_.droppedScale);
      *args_.dropped.count = static_cast<uint32_t>(count - kept);
    }
    splitFor<A>(isa_)(span);
  }

  const Isa& isa_;
  const MergeCutArgs& args_;
  const A* sums_;
};

template <class A>
class StreamSum {
 public:
  StreamSum(const StreamArgs& args, const Isa& isa) : args_(args), isa_(isa) {}

  Status run() {
    uint64_t counts = 0;
    bool anyRun = false;
    for (const ListView& view : args_.lists) {
      const ListSpan<A> list = spanOf<A>(view);
      counts += list.count;
      anyRun = anyRun || list.indices == nullptr;
    }
    const bool dense = anyRun || counts >= args_.denseFrom;
    auto* const header = reinterpret_cast<FrameHeader*>(args_.frame);
    header->flags = dense ? kFrameDense : 0;
    if (dense) return fillRun(header->count);
    return fillList(counts, header->count);
  }

 private:
  Status fillRun(uint32_t& count) const {
    auto* const run = reinterpret_cast<A*>(args_.frame + kFrameHeaderBytes);
    std::fill_n(run, args_.length, A{0});
    for (const ListView& view : args_.lists) {
      const ListSpan<A> list = spanOf<A>(view);
      if (list.indices == nullptr)
        for (uint32_t i = 0; i < list.count; ++i) run[i] += list.values[i];
      else
        for (uint32_t i = 0; i < list.count; ++i) run[list.indices[i] - args_.first] += list.values[i];
    }
    makeCanonical(run, args_.length);
    count = static_cast<uint32_t>(args_.length);
    return {};
  }

  // Packed values lie behind as many indices as the sum turns out to have: they are written behind as many as it can
  // have, and moved.
  Status fillList(uint64_t counts, uint32_t& count) const {
    auto* const indices = reinterpret_cast<uint32_t*>(args_.frame + kFrameHeaderBytes);
    const uint64_t most = std::min(counts, args_.layout.capacity);
    auto* const far = reinterpret_cast<A*>(args_.frame + args_.layout.valuesOffset(most));
    List list;
    list.indices = indices;
    list.values = far;
    list.count = &count;
    list.capacity = most;
    SC_TRY(sumInto(args_.lists, args_.accumulateType, args_.first + args_.length, list, isa_));
    auto* const near = reinterpret_cast<A*>(args_.frame + args_.layout.valuesOffset(count));
    std::copy(far, far + count, near);
    return {};
  }

  const StreamArgs& args_;
  const Isa& isa_;
};

template <class A>
Status joinStreams(const JoinArgs& args) {
  auto* const header = reinterpret_cast<FrameHeader*>(args.frame);
  header->flags = *args.dense != 0 ? kFrameDense : 0;
  if (*args.dense == 0) {
    List list;
    list.indices = reinterpret_cast<uint32_t*>(args.frame + kFrameHeaderBytes);
    list.count = &header->count;
    list.capacity = args.layout.capacity;
    list.where = List::Values::kPacked;
    return concatenate(args.parts, Element<A>::kType, list);
  }
  auto* run = reinterpret_cast<A*>(args.frame + kFrameHeaderBytes);
  uint64_t room = args.layout.denseCount;
  for (const ListPart& part : args.parts) {
    if (part.list.form == ListView::Form::kList) continue;
    const uint64_t length = part.high - part.low;
    if (length > room) return fail(sparsecollCorrupted, "runs of more than {} values", args.layout.denseCount);
    const ListSpan<A> list = spanOf<A>(part.list);
    if (list.indices == nullptr && list.count != length)
      return fail(sparsecollCorrupted, "a run of {} values for {} elements", list.count, length);
    if (list.indices == nullptr) {
      std::copy_n(list.values, length, run);
    } else {
      std::fill_n(run, length, A{0});
      for (uint32_t i = 0; i < list.count; ++i)
        if (list.indices[i] >= part.low && list.indices[i] < part.high)
          run[list.indices[i] - part.low] = list.values[i];
    }
    run += length;
    room -= length;
  }
  header->count = static_cast<uint32_t>(args.layout.denseCount - room);
  return {};
}

}  // namespace

Status join(const JoinArgs& args) {
  return withAccumulate(args.accumulateType, [&]<class A>(A) { return joinStreams<A>(args); });
}

Status mergeCut(const MergeCutArgs& args, const Isa& isa) {
  SC_TRY(sumInto(args.lists, args.accumulateType, args.n, args.scratch, isa));
  withAccumulate(args.accumulateType, [&]<class A>(A) { MergeCutter<A>(args, isa).run(); });
  return {};
}

Status stream(const StreamArgs& args, const Isa& isa) {
  return withAccumulate(args.accumulateType, [&]<class A>(A) { return StreamSum<A>(args, isa).run(); });
}

}  // namespace sparsecoll::host
