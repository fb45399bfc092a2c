// Lists whose indices travel as 16 bits inside their chunk. The selection's windows are the chunks, and all but the
// last have the same length and limit.
#include <algorithm>

#include "collectives/rules.h"
#include "core/list_span.h"

namespace sparsecoll {

namespace {

SC_BOTH uint64_t chunkOf(const Control& control) { return control.windows[0].end - control.windows[0].begin; }

template <class A>
SC_BOTH void packFrom(const ListRuleArgs& args, const Share& share) {
  const ListSpan<A> list = spanOf<A>(args.from);
  const uint64_t chunk = chunkOf(*args.control);
  if (list.count > args.to.capacity) {
    if (share.first == 0) share.refuse(Found::kCount, list.count, args.to.capacity);
    return;
  }
  const ListSlots<A, uint16_t> to = slotsOf<A, uint16_t>(args.to, list.count);
  for (uint64_t j = share.first; j < list.count; j += share.step)
    to.indices[j] = static_cast<uint16_t>(list.indices[j] % chunk);
  for (uint64_t j = share.first; j < list.count; j += share.step) to.values[j] = list.values[j];
  if (share.first == 0) *args.to.count = list.count;
}

template <class A>
SC_BOTH void unpackFrom(const ListRuleArgs& args, const Share& share) {
  const ListSpan<A, uint16_t> list = spanOf<A, uint16_t>(args.from);
  const uint64_t chunk = chunkOf(*args.control);
  const uint64_t perChunk = args.control->windows[0].limit;
  if (list.count > args.to.capacity || (list.count != 0 && perChunk == 0)) {
    if (share.first == 0) share.refuse(Found::kCount, list.count, args.to.capacity);
    return;
  }
  for (uint64_t j = share.first; j < list.count;) {
    const uint64_t number = j / perChunk;
    const uint64_t base = number * chunk;
    const uint64_t end = std::min<uint64_t>((number + 1) * perChunk, list.count);
    for (; j < end; j += share.step) args.to.indices[j] = static_cast<uint32_t>(base + list.indices[j]);
  }
  auto* const values = static_cast<A*>(args.to.values);
  for (uint64_t j = share.first; j < list.count; j += share.step) values[j] = list.values[j];
  if (share.first == 0) *args.to.count = list.count;
}

SC_BOTH void pack(const ListRuleArgs& args, const Share& share) {
  args.control->isDouble != 0 ? packFrom<double>(args, share) : packFrom<float>(args, share);
}

SC_BOTH void unpack(const ListRuleArgs& args, const Share& share) {
  args.control->isDouble != 0 ? unpackFrom<double>(args, share) : unpackFrom<float>(args, share);
}

}  // namespace

constinit const ListRule kChunkPack = listRuleOf<pack>("chunk-pack");
constinit const ListRule kChunkUnpack = listRuleOf<unpack>("chunk-unpack");

}  // namespace sparsecoll
