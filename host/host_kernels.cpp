#include "host/host_kernels.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "core/limits.h"
#include "core/list_rule.h"
#include "core/memory.h"
#include "core/prefetch.h"
#include "core/tile_sum.h"
#include "host/canonical.h"
#include "host/combine.h"
#include "host/cut.h"
#include "host/deferred_zeros.h"
#include "host/dense.h"
#include "host/gather.h"
#include "host/host_clock.h"
#include "host/merge.h"
#include "host/merge_cut.h"
#include "host/momentum.h"
#include "host/settle.h"
#include "host/statistics.h"

namespace sparsecoll::host {

namespace {

constexpr uint32_t kSumBlock = 2048;          // entries whose sum stays in the first-level cache
constexpr uint64_t kDeferredPiece = 1 << 16;  // elements whose bits do

// The fused pass over all windows, and between them with a key that only NaN and Inf reach.
template <class A, class T>
class Pass {
 public:
  Pass(const PassArgs& args, const Isa& isa) : args_(args), isa_(isa) {
    span_.gradient = args.gradient;
    span_.in = static_cast<const A*>(args.in);
    span_.deferredZeros = args.deferredZeros;
    span_.out = static_cast<A*>(args.out);
    span_.scale = static_cast<A>(args.scale.now());
  }

  void run() {
    Control& control = *args_.control;
    control.nonFinite.count = 0;
    control.overflows = control.fallbacks = control.candidates = 0;
    control.selected = 0;
    control.selectedWith = 0;
    args_.norms != nullptr ? measure(control) : collect(control);
    if (args_.deferredZeros != nullptr) args_.deferredZeros[args_.n / 64] = 0;
  }

 private:
  void collect(Control& control) {
    uint64_t done = 0;
    for (uint32_t w = 0; w < control.windowCount; ++w) {
      Window& window = control.windows[w];
      between(done, window.begin);
      span_.begin = window.begin;
      span_.end = window.end;
      span_.key = static_cast<typename Magnitude<A>::Key>(window.key);
      span_.indices = args_.candidateIndices + window.firstSlot;
      span_.values = static_cast<A*>(args_.candidateValues) + window.firstSlot;
      span_.room = window.slots;
      window.found = runSpan();
      done = window.end;
    }
    between(done, args_.n);
  }

  // The windows' norms of acc.
  void measure(Control& control) {
    for (uint32_t w = 0; w < control.windowCount; ++w) {
      Window& window = control.windows[w];
      TileSum sum;
      for (uint64_t at = window.begin; at < window.end; at += kTile) {
        double lanes[kSquareLanes] = {};
        lanes_ = lanes;
        between(at, std::min(window.end, at + kTile));
        sum.add(foldLanes(lanes));
      }
      const double squares = sum.sum();
      args_.norms[w] = isFinite(squares) ? std::sqrt(squares) : 0;  // else the fragment gets the least
      window.found = 0;
    }
  }

  void between(uint64_t begin, uint64_t end) {
    if (begin == end) return;
    constexpr uint64_t kRoom = 2 * kMaxNonFiniteIndices;
    uint32_t indices[kRoom];
    A values[kRoom];
    span_.begin = begin;
    span_.end = end;
    span_.key = Magnitude<A>::kInfinity;
    span_.indices = indices;
    span_.values = values;
    span_.room = kRoom;
    const uint64_t found = runSpan();
    NonFinite& seen = args_.control->nonFinite;
    for (uint64_t i = 0; i < found; ++i, ++seen.count)
      if (seen.count < kMaxNonFiniteIndices) seen.indices[seen.count] = indices[i];
  }

  // Bits are cleared while the cache still holds them. Spans come in ascending order, so the word in which one ends is
  // cleared with the next.
  uint64_t runSpan() const {
    if (args_.deferredZeros == nullptr) return run(span_);
    uint64_t found = 0;
    PassSpan<A> piece = span_;
    for (uint64_t at = span_.begin; at < span_.end; at = piece.end) {
      const uint64_t stored = std::min(found, span_.room);
      piece.begin = at;
      // Squares go to lanes by their distance from the begin, in tiles that are short enough.
      piece.end = lanes_ != nullptr ? span_.end : std::min(span_.end, (at / kDeferredPiece + 1) * kDeferredPiece);
      piece.indices = span_.indices + stored;
      piece.values = span_.values + stored;
      piece.room = span_.room - stored;
      found += run(piece);
      std::fill(args_.deferredZeros + at / 64, args_.deferredZeros + piece.end / 64, uint64_t{0});
    }
    return found;
  }

