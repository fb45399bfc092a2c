// P lists to a dense sum. A tile is summed in a scratch that stays in the first-level cache and then written once: streamed
// past the caches when all of out is written, line by line when the caller promised that only we write out.
#include "host/combine.h"

#include <limits>

#include "host/store.h"
#include "host/tiles.h"

namespace sparsecoll::host {

namespace {

template <class A>
inline constexpr uint64_t kMapWords = kTileElements<A> / kLineElements / 64;

template <class A, class T>
class Combiner {
 public:
  Combiner(const CombineArgs& args, const Isa& isa)
      : args_(args), isa_(isa), out_(static_cast<T*>(args.out)), finisher_(args.finish), walker_(args.lists, args.mode) {
    std::memset(tile_, 0, sizeof tile_);
    stream_ = mayStream(args.out, args.n * sizeof(T));
  }

  Status run() {
    for (uint64_t low = 0; low < args_.n; low += kTileElements<A>) {
      const uint64_t length = std::min(kTileElements<A>, args_.n - low);
      std::memset(map_, 0, sizeof map_);
      walker_.gatherTile(low, length, tile_, [this](uint64_t offset) {
        map_[offset / kLineElements / 64] |= uint64_t{1} << (offset / kLineElements % 64);
      });
      if (args_.accumulate) {
        writeLines(low, length, [this](T* to, const A* line, uint64_t count) { addLine(to, line, count); });
      } else if (args_.touchedLines != nullptr) {
        clearOldLines(low, length);
        writeLines(low, length, [this](T* to, const A* line, uint64_t count) { storeElements(line, to, count, isa_); });
      } else {
        writeAll(low, length);
      }
    }
    if (stream_) streamFence();
    return walker_.finished();
  }

 private:
  // Calls write(position, finished line, count) for every touched line and clears it in the scratch.
  template <class Write>
  void writeLines(uint64_t low, uint64_t length, Write write) {
    forEachLine(map_, low, length, [&](uint64_t at, uint64_t count) {
      finisher_.apply(tile_ + at, count);
      write(out_ + low + at, tile_ + at, count);
      std::memset(tile_ + at, 0, count * sizeof(A));
    });
    if (args_.touchedLines != nullptr) std::memcpy(args_.touchedLines + word(low), map_, mapWords(length) * sizeof(uint64_t));
  }

  void clearOldLines(uint64_t low, uint64_t length) {
    uint64_t stale[kMapWords<A>] = {};
    for (uint64_t w = 0; w < mapWords(length); ++w) stale[w] = args_.touchedLines[word(low) + w] & ~map_[w];
    forEachLine(stale, low, length, [&](uint64_t at, uint64_t count) { std::memset(out_ + low + at, 0, count * sizeof(T)); });
  }

  void writeAll(uint64_t low, uint64_t length) {
    forEachLine(map_, low, length, [&](uint64_t at, uint64_t count) { finisher_.apply(tile_ + at, count); });
    const T* finished = nullptr;
    if constexpr (std::is_same_v<T, A>) {
      finished = tile_;
    } else {
      storeElements(tile_, narrow_, length, isa_);
      finished = narrow_;
    }
    const uint64_t bytes = length * sizeof(T);
    if (stream_ && bytes % 16 == 0)
      streamBytes(out_ + low, finished, bytes);
    else
      std::memcpy(out_ + low, finished, bytes);
    forEachLine(map_, low, length, [&](uint64_t at, uint64_t count) { std::memset(tile_ + at, 0, count * sizeof(A)); });
  }

  void addLine(T* to, const A* line, uint64_t count) {
    A sum[kLineElements];
    loadElements(to, sum, count, isa_);
    for (uint64_t i = 0; i < count; ++i) sum[i] += line[i];
    storeElements(sum, to, count, isa_);
  }

  template <class Do>
  static void forEachLine(const uint64_t* map, uint64_t, uint64_t length, Do each) {
    for (uint64_t w = 0; w < mapWords(length); ++w)
      for (uint64_t left = map[w]; left != 0; left &= left - 1) {
        const uint64_t at = (w * 64 + static_cast<uint64_t>(__builtin_ctzll(left))) * kLineElements;
        each(at, std::min(kLineElements, length - at));
      }
  }

  static uint64_t word(uint64_t low) { return low / kLineElements / 64; }
  static uint64_t mapWords(uint64_t length) { return (length + kLineElements * 64 - 1) / (kLineElements * 64); }

  const CombineArgs& args_;
  const Isa& isa_;
  T* out_;
  Finisher<A> finisher_;
  TileWalker<A, uint32_t> walker_;
  bool stream_ = false;
  uint64_t map_[kMapWords<A>];
  alignas(64) A tile_[kTileElements<A>];
  alignas(64) T narrow_[std::is_same_v<T, A> ? 1 : kTileElements<A>];
};

// Non-finite entries are named by their ranks; whatever was summed there, a loss scaler must see a NaN.
template <class T>
void writePoison(const CombineArgs& args) {
  using Wide = typename Element<T>::Accumulate;
  auto* out = static_cast<T*>(args.out);
  for (uint64_t i = 0; i < args.control->poisonCount; ++i) {
    const uint64_t at = args.control->poison[i];
    out[at] = Element<T>::store(std::numeric_limits<Wide>::quiet_NaN());
    if (args.touchedLines != nullptr) args.touchedLines[at / kLineElements / 64] |= uint64_t{1} << (at / kLineElements % 64);
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
