// P lists to one sorted list. The same walk over tiles as combine.cpp, with a mark for every touched element; tiles
// without entries are skipped, so very long and very sparse vectors cost what their entries cost.
#include "host/merge.h"

#include <limits>

#include "host/contributors.h"
#include "host/merge_pair.h"
#include "host/store.h"
#include "host/tiles.h"

namespace sparsecoll::host {

namespace {

template <class A, class Index>
class Merger {
 public:
  Merger(const MergeArgs& args, const Isa& isa)
      : args_(args), isa_(isa), factors_(factorsOf<A>(args.finish).now()), walker_(args.lists, args.mode) {
    std::memset(tile_, 0, sizeof tile_);
    std::memset(marks_, 0, sizeof marks_);
    if (args.overContributors) contributors_.clear();
  }

  Status run() {
    if (args_.control != nullptr && args_.control->anyNonFinite != 0) sortPoison();
    uint64_t low = 0;
    for (;;) {
      const uint64_t next = std::min(walker_.nextIndex(), poison_.empty() ? ~uint64_t{0} : poison_.front());
      if (next == ~uint64_t{0} || next >= args_.n) break;
      const uint64_t tileLow = next / kTileElements<A> * kTileElements<A>;
      if (written_ != 0 && tileLow < low) break;  // out of order: finished() names the list
      low = tileLow;
      const uint64_t length = std::min(kTileElements<A>, args_.n - low);
      gather(low, length);
      poisonTile(low, length);
      emitTile(low, length);
      low += kTileElements<A>;
    }
    SC_TRY(walker_.finished(args_.n));
    *args_.outCount = written_;
    if (written_ > args_.outCapacity)
      return fail(sparsecollCapacity, "the union has {} entries, the output {} slots", written_, args_.outCapacity);
    return {};
  }

 private:
  void gather(uint64_t low, uint64_t length) {
    const auto mark = [this](uint64_t offset) { marks_[offset] = 1; };
    if (!args_.overContributors) return walker_.gatherTile(low, length, tile_, mark);
    walker_.gatherTile(low, length, tile_, [&](uint64_t offset) {
      mark(offset);
      contributors_.note(offset);
    });
    contributors_.divide(tile_, length);
  }

  void emitTile(uint64_t low, uint64_t length) {
    // The touched values in order, then finished and converted together.
    const uint64_t count = collectFor<A>(isa_)({tile_, marks_, alignUp(length, 64), offsets_, sums_});
    const uint64_t first = written_;
    written_ += count;
    const uint64_t fitting = first < args_.outCapacity ? std::min(count, args_.outCapacity - first) : 0;
    Index* const indices = static_cast<Index*>(args_.outIndices) + first;
    for (uint64_t i = 0; i < fitting; ++i) indices[i] = static_cast<Index>(low + offsets_[i]);
    finishAndStore(first, fitting);
  }

  void finishAndStore(uint64_t at, uint64_t count) {
    finishTile(isa_, factors_, sums_, finished_, count);
    withElement(args_.outType,
                [&]<class T>(T) { storeElements(finished_, static_cast<T*>(args_.outValues) + at, count, isa_); });
  }

  // Non-finite entries are named by their ranks whether they travelled or not: each gets a NaN in the sum.
  void sortPoison() {
    uint32_t* const begin = args_.control->poison;
    std::sort(begin, begin + args_.control->poisonCount);
    poison_ = {begin, static_cast<size_t>(std::unique(begin, begin + args_.control->poisonCount) - begin)};
  }

  void poisonTile(uint64_t low, uint64_t length) {
    for (; !poison_.empty() && poison_.front() < low + length; poison_ = poison_.subspan(1)) {
      const uint64_t at = poison_.front() - low;
      tile_[at] = std::numeric_limits<A>::quiet_NaN();
      marks_[at] = 1;
    }
  }

  const MergeArgs& args_;
  const Isa& isa_;
  FinishFactors<A> factors_;
  TileWalker<A, Index> walker_;
  std::span<const uint32_t> poison_;
  uint64_t written_ = 0;
  ContributorCounts<A> contributors_;
  alignas(64) uint8_t marks_[kTileElements<A>];
  alignas(64) A tile_[kTileElements<A>];
  alignas(64) uint32_t offsets_[kTileElements<A> + 64];
  alignas(64) A sums_[kTileElements<A> + 64];
  alignas(64) A finished_[kTileElements<A>];
};

}  // namespace

Status merge(const MergeArgs& args, const Isa& isa) {
  if (mergePair(args, isa)) return {};
  return withAccumulate(args.accumulateType, [&]<class A>(A) {
    return args.indexBytes == 8 ? Merger<A, uint64_t>(args, isa).run() : Merger<A, uint32_t>(args, isa).run();
  });
}

}  // namespace sparsecoll::host
