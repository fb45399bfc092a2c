// P lists to a dense sum. A tile is summed in a scratch that stays in the first-level cache and then written once:
// streamed past the caches when all of out is written, by lines when the caller promised that only we write out.
#include "host/combine.h"

#include <limits>

#include "core/numeric.h"
#include "host/contributors.h"
#include "host/store.h"
#include "host/tiles.h"

namespace sparsecoll::host {

namespace {

template <class A>
inline constexpr uint64_t kMapWords = kTileElements<A> / kLineElements / 64;

template <class A, class T>
class Combiner {
  static constexpr bool kSame = std::is_same_v<A, T>;

 public:
  Combiner(const CombineArgs& args, const Isa& isa)
      : args_(args),
        isa_(isa),
        out_(static_cast<T*>(args.out)),
        factors_(factorsOf<A>(args.finish).now()),
        walker_(args.lists, args.mode) {
    std::memset(tile_, 0, sizeof tile_);
    if (args.overContributors) contributors_.clear();
    stream_ = mayStream(args.out, args.n * sizeof(T));
  }

  Status run() {
    const bool lines = args_.accumulate || args_.touchedLines != nullptr;
    for (uint64_t low = 0; low < args_.n; low += kTileElements<A>) {
      const uint64_t length = std::min(kTileElements<A>, args_.n - low);
      lines ? sumLines(low, length) : sumAll(low, length);
    }
    if (stream_) streamFence();
    return walker_.finished(args_.n);
  }

 private:
  // Every element of out is written.
  void sumAll(uint64_t low, uint64_t length) {
    gather(low, length, [](uint64_t) {});
    writeAll(low, length);
  }

  template <class Mark>
  void gather(uint64_t low, uint64_t length, Mark mark) {
    if (!args_.overContributors) return walker_.gatherTile(low, length, tile_, mark);
    walker_.gatherTile(low, length, tile_, [&](uint64_t offset) {
      mark(offset);
      contributors_.note(offset);
    });
    contributors_.divide(tile_, length);
  }

  void writeAll(uint64_t low, uint64_t length) {
    if constexpr (kSame) {
      finishTile(isa_, factors_, tile_, out_ + low, length, stream_);
    } else {
      finishTile(isa_, factors_, tile_, finished_, length);
      storeElements(finished_, narrow_, length, isa_);
      const uint64_t bytes = length * sizeof(T);
      if (stream_ && bytes % 16 == 0)
        streamBytes(out_ + low, narrow_, bytes);
      else
        std::memcpy(out_ + low, narrow_, bytes);
    }
  }

  // Only lines with entries, and those with old ones, are written.
  void sumLines(uint64_t low, uint64_t length) {
    uint64_t touched[kMapWords<A>] = {};
    gather(low, length, [&touched](uint64_t offset) {
      touched[offset / kLineElements / 64] |= uint64_t{1} << (offset / kLineElements % 64);
    });
    if (args_.accumulate) {
      forEachLine(touched, length, [&](uint64_t at, uint64_t count) { addLine(low, at, count); });
      return;
    }
    uint64_t* const old = args_.touchedLines + low / kLineElements / 64;
    uint64_t stale[kMapWords<A>] = {};
    uint64_t lines = 0;
    for (uint64_t w = 0; w < mapWords(length); ++w) {
      stale[w] = old[w] & ~touched[w];
      lines += static_cast<uint64_t>(__builtin_popcountll(touched[w] | stale[w]));
      old[w] = touched[w];
    }
    // Past a quarter of the lines, one straight walk over the tile is cheaper than picking them.
    if (lines * kLineElements * 4 > length) {
      writeAll(low, length);
      return;
    }
    forEachLine(stale, length,
                [&](uint64_t at, uint64_t count) { std::memset(out_ + low + at, 0, count * sizeof(T)); });
    forEachLine(touched, length, [&](uint64_t at, uint64_t count) {
      if constexpr (kSame) {
        finishTile(isa_, factors_, tile_ + at, out_ + low + at, count);
      } else {
        finishTile(isa_, factors_, tile_ + at, finished_, count);
        storeElements(finished_, out_ + low + at, count, isa_);
      }
    });
  }

  void addLine(uint64_t low, uint64_t at, uint64_t count) {
    A sum[kLineElements];
    finishTile(isa_, factors_, tile_ + at, finished_, count);
    loadElements(out_ + low + at, sum, count, isa_);
    for (uint64_t i = 0; i < count; ++i) sum[i] = canonical(sum[i] + finished_[i]);
    storeElements(sum, out_ + low + at, count, isa_);
  }

  template <class Do>
  static void forEachLine(const uint64_t* map, uint64_t length, Do each) {
    for (uint64_t w = 0; w < mapWords(length); ++w)
      for (uint64_t left = map[w]; left != 0; left &= left - 1) {
        const uint64_t at = (w * 64 + static_cast<uint64_t>(__builtin_ctzll(left))) * kLineElements;
        each(at, std::min(kLineElements, length - at));
      }
  }

  static uint64_t mapWords(uint64_t length) { return (length + kLineElements * 64 - 1) / (kLineElements * 64); }

  const CombineArgs& args_;
  const Isa& isa_;
  T* out_;
  FinishFactors<A> factors_;
  TileWalker<A, uint32_t> walker_;
  bool stream_ = false;
  ContributorCounts<A> contributors_;
  alignas(64) A tile_[kTileElements<A>];
  alignas(64) A finished_[kTileElements<A>];
  alignas(64) T narrow_[kSame ? 1 : kTileElements<A>];
};

// Non-finite entries are named by their ranks; whatever was summed there, a loss scaler must see a NaN.
template <class T>
void writePoison(const CombineArgs& args) {
  using Wide = typename Element<T>::Accumulate;
  auto* out = static_cast<T*>(args.out);
  for (uint64_t i = 0; i < args.control->poisonCount; ++i) {
    const uint64_t at = args.control->poison[i];
    out[at] = Element<T>::store(std::numeric_limits<Wide>::quiet_NaN());
    if (args.touchedLines != nullptr)
      args.touchedLines[at / kLineElements / 64] |= uint64_t{1} << (at / kLineElements % 64);
  }
}

}  // namespace

Status combine(const CombineArgs& args, const Isa& isa) {
  return withAccumulate(args.accumulateType, [&]<class A>(A) {
    return withElement(args.outType, [&]<class T>(T) -> Status {
      SC_TRY((Combiner<A, T>(args, isa).run()));
      if (args.control != nullptr && args.control->anyNonFinite != 0) writePoison<T>(args);
      return {};
    });
  });
}

}  // namespace sparsecoll::host
