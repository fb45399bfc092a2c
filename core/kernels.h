// Kernels: what a memory space can do. Algorithms are written once against this interface and transport.h.
//
// Rules for every back end:
//  - A call only enqueues on the stream; pointers are to the back end's memory and stay valid until the step has ended.
//  - Counts, thresholds and windows live in that memory (core/control.h). No call returns one to the host.
//  - The same input gives the same bits on every back end and instruction set: fused multiply-adds are explicit, sums
//    have a fixed order, no libm.
//  - A Status of an enqueueing call tells what the host can know at once. Host kernels finish before they return and
//    report everything there; a device back end records findings in the control block instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/control.h"
#include "core/frame.h"
#include "core/limits.h"
#include "core/list.h"
#include "core/numeric.h"
#include "core/rule.h"
#include "core/status.h"
#include "core/wait.h"

namespace sparsecoll {

// Memory that kernels need besides their arguments. Its owner runs one thing at a time.
class Workspace {
 public:
  virtual ~Workspace() = default;
};

// The order in which work runs, and what it may use.
struct Stream {
  void* handle = nullptr;
  Workspace* workspace = nullptr;  // of whoever enqueues
};

// A point in a stream's work that other streams can wait for.
class Marker {
 public:
  virtual ~Marker() = default;
};

// Words that streams raise, lower and wait for, also while a graph they were captured in is replayed. All are down at
// first. They lie where the kernels of all ranks reach them.
class Flags {
 public:
  virtual ~Flags() = default;
  virtual uint32_t* at(uint64_t flag) const = 0;
  // Nobody waits for them from now on, whatever streams and graphs are still to do, and no step of this rank takes
  // effect any more: why is found, of peer. Any thread.
  virtual void endWaits(sparsecollResult_t why, int peer) = 0;
};

// The largest things a workspace is to serve.
struct WorkspaceNeed {
  uint64_t n = 0;
  uint64_t windows = 0;
  uint64_t lists = 0;
  uint64_t entries = 0;  // of all lists of one call together
};

class MemoryBudget;
class MemorySource;

// Memory of a back end; gives itself back.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, uint64_t bytes, std::shared_ptr<MemorySource> source, std::shared_ptr<MemoryBudget> budget)
      : data_(data), bytes_(bytes), source_(std::move(source)), budget_(std::move(budget)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(source_, other.source_);
    std::swap(budget_, other.budget_);
  }
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::shared_ptr<MemorySource> source_;
  std::shared_ptr<MemoryBudget> budget_;
};

// Those entries of a list whose index is in [low, high).
struct ListPart {
  ListView list;
  uint64_t low = 0;
  uint64_t high = ~uint64_t{0};
  const uint64_t* lowAt = nullptr;  // not nullptr: where the two stand, in the kernels' memory
  const uint64_t* highAt = nullptr;
};

// A factor that the host knows, or that stands in the kernels' memory: there replays of a captured step read it anew.
struct Scale {
  SC_HD constexpr Scale(double known = 1) : value(known) {}
  static Scale standingAt(const double* place) {
    Scale scale;
    scale.at = place;
    return scale;
  }
  SC_HD double now() const { return at != nullptr ? *at : value; }  // where kernels run
  bool isOne() const { return at == nullptr && value == 1; }        // for sure

  double value;
  const double* at = nullptr;
};

// What else may happen between the gradient and acc. Where one of these is asked for, the pass needs in and out, and
//   velocityOut = momentum * velocityIn + scale * gradient       a rounded product, then one fused multiply-add
//   step        = velocityOut; Nesterov: momentum * velocityOut + scale * gradient, in the same way
//   acc         = decay * in + step                              a rounded product, then a sum
// Without momentum step is scale * gradient, added with one fused multiply-add.
struct Momentum {
  const void* velocityIn = nullptr;  // accumulate type; nullptr: no momentum
  void* velocityOut = nullptr;       // may equal velocityIn
  double factor = 0;
  bool nesterov = false;
  double decay = 1;

  bool none() const { return velocityIn == nullptr && decay == 1; }
};

// What stays true of a selection's windows whatever rules do to them. Nothing is enqueued that none of them needs.
struct WindowFacts {
  uint64_t shortest = 0;
  uint64_t longest = ~uint64_t{0};
  bool everywhere = false;  // together they are the whole vector
  bool trials = true;       // their `least` may be above their `key`
};

