#include "host/settle.h"

#include <algorithm>
#include <array>

#include "core/limits.h"
#include "core/list_span.h"
#include "core/prefetch.h"
#include "host/deferred_zeros.h"
#include "host/marks.h"

namespace sparsecoll::host {

namespace {

constexpr uint64_t kCommonBlock = 256;  // acc's lines at so many entries stay in the first-level cache

// Goes through acc tile by tile with the sum's entries marked. kBits: what leaves acc is noted as bits.
template <class A, bool kBits>
class Settler {
 public:
  explicit Settler(const SettleArgs& args) : args_(args), acc_(static_cast<A*>(args.acc)), sum_(spanOf<A>(args.sum)) {}

  void run() {
    std::array<uint64_t, kMaxRanks> sentAt{};
    std::array<uint64_t, kMaxRanks> droppedAt{};
    for (uint64_t begin = 0; begin < sum_.count;) {
      const uint64_t end = tile_.mark(sum_.indices, begin, sum_.count);
      for (size_t l = 0; l < args_.sent.size(); ++l) {
        const ListSpan<A> list = spanOf<A>(args_.sent[l]);
        if (kBits)
          forEachCommon<false>(list, sentAt[l], [&](uint64_t i) { deferZero(args_.deferredZeros, list.indices[i]); });
        else
          forEachCommon<true>(list, sentAt[l], [&](uint64_t i) { acc_[list.indices[i]] = 0; });
      }
      for (size_t l = 0; l < args_.dropped.size(); ++l) giveBack(spanOf<A>(args_.dropped[l]), droppedAt[l]);
      tile_.clear(sum_.indices, begin, end);
      begin = end;
    }
  }

 private:
  void giveBack(const ListSpan<A>& list, uint64_t& at) {
    if (args_.lost != nullptr)
      forEachCommon<false>(list, at, [&](uint64_t) { ++*args_.lost; });
    else
      forEachCommon<true>(list, at, [&](uint64_t i) {
        const uint32_t index = list.indices[i];
        const A back = left(index) + list.values[i];
        acc_[index] = isFinite(back) ? back : A{0};  // never stored, also where a sum overflowed
      });
  }

  // acc's value, which is going to be written.
  A left(uint32_t index) const {
    if (!kBits || !isDeferred(args_.deferredZeros, index)) return acc_[index];
    undeferZero(args_.deferredZeros, index);
    return 0;
  }

  // Calls each(i) for every entry i of list, from `at` on, that is marked. First they are found, without a branch that
  // nothing predicts, then acc's lines are asked for where that is what is done, and then it is done.
  template <bool kTouches, class Each>
  void forEachCommon(const ListSpan<A>& list, uint64_t& at, Each each) {
    while (at < list.count && list.indices[at] < tile_.low()) ++at;
    uint64_t common[kCommonBlock];
    for (;;) {
      uint64_t found = 0;
      const uint64_t end = std::min<uint64_t>(list.count, at + kCommonBlock);
      for (; at < end && tile_.holds(list.indices[at]); ++at) {
        common[found] = at;
        found += tile_.isMarked(list.indices[at]);
      }
      for (uint64_t c = 0; kTouches && c < found; ++c) askFor(acc_ + list.indices[common[c]]);
      for (uint64_t c = 0; c < found; ++c) each(common[c]);
      if (at == list.count || at < end) return;
    }
  }

  const SettleArgs& args_;
  A* acc_;
  ListSpan<A> sum_;
  MarkedTile tile_;
};

}  // namespace

Status concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to) {
  return withAccumulate(type, [&]<class A>(A) -> Status {
    const auto ends = [](const ListPart& part, const ListSpan<A>& list) {
      const uint64_t low = part.lowAt != nullptr ? *part.lowAt : part.low;
      const uint64_t high = part.highAt != nullptr ? *part.highAt : part.high;
      const uint32_t* const begin = std::lower_bound(list.indices, list.indices + list.count, low);
      const uint32_t* const end = std::lower_bound(begin, list.indices + list.count, high);
      return std::pair(begin - list.indices, end - list.indices);
    };
    uint64_t total = 0;
    for (const ListPart& part : parts) {
      const auto [begin, end] = ends(part, spanOf<A>(part.list));
      total += static_cast<uint64_t>(end - begin);
    }
    if (total > to.capacity)
      return fail(sparsecollCorrupted, "lists of {} entries together, at most {} expected", total, to.capacity);
    ListSlots<A> slots = slotsOf<A>(to, total);
    for (const ListPart& part : parts) {
      const ListSpan<A> list = spanOf<A>(part.list);
      const auto [begin, end] = ends(part, list);
      slots.indices = std::copy(list.indices + begin, list.indices + end, slots.indices);
      slots.values = std::copy(list.values + begin, list.values + end, slots.values);
    }
    *to.count = static_cast<uint32_t>(total);
    return {};
  });
}

void settle(const SettleArgs& args) {
  if (args.decision != nullptr && args.decision->takesEffect == 0) return;
  withAccumulate(args.accumulateType, [&]<class A>(A) {
    args.deferredZeros != nullptr ? Settler<A, true>(args).run() : Settler<A, false>(args).run();
  });
}

Status checkOrder(const ListView& view, uint64_t n) {
  if (*view.count % view.parts != 0)
    return fail(sparsecollCorrupted, "{} entries are no {} equal lists", *view.count, view.parts);
  // Only the indices are looked at, so any value type will do.
  const ListSpan<float> list = spanOf<float>(view);
  if (list.indices == nullptr) {
    if (view.first + list.count > n) return fail(sparsecollCorrupted, "a run ends past element {}", n);
    return {};
  }
  bool ordered = list.count == 0 || list.indices[list.count - 1] < n;
  for (uint32_t i = 1; i < list.count; ++i) ordered &= list.indices[i] > list.indices[i - 1];
  if (!ordered) return fail(sparsecollCorrupted, "a list's indices are out of range or out of order");
  return {};
}

Status countBlocks(const BlockCountArgs& args) {
  std::fill_n(args.counts, args.blocks, 0u);
  for (const ListView& view : args.lists) {
    const ListSpan<float> list = spanOf<float>(view);
    for (uint32_t i = 0; i < list.count; ++i) {
      const uint64_t index = list.indices != nullptr ? list.indices[i] : view.first + i;
      if (index >= args.n) return fail(sparsecollCorrupted, "index {} in a vector of {} elements", index, args.n);
      ++args.counts[std::min<uint64_t>(index / args.length, args.blocks - 1)];
    }
  }
  return {};
}

void tally(const ListView& view, const uint64_t* bounds, uint32_t owners, Control& control) {
  const ListSpan<float> sum = spanOf<float>(view);
  control.delivered = sum.count;
  control.largest = owners == 0 ? (sum.count + control.ranks - 1) / control.ranks : 0;
  const uint32_t* at = sum.indices;
  for (uint32_t r = 0; r < owners; ++r) {
    const uint32_t* const end = std::lower_bound(at, sum.indices + sum.count, bounds[r + 1]);
    control.facts[r] = {static_cast<uint32_t>(end - at), 0};
    control.largest = std::max(control.largest, control.facts[r].count);
    at = end;
  }
  // As if there were as many owners as ranks: teams own a block together.
  if (owners != 0) control.largest = static_cast<uint32_t>(uint64_t{control.largest} * owners / control.ranks);
}

}  // namespace sparsecoll::host
