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
#include "core/numeric.h"
#include "core/status.h"

namespace sparsecoll {

struct Stream {
  void* handle = nullptr;
};

class MemoryBudget;

// Memory of a back end; frees itself.
class Buffer {
 public:
  using Release = void (*)(void* data);
  Buffer() = default;
  Buffer(void* data, uint64_t bytes, Release release, std::shared_ptr<MemoryBudget> budget)
      : data_(data), bytes_(bytes), release_(release), budget_(std::move(budget)) {}
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
    std::swap(release_, other.release_);
    std::swap(budget_, other.budget_);
  }
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
  Release release_ = nullptr;
  std::shared_ptr<MemoryBudget> budget_;
};

// A sparse list being written.
struct List {
  enum class Values {
    kNone,    // indices only
    kApart,   // at `values`
    kPacked,  // behind the last index, from the next multiple of 16 bytes on: the way frames hold them
  };
  uint32_t* indices = nullptr;
  void* values = nullptr;
  uint32_t* count = nullptr;
  uint64_t capacity = 0;
  Values where = Values::kApart;
};

// A sparse list being read; strictly increasing indices, checked where they are used.
struct ListView {
  const void* indices = nullptr;  // uint32_t, or uint64_t where the call says so
  const void* values = nullptr;   // nullptr: packed behind the indices
  const uint32_t* count = nullptr;
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

// acc = in + scale * gradient over all n, written to out; what reaches a window's key becomes a candidate of it.
struct PassArgs {
  const void* gradient = nullptr;
  sparsecollDataType_t gradientType = sparsecollFloat32;
  const void* in = nullptr;  // accumulate type; nullptr: zeros
  void* out = nullptr;       // accumulate type; may equal in; nullptr: acc is not kept (then gradient must be the
                             // accumulate type and scale 1)
  double scale = 1;
  uint64_t n = 0;
  Control* control = nullptr;
  uint32_t* candidateIndices = nullptr;
  void* candidateValues = nullptr;
  Momentum momentum = {};
};

// The candidates of every window cut to its limit (exactly, or at most): largest magnitudes, ties to the lowest index,
// written in index order. Where the candidates do not decide it, acc is read again.
struct CutArgs {
  const void* acc = nullptr;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  Control* control = nullptr;
  uint32_t* candidateIndices = nullptr;  // also scratch
  void* candidateValues = nullptr;
  List target;
};

// Fills a frame's header (and tail); the entries and their count lie in it already.
struct SealArgs {
  std::byte* frame = nullptr;
  FrameLayout layout;
  FrameExpectation identity;
  const Control* control = nullptr;  // nullptr: carries no threshold and no non-finite indices
  bool withPayload = false;
};

// Checks the ranks' frames before anything in them is used.
struct OpenArgs {
  std::span<const std::byte* const> frames;  // one a rank, this rank's own included
  std::span<const uint64_t> bytes;
  FrameLayout layout;
  FrameExpectation expected;
  Control* control = nullptr;               // collects the ranks' facts and non-finite indices; nullptr: only checks
  std::span<const uint32_t* const> counts;  // not empty: what each header must say
  bool withPayload = false;
};

enum class Combine {
  kAdd,     // lists overlap and their values add up, in rank order
  kAssign,  // where lists overlap they carry the same sum
};

// How a sum in accumulate type becomes an element of out: x / divisor * scale.
struct Finish {
  double divisor = 1;
  double scale = 1;
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

struct DenseSumArgs {
  std::span<const void* const> in;  // one a rank, summed in this order
  std::span<void* const> out;       // every one gets the sum; each may equal one of in
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t count = 0;
  double inputScale = 1;
  Finish finish;
  bool accumulate = false;
  uint32_t* nonFinite = nullptr;  // set to 1 if some finished sum is NaN or Inf
};

inline constexpr uint64_t kTile = 8192;  // statistics are formed in tiles of this many elements

// A sample has about this many elements: one run of kSampleRun (a cache line of floats) out of every so many, another
// one in every step. Shorter windows are counted whole.
inline constexpr uint64_t kSampleElements = 1u << 18;
inline constexpr uint64_t kSampleRun = 16;

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual sparsecollBackend_t backend() const = 0;
  virtual const char* name() const = 0;

  virtual Result<Buffer> allocate(uint64_t bytes, const std::shared_ptr<MemoryBudget>& budget) = 0;  // zeroed
  virtual void fillZero(void* data, uint64_t bytes, Stream stream) = 0;
  virtual void copy(void* to, const void* from, uint64_t bytes, Stream stream) = 0;

  // Counts a sample of the acc that pass is going to form, over its windows, into control->histogram.
  virtual void sample(const PassArgs& args, Stream stream) = 0;
  virtual void pass(const PassArgs& args, Stream stream) = 0;
  virtual void cut(const CutArgs& args, Stream stream) = 0;
  virtual void apply(const Rule& rule, Control* control, Stream stream) = 0;

  virtual void seal(const SealArgs& args, Stream stream) = 0;
  virtual Status open(const OpenArgs& args, Stream stream) = 0;

  // to.values[i] = acc[list.indices[i]]; *to.count = the list's
  virtual Status gather(const void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, const List& to,
                        Stream stream) = 0;
  // to.values[i] = sum over ranks of from[rank][i] in rank order, for i below *count; *to.count = *count
  virtual void sumValues(std::span<const void* const> from, sparsecollDataType_t type, const uint32_t* count,
                         const List& to, Stream stream) = 0;
  virtual Status combine(const CombineArgs& args, Stream stream) = 0;
  virtual Status merge(const MergeArgs& args, Stream stream) = 0;
  virtual void denseSum(const DenseSumArgs& args, Stream stream) = 0;

  // acc[index] = 0 for every index of the list
  virtual void zeroAt(void* acc, sparsecollDataType_t type, uint64_t n, const ListView& list, Stream stream) = 0;
  // acc[i] = 0 where it is NaN or Inf, if the control block says that this rank met one
  virtual void clearNonFinite(void* acc, sparsecollDataType_t type, uint64_t n, const Control* control,
                              Stream stream) = 0;
  // acc += scale * finite entries of x
  virtual void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
                         double scale, Stream stream) = 0;
  // x += acc, acc = what rounding left over
  virtual void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n,
                     Stream stream) = 0;

  // counts[b] += entries with |x| bits >= floorKey in bin b = magnitude bits of float(x) >> 18
  virtual void histogram(const void* x, sparsecollDataType_t type, uint64_t n, uint64_t floorKey, uint64_t* counts,
                         Stream stream) = 0;
  // norms[s] = sum of squares over [bounds[s], bounds[s + 1]) in double: tiles of kTile, each a fixed 32-lane tree
  virtual void segmentSquares(const void* x, sparsecollDataType_t type, std::span<const uint64_t> bounds,
                              double* squares, Stream stream) = 0;
};

}  // namespace sparsecoll
