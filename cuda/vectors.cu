// Callers' sparse vectors. Entries are sorted by merging neighbouring runs, each entry looking up its place by itself:
// that keeps entries of one index in the order given, which decides the bits of their sum.
#include "cuda/vectors.h"

#include "core/list_span.h"
#include "cuda/block.h"
#include "cuda/scan.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kTileEntries = 2048;

template <class A>
struct Loaded {
  uint64_t* indices;
  A* values;
};

template <class A>
Loaded<A> sideOf(const LoadedVector& vector, uint32_t side) {
  return {vector.indices[side].as<uint64_t>(), vector.values[side].as<A>()};
}

template <class A>
Loaded<A> entriesOf(const LoadedVector& vector) {
  return sideOf<A>(vector, vector.side);
}

__device__ inline uint64_t indexAt(const void* indices, uint32_t indexBytes, uint64_t i) {
  return indexBytes == 8 ? static_cast<const uint64_t*>(indices)[i] : static_cast<const uint32_t*>(indices)[i];
}

__device__ inline void setIndex(void* indices, uint32_t indexBytes, uint64_t i, uint64_t index) {
  if (indexBytes == 8)
    static_cast<uint64_t*>(indices)[i] = index;
  else
    static_cast<uint32_t*>(indices)[i] = static_cast<uint32_t>(index);
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads)
    loadEntries(VectorView from, Loaded<A> to, uint64_t* outCount, Finding* finding) {
  for (uint64_t i = globalThread(); i < from.count; i += globalThreads()) {
    const uint64_t index = indexAt(from.indices, from.indexBytes, i);
    if (index >= from.length) report(finding, sparsecollInvalidArgument, -1, Found::kIndex, index, from.length);
    if (from.isSorted && i != 0 && index <= indexAt(from.indices, from.indexBytes, i - 1))
      report(finding, sparsecollInvalidArgument, -1, Found::kOrder, i);
    to.indices[i] = index;
    to.values[i] = static_cast<A>(Element<T>::load(static_cast<const T*>(from.values)[i]));
  }
  if (globalThread() == 0) *outCount = from.count;
}

// How many of the sorted run [begin, end) stand before an entry with this index: those below it, and the equal ones,
// too, where they were given earlier.
__device__ inline uint64_t placeIn(const uint64_t* run, uint64_t begin, uint64_t end, uint64_t index, bool afterEqual) {
  uint64_t low = begin;
  while (low < end) {
    const uint64_t middle = low + (end - low) / 2;
    if (run[middle] < index || (afterEqual && run[middle] == index))
      low = middle + 1;
    else
      end = middle;
  }
  return low - begin;
}

// Runs of `width` entries become runs of twice that.
template <class A>
__global__ void __launch_bounds__(kThreads) mergeRuns(Loaded<A> from, Loaded<A> to, uint64_t count, uint64_t width) {
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    const uint64_t pair = i / (2 * width) * (2 * width);
    const uint64_t middle = pair + width < count ? pair + width : count;
    const uint64_t end = pair + 2 * width < count ? pair + 2 * width : count;
    const bool isFirst = i < middle;
    const uint64_t index = from.indices[i];
    const uint64_t place = isFirst ? i + placeIn(from.indices, middle, end, index, false)
                                   : i - middle + pair + placeIn(from.indices, pair, middle, index, true);
    to.indices[place] = index;
    to.values[place] = from.values[i];
  }
}

__device__ inline bool isHead(const uint64_t* indices, uint64_t i) { return i == 0 || indices[i] != indices[i - 1]; }

// Different indices of each tile.
__global__ void __launch_bounds__(kThreads) countHeads(const uint64_t* indices, uint64_t count, uint64_t* tiles) {
  __shared__ BlockSums<uint32_t> room;
  for (uint64_t tile = blockIdx.x; tile * kTileEntries < count; tile += gridDim.x) {
    uint32_t heads = 0;
    for (uint64_t at = threadIdx.x; at < kTileEntries; at += blockDim.x) {
      const uint64_t i = tile * kTileEntries + at;
      heads += i < count && isHead(indices, i) ? 1 : 0;
    }
    const uint32_t total = blockSum(heads, room).total;
    if (threadIdx.x == 0) tiles[tile] = total;
  }
}