  uint64_t run(const PassSpan<A>& span) const {
    const uint64_t found = runAsIs(span);
    if (args_.out != nullptr) shareNaN(span, found);
    return found;
  }

  uint64_t runAsIs(const PassSpan<A>& span) const {
    if (args_.momentum.none())
      return lanes_ != nullptr ? passSquaresFor<T>(isa_)(span, lanes_) : passFor<T>(isa_)(span);
    const uint64_t found = passTiles<T>(args_, span, isa_);
    if (lanes_ != nullptr) squareLanes(span.out + span.begin, span.end - span.begin, lanes_, isa_);
    return found;
  }

  // Which NaN arithmetic leaves is the machine's, and its bits decide which entries stay. All of it reaches every key,
  // so the list shows where there is none.
  void shareNaN(const PassSpan<A>& span, uint64_t found) const {
    const uint64_t length = span.end - span.begin;
    const uint64_t listed = std::min(found, span.room);
    A* const acc = span.out + span.begin;
    if (!hasNaN(span.values, listed) && (found == listed || !hasNaN(acc, length))) return;
    makeCanonical(span.values, listed);
    makeCanonical(acc, length);
    if (args_.momentum.velocityIn != nullptr)
      makeCanonical(static_cast<A*>(args_.momentum.velocityOut) + span.begin, length);
  }

  const PassArgs& args_;
  const Isa& isa_;
  PassSpan<A> span_;
  double* lanes_ = nullptr;  // not nullptr: of the squares of acc
};

Status outOfRange(uint64_t index, uint64_t n) {
  return fail(sparsecollCorrupted, "index {} in a vector of {} elements", index, n);
}

class ProcessMemory final : public MemorySource {
 public:
  Result<void*> allocate(uint64_t bytes) override {
    void* const data = aligned(bytes);
    if (data == nullptr) return fail(sparsecollOutOfMemory, "{} bytes could not be allocated", bytes);
    std::memset(data, 0, bytes);
    return data;
  }
  void release(void* data, uint64_t) noexcept override { std::free(data); }

