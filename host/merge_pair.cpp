// A merge without a branch on which list comes next, which nothing predicts. What an iteration does waits for the one
// before, so two merges take turns, of neighbouring stretches of the lists.
#include "host/merge_pair.h"

#include <algorithm>

#include "core/list_span.h"
#include "host/order.h"
#include "host/settle.h"
#include "host/store.h"

namespace sparsecoll::host {

namespace {

constexpr uint64_t kPiece = 512;  // entries of a list in a stretch; two stretches stay in the first-level cache

// What a stretch reads: [at, end) of each list.
struct MergePart {
  uint64_t atA, endA, atB, endB;
  uint64_t bothHave() const { return std::min(endA - atA, endB - atB); }
};

template <class A>
struct StretchSum {
  uint32_t indices[2 * kPiece];
  A values[2 * kPiece];
};

// Merges as many entries of each of kStretches sums, from entry `written` on, as both lists have for sure; again and
// again, until one has none. Returns the new number of entries.
template <size_t kStretches, class A>
uint64_t mergeTogether(const ListSpan<A>& a, const ListSpan<A>& b, MergePart* stretches, StretchSum<A>* sums,
                       uint64_t written) {
  for (;;) {
    uint64_t steps = ~uint64_t{0};
    uint64_t atA[kStretches];
    uint64_t atB[kStretches];
    for (size_t s = 0; s < kStretches; ++s) {
      steps = std::min(steps, stretches[s].bothHave());
      atA[s] = stretches[s].atA;
      atB[s] = stretches[s].atB;
    }
    if (steps == 0) return written;
    for (const uint64_t end = written + steps; written < end; ++written) {
#pragma GCC unroll 2
      for (size_t s = 0; s < kStretches; ++s) {
        const uint32_t indexA = a.indices[atA[s]];
        const uint32_t indexB = b.indices[atB[s]];
        const auto [fromA, fromB] = orderOf(indexA, indexB);
        sums[s].indices[written] = fromA != 0 ? indexA : indexB;
        sums[s].values[written] = (A{0} + valueIf(fromA, a.values[atA[s]])) + valueIf(fromB, b.values[atB[s]]);
        atA[s] += fromA;
        atB[s] += fromB;
      }
    }
    for (size_t s = 0; s < kStretches; ++s) {
      stretches[s].atA = atA[s];
      stretches[s].atB = atB[s];
    }
  }
}

template <class A>
class PairMerger {
 public:
  PairMerger(const MergeArgs& args, const Isa& isa, ListSpan<A> a, ListSpan<A> b)
      : args_(args), isa_(isa), factors_(factorsOf<A>(args.finish).now()), a_(a), b_(b) {}

  void run() {
    while (atA_ != a_.count || atB_ != b_.count) {
      for (MergePart& stretch : stretches_) cutOff(stretch);
      const uint64_t together = mergeTogether<kTogether>(a_, b_, stretches_, sums_, 0);
      for (size_t s = 0; s < kTogether; ++s) finish(stretches_[s], sums_[s], together);
    }
    *args_.outCount = written_;
  }

 private:
  static constexpr size_t kTogether = 2;

  // At most kPiece entries of either list: all below where the first of these pieces ends.
  void cutOff(MergePart& stretch) {
    const uint64_t boundA = boundOf(a_, atA_);
    const uint64_t boundB = boundOf(b_, atB_);
    stretch = {atA_, atA_ = endBelow(a_, atA_, boundB), atB_, atB_ = endBelow(b_, atB_, boundA)};
  }

  static uint64_t boundOf(const ListSpan<A>& list, uint64_t at) {
    return list.count - at > kPiece ? list.indices[at + kPiece] : ~uint64_t{0};
  }

  static uint64_t endBelow(const ListSpan<A>& list, uint64_t at, uint64_t bound) {
    const uint32_t* const most = list.indices + std::min<uint64_t>(list.count, at + kPiece);
    return static_cast<uint64_t>(std::lower_bound(list.indices + at, most, bound) - list.indices);
  }

  void finish(MergePart& stretch, StretchSum<A>& sum, uint64_t written) {
    written = mergeTogether<1>(a_, b_, &stretch, &sum, written);
    written = takeRest(a_, stretch.atA, stretch.endA, sum, written);
    written = takeRest(b_, stretch.atB, stretch.endB, sum, written);
    std::copy_n(sum.indices, written, static_cast<uint32_t*>(args_.outIndices) + written_);
    finishTile(isa_, factors_, sum.values, finished_, written);
    withElement(args_.outType, [&]<class T>(T) {
      storeElements(finished_, static_cast<T*>(args_.outValues) + written_, written, isa_);
    });
    written_ += written;
  }

  static uint64_t takeRest(const ListSpan<A>& list, uint64_t at, uint64_t end, StretchSum<A>& sum, uint64_t written) {
    for (; at < end; ++at, ++written) {
      sum.indices[written] = list.indices[at];
      sum.values[written] = A{0} + list.values[at];
    }
    return written;
  }

  const MergeArgs& args_;
  const Isa& isa_;
  FinishFactors<A> factors_;
  ListSpan<A> a_, b_;
  uint64_t atA_ = 0, atB_ = 0;
  uint64_t written_ = 0;
  MergePart stretches_[kTogether];
  StretchSum<A> sums_[kTogether];
  A finished_[2 * kPiece];
};

}  // namespace

bool mergePair(const MergeArgs& args, const Isa& isa) {
  const bool poisoned = args.control != nullptr && args.control->anyNonFinite != 0;
  if (args.lists.empty() || args.lists.size() > 2 || args.mode != Combine::kAdd || args.overContributors || poisoned ||
      args.indexBytes != sizeof(uint32_t))
    return false;
  for (const ListView& list : args.lists)
    if (!checkOrder(list, args.n).ok()) return false;
  return withAccumulate(args.accumulateType, [&]<class A>(A) {
    const ListSpan<A> a = spanOf<A>(args.lists.front());
    const ListSpan<A> b = args.lists.size() == 2 ? spanOf<A>(args.lists.back()) : ListSpan<A>{a.indices, a.values, 0};
    if (a.indices == nullptr || b.indices == nullptr || uint64_t{a.count} + b.count > args.outCapacity) return false;
    PairMerger<A>(args, isa, a, b).run();
    return true;
  });
}

}  // namespace sparsecoll::host
