// Frames are sealed by a warp, and opened by one block with a warp a frame: both stand between two messages, so that
// what they cost is the launch.
#include "cuda/frames.h"

#include "cuda/checksum.h"
#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kMostOpenWarps = 16;

__device__ uint16_t flagsOf(const SealArgs& args, uint16_t found) {
  uint16_t flags = args.layout.denseCount != 0 ? found & kFrameDense : 0;
  if (args.control != nullptr && args.relayed && args.control->anyNonFinite != 0) flags |= kFrameNonFiniteHeard;
  return flags;
}

__global__ void __launch_bounds__(kWarp) sealFrame(SealArgs args, Finding* finding) {
  HeaderWords words;
#pragma unroll
  for (uint32_t q = 0; q < 2; ++q) words.quarters[q] = reinterpret_cast<const uint4*>(args.frame)[q];
  const uint32_t count = words.header.count;
  FrameHeader header{};
  header.sequence = args.identity.sequenceNow();
  header.plan = args.identity.plan;
  header.count = count;
  header.flags = flagsOf(args, words.header.flags);
  if (args.control != nullptr) header.threshold = packThreshold(args.control->announced, args.control->isDouble != 0);
  // A count past the room is sealed as it is: whoever opens the frame refuses it.
  const bool fits = count <= ((header.flags & kFrameDense) != 0 ? args.layout.denseCount : args.layout.capacity);
  if (!fits && laneIndex() == 0) report(finding, sparsecollCorrupted, -1, Found::kCount, count, args.layout.capacity);
  if (fits && args.control != nullptr && !args.relayed) {
    const NonFinite& seen = args.control->nonFinite;
    header.nonFinite = static_cast<uint16_t>(seen.count < kMaxNonFiniteIndices ? seen.count : kMaxNonFiniteIndices);
    if (header.nonFinite != 0) {
      header.flags = kFrameNonFinite;
      auto* const tail = reinterpret_cast<uint32_t*>(args.frame + args.layout.tailOffset(count));
      if (laneIndex() < kMaxNonFiniteIndices) tail[laneIndex()] = seen.indices[laneIndex()];
      __syncwarp();
    }
  }
  words.header = header;
  uint32_t checksum = headerChecksum(words);
  if (args.withPayload && fits)
    checksum =
        payloadChecksum(args.frame + kFrameHeaderBytes, args.layout.usedBytes(header) - kFrameHeaderBytes, checksum);
  words.words[kChecksumWord] = checksum;
  __syncwarp();
  if (laneIndex() == 0) {
#pragma unroll
    for (uint32_t q = 0; q < 2; ++q) reinterpret_cast<uint4*>(args.frame)[q] = words.quarters[q];
  }
}

// One frame to be opened.
struct Sealed {
  const std::byte* frame;
  uint64_t bytes;
  const uint32_t* count;  // nullptr: any
};

// What a warp found in it.
struct Opened {
  FrameHeader header;
  Found what;  // kNothing: the frame is sound
  sparsecollResult_t result;
  uint64_t value;
  uint64_t limit;
  uint32_t named;  // non-finite indices that can be used
  bool heeded;     // the header is sound, even where something behind it is not
};

struct OpenRule {
  FrameLayout layout;
  FrameExpectation expected;
  Control* control;
  Finding* finding;
  int32_t peer;
  uint32_t first;  // rank of the table's first frame
  bool withPayload;
  bool relayed;
  bool sameAnnounced;
};

__device__ void refuse(Opened& opened, sparsecollResult_t result, Found what, uint64_t value = 0, uint64_t limit = 0) {
  opened.result = result;
  opened.what = what;
  opened.value = value;
  opened.limit = limit;
}