// One block: those before each tile, and all.
__global__ void __launch_bounds__(kThreads) scanHeads(uint64_t* tiles, uint64_t count, uint64_t* outCount) {
  __shared__ BlockSums<uint64_t> room;
  const uint64_t total = scanByBlock(tiles, count, room);
  if (threadIdx.x == 0) *outCount = total;
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    sumHeads(Loaded<A> from, uint64_t count, const uint64_t* tiles, Loaded<A> to) {
  __shared__ BlockSums<uint32_t> room;
  const uint64_t tileCount = (count + kTileEntries - 1) / kTileEntries;
  for (uint64_t tile = blockIdx.x; tile < tileCount; tile += gridDim.x) {
    uint64_t before = tiles[tile];
    for (uint64_t row = 0; row < kTileEntries; row += blockDim.x) {
      const uint64_t i = tile * kTileEntries + row + threadIdx.x;
      const bool head = i < count && isHead(from.indices, i);
      const BlockSum<uint32_t> heads = blockSum(head ? 1u : 0u, room);
      const uint64_t slot = before + heads.below;
      before += heads.total;
      if (!head) continue;
      A sum = from.values[i];
      for (uint64_t j = i + 1; j < count && from.indices[j] == from.indices[i]; ++j) sum += from.values[j];
      to.indices[slot] = from.indices[i];
      to.values[slot] = sum;
    }
  }
}

struct PackRule {
  const uint64_t* count;
  uint64_t low, high;
  bool all;
  uint32_t indexBytes;
};

template <class A>
__global__ void __launch_bounds__(kThreads) packEntries(Loaded<A> from, PackRule rule, std::byte* frame) {
  const uint64_t count = *rule.count;
  const uint64_t begin = rule.all ? 0 : placeIn(from.indices, 0, count, rule.low, false);
  const uint64_t end = rule.all ? count : placeIn(from.indices, 0, count, rule.high, false);
  std::byte* const indices = frame + kFrameHeaderBytes;
  auto* const values = reinterpret_cast<A*>(indices + alignUp((end - begin) * rule.indexBytes, 16));
  for (uint64_t i = begin + globalThread(); i < end; i += globalThreads()) {
    setIndex(indices, rule.indexBytes, i - begin, from.indices[i]);
    values[i - begin] = from.values[i];
  }
  if (globalThread() == 0) reinterpret_cast<FrameHeader*>(frame)->count = static_cast<uint32_t>(end - begin);
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads) appendList(ListView list, uint32_t listIndexBytes, VectorView out,
                                                       uint64_t* starts, uint32_t* isSorted, Finding* finding) {
  const uint32_t count = sound(finding) ? *list.count : 0;
  const uint64_t start = starts[0];
  const void* values = list.values;
  if (values == nullptr)
    values = static_cast<const std::byte*>(list.indices) + alignUp(uint64_t{count} * listIndexBytes, 16);
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    const uint64_t index = indexAt(list.indices, listIndexBytes, i);
    if (index >= out.length) report(finding, sparsecollCorrupted, -1, Found::kIndex, index, out.length);
    if (i != 0 && index <= indexAt(list.indices, listIndexBytes, i - 1)) atomicAnd(isSorted, 0u);
    if (start + i >= out.count) continue;
    setIndex(out.indices, out.indexBytes, start + i, index);
    static_cast<T*>(out.values)[start + i] =
        Element<T>::store(static_cast<typename Element<T>::Accumulate>(static_cast<const A*>(values)[i]));
  }
  if (globalThread() == 0) starts[1] = start + count;
}

