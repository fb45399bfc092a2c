// Frames, from the check of their header to the kernels that walk their indices.
#include "core/frame.h"

#include <cmath>

#include "collectives/rounds.h"
#include "collectives/rules.h"
#include "core/list_span.h"
#include "host/host_kernels.h"
#include "tests/fuzz/target.h"

namespace sparsecoll::fuzz {

namespace {

constexpr FrameExpectation kIdentity{41, 0x0123456789abcdefull};
constexpr uint64_t kLength = 100;  // of the vector that the indices mean
constexpr uint64_t kChunk = 16, kPerChunk = 3;

enum class Kind { kPairs, kDoubles, kIndices, kValues, kChunks, kRuns, kHeader };
struct Form {
  Kind kind;
  FrameLayout layout;
};
constexpr Form kForms[] = {
    {Kind::kPairs, {40, 4, 4}},  {Kind::kDoubles, {40, 4, 8}}, {Kind::kIndices, {40, 4, 0}},
    {Kind::kValues, {40, 0, 4}}, {Kind::kChunks, {20, 2, 4}},  {Kind::kRuns, {8, 4, 4, 60}},
    {Kind::kHeader, {0, 0, 0}},
};

Kernels& kernels() {
  static const std::unique_ptr<Kernels> made = host::makeHostKernels();
  return *made;
}

// A rank's control block for what frames tell.
struct Step {
  Step() {
    control.n = kLength;
    control.ranks = 1;
    control.facts = &facts;
    control.poison = poison;
  }
  Control control{};
  RankFacts facts{};
  uint32_t poison[kMaxNonFiniteIndices] = {};
};

// What a list adds to nothing, or nothing if it is not one.
template <class A>
bool isSound(const ListSpan<A>& list) {
  for (uint32_t i = 0; i < list.count; ++i)
    if (list.indices[i] >= kLength || (i > 0 && list.indices[i] <= list.indices[i - 1])) return false;
  return true;
}

template <class A>
bool sameBits(A a, A b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

template <class A>
constexpr sparsecollDataType_t kTypeOf = sizeof(A) == 8 ? sparsecollFloat64 : sparsecollFloat32;

// A list that came in goes through every kernel that reads one. All of them find the same faults.
template <class A>
void useList(const std::byte* frame, Step& step) {
  const ListView view = streamOf(frame);
  const ListSpan<A> list = spanOf<A>(view);
  const bool sound = isSound(list);
  A out[kLength];
  CombineArgs sum;
  sum.lists = {&view, 1};
  sum.accumulateType = sum.outType = kTypeOf<A>;
  sum.out = out;
  sum.n = kLength;
  sum.control = &step.control;
  FUZZ_PROMISE(kernels().combine(sum, {}).ok() == sound);
  FUZZ_PROMISE(kernels().checkOrder(view, kLength, {}).ok() == sound);
  if (sound) {
    const bool poisoned = step.control.poisonCount != 0;
    for (uint32_t i = 0; i < list.count && !poisoned; ++i)
      FUZZ_PROMISE(sameBits(out[list.indices[i]], A{0} + list.values[i]));
  }

  uint32_t indices[kLength];
  A values[kLength];
  uint64_t wide = 0;
  MergeArgs merge;
  merge.lists = sum.lists;
  merge.accumulateType = merge.outType = sum.outType;
  merge.n = kLength;
  merge.outIndices = indices;
  merge.outValues = values;
  merge.outCount = &wide;
  merge.outCapacity = kLength;
  FUZZ_PROMISE(kernels().merge(merge, {}).ok() == sound);
  FUZZ_PROMISE(!sound || wide == list.count);
  FUZZ_PROMISE(!sound || std::equal(indices, indices + wide, list.indices));

  uint32_t keptIndices[kLength], scratchIndices[kLength], count = 0, scratchCount = 0;
  A keptValues[kLength], scratchValues[kLength];
  const uint64_t limit = 5;
  MergeCutArgs cut;
  cut.lists = sum.lists;
  cut.accumulateType = sum.outType;
  cut.n = kLength;
  cut.limit = &limit;
  cut.scratch = {scratchIndices, scratchValues, &scratchCount, kLength};
  cut.target = {keptIndices, keptValues, &count, kLength};
  FUZZ_PROMISE(kernels().mergeCut(cut, {}).ok() == sound);
  FUZZ_PROMISE(!sound || count == std::min<uint64_t>(limit, list.count));

  const A acc[kLength] = {};
  const List gathered{indices, values, &count, kLength};
  const Status gathering = kernels().gather(acc, sum.outType, kLength, sum.lists, {&gathered, 1}, {});
  FUZZ_PROMISE(gathering.ok() || !sound);

  // Owners' borders, as region schedules know them.
  Window halves[2] = {};
  halves[0].end = halves[1].begin = kLength / 2;
  halves[1].end = kLength;
  Control owners{};
  owners.windows = halves;
  owners.windowCount = 2;
  const uint64_t most[] = {kLength, kLength};
  ListRuleArgs counts;
  counts.control = &owners;
  counts.from = view;
  counts.numbers = most;
  FUZZ_PROMISE(kernels().apply(kSparDLCheckCounts, counts, 2, {}).ok() || !sound);
  const ListPart parts[] = {{view, 0, kLength / 2}, {view, kLength / 2, kLength}};
  FUZZ_PROMISE(kernels().concatenate(parts, sum.outType, gathered, {}).ok() || !sound);
  FUZZ_PROMISE(!sound || count == list.count);
}

void useChunks(const std::byte* frame, const FrameLayout& layout, Step& step) {
  uint32_t indices[kLength], count = 0;
  float values[kLength];
  Window first{};
  first.end = kChunk;
  first.limit = kPerChunk;
  Control chunks{};
  chunks.windows = &first;
  ListRuleArgs args;
  args.control = &chunks;
  args.from = listOf(frame);
  args.to = {indices, values, &count, layout.capacity};
  if (!kernels().apply(kChunkUnpack, args, layout.capacity, {}).ok()) return;
  ListView view;
  view.indices = indices;
  view.values = values;
  view.count = &count;
  const bool sound = isSound(spanOf<float>(view));
  float out[kLength];
  CombineArgs sum;
  sum.lists = {&view, 1};
  sum.out = out;
  sum.n = kLength;
  sum.control = &step.control;
  FUZZ_PROMISE(kernels().combine(sum, {}).ok() == sound);
}

void useRun(const std::byte* frame, const FrameLayout& layout, Step& step) {
  ListView view = streamOf(frame);
  view.first = kLength - layout.denseCount;
  float out[kLength];
  CombineArgs sum;
  sum.lists = {&view, 1};
  sum.out = out;
  sum.n = kLength;
  sum.control = &step.control;
  const FrameHeader header = readHeader(frame);
  if ((header.flags & kFrameDense) == 0) return useList<float>(frame, step);
  FUZZ_PROMISE(kernels().combine(sum, {}).ok());
  const auto* const run = reinterpret_cast<const float*>(frame + kFrameHeaderBytes);
  for (uint64_t i = 0; i < layout.denseCount; ++i) FUZZ_PROMISE(sameBits(out[view.first + i], 0.0F + run[i]));
}

// The frame of these bytes, if somebody sent it.
void read(const Form& form, std::span<const std::byte> bytes, bool withPayload) {
  const Exact memory(bytes);
  const std::byte* const frame = memory.data();
  const uint64_t size = bytes.size();
  Step step;
  OpenArgs open;
  open.frames = {&frame, 1};
  open.bytes = {&size, 1};
  open.layout = form.layout;
  open.expected = kIdentity;
  open.control = &step.control;
  open.withPayload = withPayload;
  const Status opened = kernels().open(open, {});
  const bool sound = checkFrame(frame, size, form.layout, kIdentity, withPayload).ok();
  FUZZ_PROMISE(sound || !opened.ok());
  if (!opened.ok()) return;
  const FrameHeader header = readHeader(frame);
  FUZZ_PROMISE(form.layout.usedBytes(header) <= size);
  FUZZ_PROMISE(header.sequence == kIdentity.sequence && header.plan == kIdentity.plan);
  switch (form.kind) {
    case Kind::kPairs:
      return useList<float>(frame, step);
    case Kind::kDoubles:
      return useList<double>(frame, step);
    case Kind::kIndices: {
      const bool strict = isSound(spanOf<float>(streamOf(frame)));
      FUZZ_PROMISE(kernels().checkOrder(streamOf(frame), kLength, {}).ok() == strict);
      return;
    }
    case Kind::kValues: {
      float sums[40];
      uint32_t count = 0;
      const void* const values = frame + form.layout.valuesOffset(0);
      kernels().sumValues({&values, 1}, sparsecollFloat32, &header.count, {nullptr, sums, &count, 40}, {});
      FUZZ_PROMISE(count == header.count);
      return;
    }
    case Kind::kChunks:
      return useChunks(frame, form.layout, step);
    case Kind::kRuns:
      return useRun(frame, form.layout, step);
    case Kind::kHeader:
      return;
  }
}

// A frame with entries that the input draws.
Bytes written(const FrameLayout& layout, Taker& taker, bool withPayload) {
  Exact memory(Bytes(layout.capacityBytes()));
  std::byte* const frame = memory.data();
  uint32_t count = 0, index = 0;
  std::vector<uint32_t> indices;
  for (; count < layout.capacity && !taker.rest().empty(); ++count) {
    index += taker.take<uint8_t>() % 8 + (count > 0 ? 1 : 0);
    if (index >= kLength) break;
    indices.push_back(index);
  }
  count = static_cast<uint32_t>(indices.size());
  std::memcpy(frame + offsetof(FrameHeader, count), &count, sizeof count);
  std::copy_n(indices.begin(), count, reinterpret_cast<uint32_t*>(frame + kFrameHeaderBytes));
  for (uint64_t at = layout.valuesOffset(count); at < layout.valuesOffset(count) + layout.valueBytes * count; ++at)
    frame[at] = taker.take<std::byte>();
  Step step;
  step.control.announced = 0.5;
  step.control.nonFinite.count = taker.take<uint8_t>() % 4;
  for (uint32_t& poisoned : step.control.nonFinite.indices)
    poisoned = static_cast<uint32_t>(taker.take<uint8_t>() % kLength);
  kernels().seal({frame, layout, kIdentity, &step.control, withPayload}, {});
  return Bytes(frame, frame + layout.usedBytes(readHeader(frame)));
}

}  // namespace

// Input: the form (bit 7: payload checksums, bit 6: something to be written and read back), the frame.
std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const Bytes drawn = {std::byte{3}, std::byte{1}, std::byte{7}, std::byte{0}, std::byte{2}, std::byte{66}};
  for (size_t form = 0; form < std::size(kForms); ++form)
    for (const unsigned payload : {0u, 128u}) {
      const FrameLayout& layout = kForms[form].layout;
      Bytes frame(layout.usedBytes({0, 0, static_cast<uint32_t>(layout.capacity / 4), 0, 0, 0, 0}));
      if (kForms[form].kind == Kind::kPairs) {
        Taker taker(drawn);
        frame = written(layout, taker, payload != 0);
      } else if (kForms[form].kind != Kind::kHeader) {
        const uint32_t count = static_cast<uint32_t>(layout.capacity / 4);
        std::memcpy(frame.data() + offsetof(FrameHeader, count), &count, sizeof count);
        for (uint32_t i = 0; i < count && layout.indexBytes == 4; ++i)
          std::memcpy(frame.data() + kFrameHeaderBytes + sizeof i * i, &i, sizeof i);
      }
      Bytes seed = {static_cast<std::byte>(form | payload)};
      seed.insert(seed.end(), frame.begin(), frame.end());
      repair(seed);
      all.push_back(std::move(seed));
    }
  Bytes run = {std::byte{5}};
  run.resize(1 + kFrameHeaderBytes + 4 * kForms[5].layout.denseCount);
  const uint32_t count = static_cast<uint32_t>(kForms[5].layout.denseCount);
  const uint16_t flags = kFrameDense;
  std::memcpy(run.data() + 1 + offsetof(FrameHeader, count), &count, sizeof count);
  std::memcpy(run.data() + 1 + offsetof(FrameHeader, flags), &flags, sizeof flags);
  repair(run);
  all.push_back(run);
  Bytes draw = {std::byte{64}};
  draw.insert(draw.end(), drawn.begin(), drawn.end());
  all.push_back(draw);
  return all;
}

// The right identity and checksum, and as many bytes as the header says.
void repair(Bytes& input) {
  if (input.size() < 1 + kFrameHeaderBytes) return;
  const auto which = std::to_integer<unsigned>(input[0]);
  const FrameLayout& layout = kForms[which % 64 % std::size(kForms)].layout;
  FrameHeader header = readHeader(input.data() + 1);
  header.sequence = kIdentity.sequence;
  header.plan = kIdentity.plan;
  std::memcpy(input.data() + 1, &header, sizeof header);
  if (header.count <= std::max(layout.capacity, layout.denseCount) && header.nonFinite <= kMaxNonFiniteIndices)
    input.resize(1 + layout.usedBytes(header));
  Bytes frame(input.begin() + 1, input.end());
  header.checksum = frameChecksum(frame.data(), frame.size(), (which & 128) != 0);
  std::memcpy(input.data() + 1, &header, sizeof header);
}

void look(std::span<const std::byte> input) {
  Taker taker(input);
  const unsigned which = taker.take<uint8_t>();
  const Form& form = kForms[which % 64 % std::size(kForms)];
  const bool withPayload = (which & 128) != 0;
  if ((which & 64) == 0) return read(form, taker.rest(), withPayload);
  const Form& pairs = kForms[which % 2];
  const Bytes frame = written(pairs.layout, taker, withPayload);
  FUZZ_PROMISE(checkFrame(frame.data(), frame.size(), pairs.layout, kIdentity, withPayload).ok());
  read(pairs, frame, withPayload);
}

}  // namespace sparsecoll::fuzz