// acc = in + scale * gradient over all n, written to out; what reaches a window's key becomes a candidate of it.
struct PassArgs {
  const void* gradient = nullptr;
  sparsecollDataType_t gradientType = sparsecollFloat32;
  const void* in = nullptr;  // accumulate type; nullptr: zeros
  // Not nullptr: those of in (see Kernels::defersZeros), read and cleared. Only without momentum.
  uint64_t* deferredZeros = nullptr;
  void* out = nullptr;  // accumulate type; may equal in or the gradient; nullptr: acc is not kept (then gradient
                        // must be the accumulate type and scale 1; no norms)
  Scale scale;
  uint64_t n = 0;
  Control* control = nullptr;
  uint32_t* candidateIndices = nullptr;
  void* candidateValues = nullptr;
  Momentum momentum = {};
  double* norms = nullptr;  // not nullptr: no candidates, but the windows' norms of acc, which go here
  WindowFacts facts = {};
};

// The candidates of windows cut to their limits (exactly, or at most): largest magnitudes, ties to the lowest index,
// written in index order. Where the candidates do not decide it, acc is read again.
struct CutArgs {
  void* acc = nullptr;  // changed for a moment where arrivals make it necessary, and put back
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  Control* control = nullptr;
  uint32_t* candidateIndices = nullptr;  // also scratch
  void* candidateValues = nullptr;
  List target;
  std::span<const uint32_t> windows;   // which of them, in ascending order; empty: all
  std::span<const ListView> arrivals;  // sums that peers sent: selected from is acc plus these, added up in this order
  List scratch;                        // twice the room for the entries of all arrivals
  List dropped;                        // the sums of arrivals that were not selected; the same room
  WindowFacts facts = {};
};

// Fills a frame's header (and tail); the entries and their count lie in it already.
struct SealArgs {
  std::byte* frame = nullptr;
  FrameLayout layout;
  FrameExpectation identity;
  const Control* control = nullptr;  // nullptr: carries no threshold and no non-finite indices
  bool withPayload = false;
  bool relayed = false;  // it reaches some peers only: of NaN and Inf it tells whether some rank met them, not where
};

// Checks frames before anything in them is used.
struct OpenArgs {
  std::span<const std::byte* const> frames;  // one a rank, this rank's own included; relayed: any
  std::span<const uint64_t> bytes;
  FrameLayout layout;
  FrameExpectation expected;
  Control* control = nullptr;               // collects the ranks' facts and non-finite indices; nullptr: only checks
  std::span<const uint32_t* const> counts;  // not empty: what each header must say
  bool withPayload = false;
  bool relayed = false;
  bool sameAnnounced = false;  // relayed: all tell the same, or it is another step that they mean
  int peer = -1;               // who sent the one frame that there is; -1: frames stand by rank
};

enum class Combine {
  kAdd,     // lists overlap and their values add up, in rank order
  kAssign,  // where lists overlap they carry the same sum
};

// How a sum in accumulate type becomes an element of out: x / divisor * scale.
struct Finish {
  double divisor = 1;
  Scale scale;
};

struct CombineArgs {
  std::span<const ListView> lists;
  Combine mode = Combine::kAdd;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  void* out = nullptr;
  sparsecollDataType_t outType = sparsecollFloat32;
  uint64_t n = 0;
  Finish finish;
  bool overContributors = false;     // kAdd: sums are divided by the number of lists that have the entry, then finished
  bool accumulate = false;           // out += instead of out =
  uint64_t* touchedLines = nullptr;  // not nullptr: out is preserved between steps; bit i: 16 elements from 16 i on
  const Control* control = nullptr;  // poison: these indices get a quiet NaN
};

struct MergeArgs {
  std::span<const ListView> lists;
  Combine mode = Combine::kAdd;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  uint64_t n = 0;
  Finish finish;
  bool overContributors = false;  // kAdd: sums are divided by the number of lists that have the entry, then finished
  uint32_t indexBytes = 4;        // of the lists and of outIndices
  void* outIndices = nullptr;
  void* outValues = nullptr;
  sparsecollDataType_t outType = sparsecollFloat32;
  uint64_t* outCount = nullptr;
  uint64_t outCapacity = 0;
  const Control* control = nullptr;
};