__device__ void refuse(Opened& opened, FrameFault fault, const OpenRule& rule) {
  switch (fault) {
    case FrameFault::kNone:
      return;
    case FrameFault::kSequence:
      return refuse(opened, sparsecollMismatch, Found::kSequence, opened.header.sequence, rule.expected.sequenceNow());
    case FrameFault::kPlan:
      return refuse(opened, sparsecollMismatch, Found::kPlan);
    case FrameFault::kRun:
      return refuse(opened, sparsecollCorrupted, Found::kCount, opened.header.count, rule.layout.denseCount);
    case FrameFault::kCapacity:
    case FrameFault::kLength:
      return refuse(opened, sparsecollCorrupted, Found::kCount, opened.header.count, rule.layout.capacity);
    default:
      return refuse(opened, sparsecollCorrupted, Found::kFlags);
  }
}

// The indices of NaN and Inf that the frame names, up to the first that is none.
__device__ void checkNamed(Opened& opened, const Sealed& sealed, const OpenRule& rule) {
  const std::byte* const tail = sealed.frame + rule.layout.tailOffset(opened.header.count);
  const bool mine = laneIndex() < opened.header.nonFinite;
  const uint32_t index = mine ? reinterpret_cast<const uint32_t*>(tail)[laneIndex()] : 0;
  const uint32_t wrong = __ballot_sync(kAllLanes, mine && index >= rule.control->n);
  opened.named = opened.header.nonFinite;
  if (wrong == 0) return;
  const int lane = __ffs(static_cast<int>(wrong)) - 1;
  opened.named = static_cast<uint32_t>(lane);
  refuse(opened, sparsecollCorrupted, Found::kIndex, __shfl_sync(kAllLanes, index, lane), rule.control->n);
}

// Every lane of a warp calls it and has the result.
__device__ Opened look(const Sealed& sealed, const OpenRule& rule) {
  Opened opened{};
  if (sealed.bytes < kFrameHeaderBytes) {
    refuse(opened, FrameFault::kShort, rule);
    return opened;
  }
  HeaderWords words;
#pragma unroll
  for (uint32_t q = 0; q < 2; ++q) words.quarters[q] = reinterpret_cast<const uint4*>(sealed.frame)[q];
  opened.header = words.header;
  const FrameHeader& header = opened.header;
  uint32_t checksum = headerChecksum(words);
  FrameFault fault =
      faultOf(header, sealed.bytes, rule.layout, rule.expected, rule.withPayload || checksum == header.checksum);
  if (fault == FrameFault::kNone && rule.withPayload) {
    checksum =
        payloadChecksum(sealed.frame + kFrameHeaderBytes, rule.layout.usedBytes(header) - kFrameHeaderBytes, checksum);
    if (checksum != header.checksum) fault = FrameFault::kChecksum;
  }
  refuse(opened, fault, rule);
  if (fault != FrameFault::kNone) return opened;
  if (sealed.count != nullptr && header.count != *sealed.count) {
    refuse(opened, sparsecollCorrupted, Found::kCountsDiffer, header.count, *sealed.count);
    return opened;
  }
  opened.heeded = true;
  if (rule.control == nullptr) return opened;
  if (!rule.relayed) {
    if (header.nonFinite != 0) checkNamed(opened, sealed, rule);
  } else if (rule.sameAnnounced &&
             header.threshold != packThreshold(rule.control->announced, rule.control->isDouble != 0)) {
    refuse(opened, sparsecollMismatch, Found::kShares);
    opened.heeded = false;
  }
  return opened;
}

// What the frames' warps leave for the thread that adds them up, and it for them.
template <uint32_t kMost>
struct OpenRoom {
  Opened opened[kMost];
  uint64_t namedFrom[kMost];
};