// One thread. Whether each list goes on where those before it end is seen in the whole.
__global__ void endAppend(VectorView out, const uint64_t* starts, uint32_t lists, uint64_t* outCount,
                          uint32_t* isSorted, Finding* finding) {
  const uint64_t total = starts[lists];
  *outCount = total;
  if (total > out.count) {
    report(finding, sparsecollCapacity, -1, Found::kOutput, total, out.count);
    return;
  }
  for (uint32_t r = 1; r < lists; ++r) {
    const uint64_t at = starts[r];
    if (at == 0 || at == starts[r + 1]) continue;
    if (indexAt(out.indices, out.indexBytes, at) <= indexAt(out.indices, out.indexBytes, at - 1)) *isSorted = 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    widenIndices(const uint32_t* from, uint64_t* to, const uint64_t* count, uint64_t most) {
  const uint64_t end = *count < most ? *count : most;
  for (uint64_t i = globalThread(); i < end; i += globalThreads()) to[i] = from[i];
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads)
    scatterEntries(Loaded<A> from, const uint64_t* fromCount, T* dense, A scale, const Finding* finding) {
  if (!sound(finding)) return;
  const uint64_t count = *fromCount;
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    if (!isHead(from.indices, i)) continue;
    T slot = dense[from.indices[i]];
    for (uint64_t j = i; j < count && from.indices[j] == from.indices[i]; ++j)
      slot = Element<T>::store(fusedMultiplyAdd(scale, from.values[j], static_cast<A>(Element<T>::load(slot))));
    dense[from.indices[i]] = slot;
  }
}

template <class A>
void sortEntries(uint64_t count, LoadedVector& vector, DeviceContext& device, Stream stream) {
  for (uint64_t width = 1; width < count; width *= 2) {
    device.launch<mergeRuns<A>>("sortEntries", count, device.gridFor(count), stream, entriesOf<A>(vector),
                                sideOf<A>(vector, 1 - vector.side), count, width);
    vector.side = 1 - vector.side;
  }
}

template <class A>
void sumEqual(uint64_t count, LoadedVector& vector, DeviceContext& device, Stream stream) {
  auto* const tiles = vector.starts.as<uint64_t>();
  const Loaded<A> from = entriesOf<A>(vector);
  device.launch<countHeads>("countHeads", count, device.gridFor(count, kTileEntries), stream,
                            static_cast<const uint64_t*>(from.indices), count, tiles);
  device.launch<scanHeads>("scanHeads", count, {1, kThreads}, stream, tiles, (count + kTileEntries - 1) / kTileEntries,
                           vector.count.as<uint64_t>());
  device.launch<sumHeads<A>>("sumHeads", count, device.gridFor(count, kTileEntries), stream, from, count,
                             static_cast<const uint64_t*>(tiles), sideOf<A>(vector, 1 - vector.side));
  vector.side = 1 - vector.side;
}

}  // namespace

uint64_t loadTiles(uint64_t count) { return count / kTileEntries + 1; }

void load(const VectorView& vector, Order order, LoadedVector& to, DeviceContext& device, Stream stream) {
  to.side = 0;
  withElement(vector.type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    device.launch<loadEntries<A, T>>("loadEntries", vector.count, device.gridFor(vector.count), stream, vector,
                                     entriesOf<A>(to), to.count.as<uint64_t>(), device.finding());
    if (order == Order::kAsGiven || vector.isSorted) return;
    sortEntries<A>(vector.count, to, device, stream);
    if (order == Order::kSummed) sumEqual<A>(vector.count, to, device, stream);
  });
}

void pack(const LoadedVector& from, uint64_t low, uint64_t high, const FrameLayout& layout, std::byte* frame,
          DeviceContext& device, Stream stream) {
  const PackRule rule{from.count.as<uint64_t>(), low, high, low == 0 && high == ~uint64_t{0}, layout.indexBytes};
  withAccumulate(from.accumulateType, [&]<class A>(A) {
    device.launch<packEntries<A>>("packEntries", from.capacity, device.gridFor(from.capacity), stream,
                                  entriesOf<A>(from), rule, frame);
  });
}

void append(std::span<const ListView> lists, uint32_t indexBytes, const VectorView& out, uint64_t* outCount,
            uint64_t* starts, uint32_t* isSorted, DeviceContext& device, Stream stream) {
  for (size_t l = 0; l < lists.size(); ++l)
    withElement(out.type, [&]<class T>(T) {
      using A = typename Element<T>::Accumulate;
      device.launch<appendList<A, T>>("append", out.count, device.gridFor(out.count), stream, lists[l], indexBytes, out,
                                      starts + l, isSorted, device.finding());
    });
  device.launch<endAppend>("append", out.count, {1, 1}, stream, out, static_cast<const uint64_t*>(starts),
                           static_cast<uint32_t>(lists.size()), outCount, isSorted, device.finding());
}

void widen(const uint32_t* from, uint64_t* to, const uint64_t* count, uint64_t most, DeviceContext& device,
           Stream stream) {
  device.launch<widenIndices>("widenIndices", most, device.gridFor(most), stream, from, to, count, most);
}

void scatterAdd(const LoadedVector& from, void* dense, sparsecollDataType_t type, double scale, DeviceContext& device,
                Stream stream) {
  withElement(type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    device.launch<scatterEntries<A, T>>("scatterAdd", from.capacity, device.gridFor(from.capacity), stream,
                                        entriesOf<A>(from), static_cast<const uint64_t*>(from.count.as<uint64_t>()),
                                        static_cast<T*>(dense), static_cast<A>(scale), device.finding());
  });
}

}  // namespace sparsecoll::cuda