// The lists' sum cut to the largest magnitudes, in index order; ties to the lowest index.
struct MergeCutArgs {
  std::span<const ListView> lists;  // summed in this order
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  uint64_t n = 0;
  const uint64_t* limit = nullptr;  // keep at most so many,
  const uint64_t* key = nullptr;    // and only |sum| bits of at least this; nullptr: any
  List scratch;                     // room for the entries of all lists; its count: those of the sum
  List target;
  List dropped;  // the rest of the sum, scaled; indices nullptr: not wanted
  double droppedScale = 1;
  uint64_t* keptKey = nullptr;  // the least |sum| bits that were kept; unchanged if nothing was
};

// The lists' sum as one frame: entries, or all values of [first, first + length) as a run from denseFrom entries on,
// and where one of the lists is a run already.
struct StreamArgs {
  std::span<const ListView> lists;  // summed in this order; their indices lie in the range
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  uint64_t first = 0;
  uint64_t length = 0;
  uint64_t denseFrom = 0;  // compared with the lists' counts, an upper bound of the sum's entries
  std::byte* frame = nullptr;
  FrameLayout layout;
};

// Streams of neighbouring ranges as one: a list, or where *dense is not 0 the values of all ranges one behind the
// other.
struct JoinArgs {
  std::span<const ListPart> parts;  // in order; [low, high) is all that a part stands for
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  const uint32_t* dense = nullptr;
  std::byte* frame = nullptr;
  FrameLayout layout;
};

// What a step took from this rank's acc and what it brings back, once it is known which indices are in the sum.
struct SettleArgs {
  void* acc = nullptr;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  uint64_t n = 0;
  ListView sum;                       // only what is in here changes anything
  std::span<const ListView> sent;     // acc = 0
  std::span<const ListView> dropped;  // then acc += value,
  uint64_t* lost = nullptr;           // or, where this is given, no more than to count them
  const Control* decision = nullptr;  // not nullptr: nothing changes unless the step takes effect
  uint64_t* deferredZeros = nullptr;  // not nullptr: of acc, instead of writing 0 (see Kernels::defersZeros)
};

// The end of a step: whether it takes effect. Where kernels found something wrong it does not.
struct ConcludeArgs {
  Control* control = nullptr;
  FrameExpectation identity;     // of the step
  bool nonFiniteUndoes = false;  // nor where some rank met NaN or Inf
  bool nonFiniteFails =
      false;  // which is NonFinite, too: returned, or found. It does not keep later steps from working
};

struct DenseSumArgs {
  std::span<const void* const> in;  // one a rank, summed in this order
  std::span<void* const> out;       // every one gets the sum; each may equal one of in
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t count = 0;
  Scale inputScale;
  Finish finish;
  bool accumulate = false;
  uint32_t* nonFinite = nullptr;  // set to 1 if some finished sum is NaN or Inf
  bool wide = false;              // out is of the accumulate type; not with accumulate
};

inline constexpr uint64_t kTile = 8192;  // statistics are formed in tiles of this many elements

// A sample has about this many elements: one run of kSampleRun out of every so many, another one in every step. A run
// is two cache lines of floats: finding its page costs more than they do. Shorter windows are counted whole.
inline constexpr uint64_t kSampleElements = 1u << 18;
inline constexpr uint64_t kSampleRun = 32;

struct TrialArgs {
  const Control* control = nullptr;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  const void* candidateValues = nullptr;
  const uint64_t* trials = nullptr;  // kTrials keys, rising
  // How many candidates of the first window reach each of kTrials keys, and behind that 0. If its list was too short
  // they are all 0, and behind them is 1: on a device it is chance which candidates such a list has.
  double* counts = nullptr;
};

// Entries of lists by blocks of `length` elements; the last one also has the rest of n.
struct BlockCountArgs {
  std::span<const ListView> lists;
  uint64_t n = 0;
  uint64_t length = 0;
  uint32_t blocks = 0;
  uint32_t* counts = nullptr;  // of the blocks
};