// In rank order up to the first frame that is not sound, as if that had been met before the next was looked at.
template <uint32_t kMost>
__device__ void addUp(const OpenRule& rule, uint32_t frames, OpenRoom<kMost>& room) {
  Control* const control = rule.control;
  const bool facts = control != nullptr && !rule.relayed;
  if (facts && rule.first == 0) {
    control->delivered = control->poisonCount = 0;
    control->largest = control->anyNonFinite = 0;
  }
  uint64_t named = facts ? control->poisonCount : 0;
  uint64_t delivered = 0;
  uint32_t largest = facts ? control->largest : 0;
  bool nonFinite = false;
  uint32_t f = 0;
  for (bool goesOn = true; goesOn && f < frames; ++f) {
    const Opened& opened = room.opened[f];
    const FrameHeader& header = opened.header;
    goesOn = opened.what == Found::kNothing;
    room.namedFrom[f] = named;
    if (opened.heeded && facts) {
      control->facts[rule.first + f].count = header.count;
      control->facts[rule.first + f].threshold = unpackThreshold(header.threshold, control->isDouble != 0);
      delivered += header.count;
      largest = header.count > largest ? header.count : largest;
      nonFinite = nonFinite || header.nonFinite != 0;
      named += opened.named;
    } else if (opened.heeded && rule.relayed) {
      nonFinite = nonFinite || (header.flags & kFrameNonFiniteHeard) != 0;
    }
    if (goesOn) continue;
    const int32_t peer = rule.peer >= 0 ? rule.peer : static_cast<int32_t>(rule.first + f);
    report(rule.finding, opened.result, peer, opened.what, opened.value, opened.limit);
  }
  for (; f < frames; ++f) room.opened[f].named = 0;
  if (control == nullptr) return;
  if (nonFinite) control->anyNonFinite = 1;
  if (!facts) return;
  control->delivered += delivered;
  control->largest = largest;
  control->poisonCount = named;
}

template <uint32_t kMost>
__global__ void __launch_bounds__(kMostOpenWarps* kWarp) openFrames(Table<Sealed, kMost> frames, OpenRule rule) {
  __shared__ OpenRoom<kMost> room;
  if (rule.first != 0 && !soundForAll(rule.finding)) return;
  const uint32_t warps = blockDim.x / kWarp;
  for (uint32_t f = warpIndex(); f < frames.count; f += warps) {
    const Opened opened = look(frames.items[f], rule);
    if (laneIndex() == 0) room.opened[f] = opened;
  }
  __syncthreads();
  if (threadIdx.x == 0) addUp(rule, frames.count, room);
  __syncthreads();
  if (rule.control == nullptr || rule.relayed || rule.control->poisonCount == 0) return;
  for (uint32_t f = warpIndex(); f < frames.count; f += warps) {
    const Opened& opened = room.opened[f];
    if (laneIndex() >= opened.named) continue;
    const std::byte* const tail = frames.items[f].frame + rule.layout.tailOffset(opened.header.count);
    rule.control->poison[room.namedFrom[f] + laneIndex()] = reinterpret_cast<const uint32_t*>(tail)[laneIndex()];
  }
}

}  // namespace

void seal(const SealArgs& args, DeviceContext& device, Stream stream) {
  device.launch<sealFrame>("seal", args.layout.capacity, {1, kWarp, 0}, stream, args, device.finding());
}

void open(const OpenArgs& args, DeviceContext& device, Stream stream) {
  const OpenRule rule{args.layout, args.expected,    args.control, device.finding(),  args.peer,
                      0,           args.withPayload, args.relayed, args.sameAnnounced};
  for (size_t first = 0; first < args.frames.size(); first += kMostItems) {
    OpenRule part = rule;
    part.first = static_cast<uint32_t>(first);
    Sealed frames[kMostItems];
    const size_t count = std::min<size_t>(kMostItems, args.frames.size() - first);
    for (size_t f = 0; f < count; ++f)
      frames[f] = {args.frames[first + f], args.bytes[first + f],
                   args.counts.empty() ? nullptr : args.counts[first + f]};
    withTable(std::span<const Sealed>(frames, count), [&]<uint32_t kMost>(const Table<Sealed, kMost>& table) {
      const uint32_t warps = std::min<uint32_t>(table.count, kMostOpenWarps);
      device.launch<openFrames<kMost>>("open", args.frames.size(), {1, warps * kWarp, 0}, stream, table, part);
    });
  }
}

}  // namespace sparsecoll::cuda