 private:
  // Scattered accesses to a large buffer miss the translation cache more often than the data cache, unless its pages
  // are large.
  static void* aligned(uint64_t bytes) {
    constexpr uint64_t kHugePage = uint64_t{2} << 20;
    if (bytes < 4 * kHugePage) return std::aligned_alloc(kMemoryAlignment, bytes);
    void* data = nullptr;
    if (posix_memalign(&data, kHugePage, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
    (void)madvise(data, bytes, MADV_HUGEPAGE);  // a wish: without it all works, slower
#endif
    return data;
  }
};

class HostKernels final : public Kernels {
 public:
  HostKernels(const Isa& isa, std::shared_ptr<MemorySource> memory) : isa_(isa), memory_(std::move(memory)) {}

  sparsecollBackend_t backend() const override { return sparsecollBackendHost; }
  const char* name() const override { return isa_.name; }

  Result<Buffer> allocate(uint64_t bytes, const std::shared_ptr<MemoryBudget>& budget) override {
    return takeBuffer(memory_, bytes, budget);
  }
  Result<std::unique_ptr<Workspace>> makeWorkspace(const WorkspaceNeed&,
                                                   const std::shared_ptr<MemoryBudget>&) override {
    return std::make_unique<Workspace>();  // loops keep what they need on the stack
  }
  Result<std::unique_ptr<Marker>> makeMarker() override { return std::make_unique<Marker>(); }
  void mark(Marker&, Stream) override {}  // what is enqueued has been done
  void await(const Marker&, Stream) override {}
  const Control* look(const Control* control) const override { return control; }
  Status findings(Stream, const Deadline&) override { return {}; }
  Status reach(Stream, const Deadline&) override { return {}; }
  Status reach(const Marker&, const Deadline&) override { return {}; }
  void fillZero(void* data, uint64_t bytes, Stream) override { std::memset(data, 0, bytes); }
  void copy(void* to, const void* from, uint64_t bytes, Stream) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }

  void sample(const PassArgs& args, Stream) override { host::sample(args, isa_); }
  void pass(const PassArgs& args, Stream) override {
    withElement(args.gradientType, [&]<class T>(T) { Pass<typename Element<T>::Accumulate, T>(args, isa_).run(); });
  }
  void countTrials(const TrialArgs& args, Stream) override { host::countTrials(args, isa_); }
  void cut(const CutArgs& args, Stream) override { host::cut(args, isa_); }
  void apply(const Rule& rule, Control* control, Stream) override { rule.onHost(*control); }
  Status apply(const ListRule& rule, const ListRuleArgs& args, uint64_t, Stream) override {
    Finding finding{};
    rule.onHost(args, finding);
    return statusOf(finding);
  }

  void seal(const SealArgs& args, Stream) override {
    FrameHeader header{};
    header.sequence = args.identity.sequenceNow();
    header.plan = args.identity.plan;
    std::memcpy(&header.count, args.frame + offsetof(FrameHeader, count), sizeof header.count);
    if (args.layout.denseCount != 0) header.flags = readHeader(args.frame).flags & kFrameDense;
    if (args.control != nullptr && args.relayed) {
      header.threshold = packThreshold(args.control->announced, args.control->isDouble != 0);
      if (args.control->anyNonFinite != 0) header.flags |= kFrameNonFiniteHeard;
    } else if (args.control != nullptr) {
      const NonFinite& seen = args.control->nonFinite;
      header.threshold = packThreshold(args.control->announced, args.control->isDouble != 0);
      header.nonFinite = static_cast<uint16_t>(std::min(seen.count, kMaxNonFiniteIndices));
      if (header.nonFinite != 0) {
        header.flags = kFrameNonFinite;
        std::memcpy(args.frame + args.layout.tailOffset(header.count), seen.indices, kFrameTailBytes);
      }
    }
    std::memcpy(args.frame, &header, sizeof header);
    const uint32_t checksum = frameChecksum(args.frame, args.layout.usedBytes(header), args.withPayload);
    std::memcpy(args.frame + kFrameChecksumOffset, &checksum, sizeof checksum);
  }

  Status open(const OpenArgs& args, Stream) override {
    if (args.control != nullptr && !args.relayed) {
      Control& control = *args.control;
      control.delivered = control.poisonCount = 0;
      control.largest = control.anyNonFinite = 0;
    }
    for (size_t r = 0; r < args.frames.size(); ++r)
      if (auto opened = openFrame(args, r); !opened.ok()) {
        Failure failure = opened.failure();
        failure.peer = args.peer >= 0 ? args.peer : static_cast<int>(r);
        return Status(std::move(failure));
      }
    return {};
  }

  Status gather(const void* acc, sparsecollDataType_t type, uint64_t n, std::span<const ListView> lists,
                std::span<const List> to, Stream) override {
    return host::gather(acc, type, n, lists, to);
  }

  void sumValues(std::span<const void* const> from, sparsecollDataType_t type, const uint32_t* count, const List& to,
                 Stream) override {
    withAccumulate(type, [&]<class A>(A) {
      auto* sum = static_cast<A*>(to.values);
      for (uint64_t begin = 0; begin < *count; begin += kSumBlock) {
        const auto length = static_cast<uint32_t>(std::min<uint64_t>(kSumBlock, *count - begin));
        std::fill_n(sum + begin, length, A{0});
        for (const void* rank : from) {
          const A* const values = static_cast<const A*>(rank) + begin;
          for (uint32_t i = 0; i < length; ++i) sum[begin + i] += values[i];
        }
        makeCanonical(sum + begin, length);
      }
    });
    *to.count = *count;
  }

  Status combine(const CombineArgs& args, Stream) override { return host::combine(args, isa_); }
  Status merge(const MergeArgs& args, Stream) override { return host::merge(args, isa_); }
  Status mergeCut(const MergeCutArgs& args, Stream) override { return host::mergeCut(args, isa_); }
  Status stream(const StreamArgs& args, Stream) override { return host::stream(args, isa_); }
  Status join(const JoinArgs& args, Stream) override { return host::join(args); }
  Status concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to, Stream) override {
    return host::concatenate(parts, type, to);
  }
  void settle(const SettleArgs& args, Stream) override { host::settle(args); }
  Status checkOrder(const ListView& list, uint64_t n, Stream) override { return host::checkOrder(list, n); }
  Status countBlocks(const BlockCountArgs& args, Stream) override { return host::countBlocks(args); }
  void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control* control, Stream) override {
    host::tally(sum, bounds, owners, *control);
  }
  void denseSum(const DenseSumArgs& args, Stream) override { host::denseSum(args, isa_); }

  Status conclude(const ConcludeArgs& args, Stream) override {
    const bool nonFinite = args.control->anyNonFinite != 0;
    args.control->takesEffect = nonFinite && args.nonFiniteUndoes ? 0 : 1;
    if (nonFinite && args.nonFiniteFails)
      return fail(sparsecollNonFinite, "some rank's gradient or residual has NaN or Inf");
    return {};
  }
  void restore(void* x, const void* before, sparsecollDataType_t type, uint64_t n, const Control* decision,
               Stream) override {
    if (decision->takesEffect == 0) std::memcpy(x, before, n * elementBytes(type));
  }
  void zeroAt(void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const Control* decision,
              Stream) override {
    if (decision != nullptr && decision->takesEffect == 0) return;
    withAccumulate(type, [&]<class A>(A) {
      const auto* indices = static_cast<const uint32_t*>(list.indices);
      auto* to = static_cast<A*>(acc);
      const uint32_t count = *list.count;
      for (uint32_t i = 0; i < count; ++i) {
        if (i + kAhead < count) askFor(to + indices[i + kAhead]);
        if (indices[i] < n) to[indices[i]] = 0;
      }
    });
  }