class StepClock;
class VectorKernels;
struct ListRule;
struct ListRuleArgs;

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual sparsecollBackend_t backend() const = 0;
  virtual const char* name() const = 0;

  virtual Result<Buffer> allocate(uint64_t bytes, const std::shared_ptr<MemoryBudget>& budget) = 0;  // zeroed
  virtual Result<std::unique_ptr<Workspace>> makeWorkspace(const WorkspaceNeed& need,
                                                           const std::shared_ptr<MemoryBudget>& budget) = 0;
  // A stream of the back end's own: for what is set up before the first step.
  virtual Stream stream() const { return {}; }
  // Whatever was enqueued on the stream so far is done before memory goes back. Said before others are told that it was
  // enqueued.
  virtual void noteUse(Stream) {}
  // The same of what others than this back end have enqueued there.
  virtual void noteOthersUse(Stream) {}
  // Between the two a call may enqueue on the stream: memory that goes back meanwhile waits for that, too.
  virtual void beginUse(Stream) {}
  virtual void endUse(Stream stream) { noteUse(stream); }
  // Whether all that was enqueued is over. Does not wait.
  virtual bool usesOver() { return true; }
  // Memory that did not go back, because what uses it did not end in time.
  virtual uint64_t abandonedBytes() const { return 0; }
  virtual Result<std::unique_ptr<Marker>> makeMarker() = 0;
  virtual void mark(Marker& marker, Stream stream) = 0;  // here
  // What comes now runs after what was enqueued before the marker's latest mark.
  virtual void await(const Marker& marker, Stream stream) = 0;
  // Whether what is enqueued on the stream is captured in a graph instead of being run. Does not disturb the capture.
  virtual bool captures(Stream) const { return false; }
  // Whether streams of so many ranks on this one's device may wait for each other; 0: of those it was made together
  // with. Errors: Unsupported.
  virtual Status fitsWaits(int) const { return {}; }
  // nullptr where streams cannot wait for words in memory.
  virtual Result<std::unique_ptr<Flags>> makeFlags(uint64_t) { return std::unique_ptr<Flags>(); }
  // Raises flags, which may be other ranks', behind all work before it on the stream. The first argument are flags of
  // who raises: once they let everything pass, it raises none any more. Every one of the counts rises by one.
  virtual void raise(const Flags&, std::span<uint32_t* const>, std::span<uint64_t* const>, Stream) {}
  // What comes now runs once all of them, flags of its own, are up.
  virtual void awaitRaised(const Flags&, std::span<uint32_t* const>, Stream) {}
  virtual void lower(const Flags&, std::span<uint32_t* const>, Stream) {}
  // The control block as the host may read it now; nullptr where kernels may still be at work on it.
  virtual const Control* look(const Control* control) const = 0;
  // The first thing that kernels found wrong since the last call, once all of the stream's work is done. Errors
  // besides: Timeout, CudaError.
  virtual Status findings(Stream stream, const Deadline& deadline) = 0;
  // Waits until all that is on the stream is done, or all that was there when the marker was put. Any thread.
  // Errors: Timeout, CudaError.
  virtual Status reach(Stream stream, const Deadline& deadline) = 0;
  virtual Status reach(const Marker& marker, const Deadline& deadline) = 0;
  // Why something could not be enqueued since the last look, if anything.
  virtual Status enqueued() { return {}; }
  virtual void fillZero(void* data, uint64_t bytes, Stream stream) = 0;
  // Both in memory that kernels reach: by a kernel, for streams share a device's copy engines, and one that waits for a
  // peer may hold up the engine that the peer needs.
  virtual void copy(void* to, const void* from, uint64_t bytes, Stream stream) = 0;
  // One of the two may be any memory of the host. What is read there has been read when this returns. In a step only
  // for a few bytes that go to the kernels' memory, or before the first wait.
  virtual void transfer(void* to, const void* from, uint64_t bytes, Stream stream) { copy(to, from, bytes, stream); }

  // Counts a sample of the acc that pass is going to form, over its windows, into control->histogram.
  virtual void sample(const PassArgs& args, Stream stream) = 0;
  virtual void pass(const PassArgs& args, Stream stream) = 0;
  virtual void countTrials(const TrialArgs& args, Stream stream) = 0;
  // Adds to control->selected and candidates, which a pass clears.
  virtual void cut(const CutArgs& args, Stream stream) = 0;
  virtual void apply(const Rule& rule, Control* control, Stream stream) = 0;
  // items: what the work on a device is shared by.
  virtual Status apply(const ListRule& rule, const ListRuleArgs& args, uint64_t items, Stream stream) = 0;

  virtual void seal(const SealArgs& args, Stream stream) = 0;
  virtual Status open(const OpenArgs& args, Stream stream) = 0;

  // For every list l: to[l].values[i] = acc[lists[l].indices[i]]; *to[l].count = the list's
  virtual Status gather(const void* acc, sparsecollDataType_t type, uint64_t n, std::span<const ListView> lists,
                        std::span<const List> to, Stream stream) = 0;
  // to.values[i] = sum over ranks of from[rank][i] in rank order, for i below *count; *to.count = *count
  virtual void sumValues(std::span<const void* const> from, sparsecollDataType_t type, const uint32_t* count,
                         const List& to, Stream stream) = 0;
  virtual Status combine(const CombineArgs& args, Stream stream) = 0;
  virtual Status merge(const MergeArgs& args, Stream stream) = 0;
  virtual Status mergeCut(const MergeCutArgs& args, Stream stream) = 0;
  virtual Status stream(const StreamArgs& args, Stream stream) = 0;
  virtual Status join(const JoinArgs& args, Stream stream) = 0;
  // The parts one behind the other, packed.
  virtual Status concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to,
                             Stream stream) = 0;
  virtual void settle(const SettleArgs& args, Stream stream) = 0;
  // Indices strictly increase and are below n; parts are equal.
  virtual Status checkOrder(const ListView& list, uint64_t n, Stream stream) = 0;
  virtual Status countBlocks(const BlockCountArgs& args, Stream stream) = 0;
  // control's counts of a sum that has owners: facts[o].count = its entries in [bounds[o], bounds[o + 1]). No bounds:
  // it has none.
  virtual void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control* control, Stream stream) = 0;
  virtual void denseSum(const DenseSumArgs& args, Stream stream) = 0;

  // Decides control->takesEffect.
  virtual Status conclude(const ConcludeArgs& args, Stream stream) = 0;
  // x = before, unless the step takes effect
  virtual void restore(void* x, const void* before, sparsecollDataType_t type, uint64_t n, const Control* decision,
                       Stream stream) = 0;
  // acc[index] = 0 for every index of the list. decision: as in SettleArgs
  virtual void zeroAt(void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const Control* decision,
                      Stream stream) = 0;
  // Whether a bit an element may stand for the zeros that a step leaves behind in acc: bit i of word i / 64 says that
  // acc[i] counts as 0, whatever it holds. The next pass reads all of acc anyway, and writing a zero now would fetch a
  // line of memory for it.
  virtual bool defersZeros() const { return false; }
  // Readers look ahead.
  static constexpr uint64_t deferredZerosBytes(uint64_t n) { return (n / 64 + 2) * sizeof(uint64_t); }
  // zeroAt as bits.
  virtual void deferZeros(uint64_t*, uint64_t, const ListView&, const Control*, Stream) {}
  // acc gets its zeros, and no bit is set any more.
  virtual void writeDeferredZeros(void*, sparsecollDataType_t, uint64_t, uint64_t*, Stream) {}
  // acc[i] = 0 where it is NaN or Inf, if the control block says that some rank met one, or something was found wrong
  virtual void clearNonFinite(void* acc, sparsecollDataType_t type, uint64_t n, const Control* control,
                              Stream stream) = 0;
  // acc += factor / divisor * x, where that is finite. decision: as in SettleArgs
  virtual void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
                         double factor, Scale divisor, const Control* decision, Stream stream) = 0;
  // x += acc, acc = what rounding left over
  virtual void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n,
                     Stream stream) = 0;

  // *squaresAt = the sum of the squares of x
  virtual void squares(const void* x, sparsecollDataType_t type, uint64_t n, double* squaresAt, Stream stream) = 0;
  // *scaleAt = scale, made smaller where scale * x would have a norm above mostNorm. squares: of the parts of x, which
  // are added in this order.
  virtual void clip(std::span<const double> squares, Scale scale, double mostNorm, double* scaleAt, Stream stream) = 0;

  // See core/step_clock.h.
  virtual Result<std::unique_ptr<StepClock>> makeClock() = 0;
  // Sparse vectors in the kernels' memory (core/vector_kernels.h); nullptr where the host reads that memory itself.
  virtual VectorKernels* vectors() { return nullptr; }
};

}  // namespace sparsecoll