  bool defersZeros() const override { return true; }
  void deferZeros(uint64_t* bits, uint64_t n, const ListView& list, const Control* decision, Stream) override {
    if (decision->takesEffect == 0) return;
    const auto* indices = static_cast<const uint32_t*>(list.indices);
    const uint32_t count = *list.count;
    for (uint32_t i = 0; i < count; ++i)
      if (indices[i] < n) deferZero(bits, indices[i]);
  }
  void writeDeferredZeros(void* acc, sparsecollDataType_t type, uint64_t n, uint64_t* bits, Stream) override {
    withAccumulate(type, [&]<class A>(A) {
      auto* const to = static_cast<A*>(acc);
      for (uint64_t w = 0; w * 64 < n; ++w)
        for (; bits[w] != 0; bits[w] &= bits[w] - 1) to[w * 64 + static_cast<uint64_t>(__builtin_ctzll(bits[w]))] = 0;
    });
  }

  void clearNonFinite(void* acc, sparsecollDataType_t type, uint64_t n, const Control* control, Stream) override {
    if (control->anyNonFinite == 0) return;
    withAccumulate(type, [&]<class A>(A) {
      auto* values = static_cast<A*>(acc);
      for (uint64_t i = 0; i < n; ++i)
        if (!isFinite(values[i])) values[i] = 0;
    });
  }

  void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
                 double factor, Scale divisor, const Control* decision, Stream) override {
    if (decision != nullptr && decision->takesEffect == 0) return;
    host::addFinite(acc, accType, x, type, n, factor / divisor.now(), isa_);
  }
  void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n, Stream) override {
    host::flush(acc, accType, x, type, n, isa_);
  }
  void squares(const void* x, sparsecollDataType_t type, uint64_t n, double* squaresAt, Stream) override {
    const uint64_t bounds[] = {0, n};
    host::segmentSquares(x, type, bounds, squaresAt, isa_);
  }
  void clip(std::span<const double> squares, Scale scale, double mostNorm, double* scaleAt, Stream) override {
    *scaleAt = clippedScale(std::accumulate(squares.begin(), squares.end(), 0.0), scale.now(), mostNorm);
  }
  Result<std::unique_ptr<StepClock>> makeClock() override { return std::unique_ptr<StepClock>(new HostClock()); }

 private:
  static Status openFrame(const OpenArgs& args, size_t r) {
    const std::byte* const frame = args.frames[r];
    SC_TRY(const FrameHeader header, checkFrame(frame, args.bytes[r], args.layout, args.expected, args.withPayload));
    if (!args.counts.empty() && header.count != *args.counts[r])
      return fail(sparsecollCorrupted, "frame has {} values for {} indices", header.count, *args.counts[r]);
    if (args.control == nullptr) return {};
    Control& control = *args.control;
    if (args.relayed) {
      if (args.sameAnnounced && header.threshold != packThreshold(control.announced, control.isDouble != 0))
        return disagree(-1, "share", "the ranks' teams give different shares");
      if ((header.flags & kFrameNonFiniteHeard) != 0) control.anyNonFinite = 1;
      return {};
    }
    control.facts[r] = {header.count, unpackThreshold(header.threshold, control.isDouble != 0)};
    control.delivered += header.count;
    control.largest = std::max(control.largest, header.count);
    if (header.nonFinite == 0) return {};
    control.anyNonFinite = 1;
    uint32_t indices[kMaxNonFiniteIndices];
    std::memcpy(indices, frame + args.layout.tailOffset(header.count), sizeof indices);
    for (uint32_t i = 0; i < header.nonFinite; ++i) {
      if (indices[i] >= control.n) return outOfRange(indices[i], control.n);
      control.poison[control.poisonCount++] = indices[i];
    }
    return {};
  }

  const Isa& isa_;
  const std::shared_ptr<MemorySource> memory_;
};

}  // namespace

std::unique_ptr<Kernels> makeHostKernels(const Isa& isa, std::shared_ptr<MemorySource> memory) {
  if (memory == nullptr) memory = std::make_shared<ProcessMemory>();
  return std::make_unique<HostKernels>(isa, std::move(memory));
}

}  // namespace sparsecoll::host
