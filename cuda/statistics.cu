// Statistics of acc with the bits of the host's: a tile's elements go to 32 lanes in turn, lanes are added in halves,
// tiles in the order of core/tile_sum.h. One warp squares a tile, one lane each of the 32.
#include "core/random.h"
#include "core/search.h"
#include "core/tile_sum.h"
#include "cuda/block.h"
#include "cuda/device_workspace.h"
#include "cuda/pass_view.h"
#include "cuda/selection.h"
#include "cuda/shares.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kSampleThreads = 1024;
constexpr uint32_t kRunsABlock = kSampleThreads / kSampleRun;

__device__ inline double lanesSum(double lane) {
  for (uint32_t half = kWarp / 2; half != 0; half /= 2) {
    const double other = __shfl_down_sync(kAllLanes, lane, half);
    if (laneIndex() < half) lane += other;
  }
  return lane;  // of lane 0
}

// The windows and what lies between them, in index order: range 2 w + 1 is window w, range 2 w what lies before it.
struct Interval {
  uint64_t begin;
  uint64_t end;
};

__device__ inline Interval intervalAt(const Control& control, uint32_t windows, uint64_t n, uint32_t range) {
  const uint32_t w = range / 2;
  if (range % 2 == 1) return {control.windows[w].begin, control.windows[w].end};
  return {w == 0 ? 0 : control.windows[w - 1].end, w == windows ? n : control.windows[w].begin};
}

// Tiles of a range are numbered from here on; the numbers of two ranges never meet.
__device__ inline uint64_t firstNumber(const Interval& stretch, uint32_t range) {
  return stretch.begin / kTile + range;
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads) measureTiles(PassView<A, T> view) {
  const AccSource<A, T> source = view.source.onDevice();
  const Control& control = *view.control;
  const uint32_t windows = control.windowCount;
  const uint32_t ranges = 2 * windows + 1;
  const uint64_t numbers = (view.n + kTile - 1) / kTile + ranges;
  for (uint64_t number = globalThread() / kWarp; number < numbers; number += globalThreads() / kWarp) {
    // The last one that begins at this number or before it.
    const uint32_t range =
        firstWhere(1, ranges,
                   [&](uint32_t r) { return firstNumber(intervalAt(control, windows, view.n, r), r) > number; }) -
        1;
    const Interval stretch = intervalAt(control, windows, view.n, range);
    const uint64_t begin = stretch.begin + (number - firstNumber(stretch, range)) * kTile;
    if (begin >= stretch.end) continue;
    const uint64_t end = begin + kTile < stretch.end ? begin + kTile : stretch.end;
    double squares = 0;
    uint32_t infinite = 0;
    for (uint64_t i = begin + laneIndex(); i < end; i += kWarp) {
      const A in = source.in != nullptr ? source.in[i] : A{0};
      const A velocity = source.velocityIn != nullptr ? source.velocityIn[i] : A{0};
      const Moved<A> moved = accumulate(source, source.gradient[i], in, velocity);
      const A acc = view.out != nullptr ? moved.acc : static_cast<A>(Element<T>::load(source.gradient[i]));
      if (view.out != nullptr) view.out[i] = acc;
      if (source.velocityIn != nullptr) view.velocityOut[i] = moved.velocity;
      const auto wide = static_cast<double>(acc);
      squares = fusedMultiplyAdd(wide, wide, squares);
      if (isFinite(acc)) continue;
      ++infinite;
      shareNaN(view, i, acc);
    }
    squares = lanesSum(squares);
    infinite = warpSum(infinite);
    if (laneIndex() != 0) continue;
    view.space.squares[number] = squares;
    if (infinite != 0) atomicAdd(&view.control->nonFinite.count, infinite);
  }
}

// A group of tiles, by a warp: all lanes fetch, one adds.
struct GroupRoom {
  double tiles[kThreads / kWarp][kTileGroup];
};
__device__ inline double groupSum(const double* squares, uint64_t tiles, uint64_t group, GroupRoom& room) {
  const uint64_t begin = group * kTileGroup;
  const auto count = static_cast<uint32_t>(tiles - begin < kTileGroup ? tiles - begin : kTileGroup);
  double* const own = room.tiles[warpIndex()];
#pragma unroll 8
  for (uint32_t t = laneIndex(); t < count; t += kWarp) own[t] = squares[begin + t];
  __syncwarp();
  double sum = 0;
  if (laneIndex() == 0) {
#pragma unroll 8
    for (uint32_t t = 0; t < count; ++t) sum += own[t];
  }
  __syncwarp();
  return sum;  // of lane 0
}

// Vectors are shorter than 2^32.
constexpr uint64_t kMostGroups = (uint64_t{1} << 32) / kTile / kTileGroup;

__device__ inline uint32_t groupsOf(uint64_t tiles) {
  return static_cast<uint32_t>((tiles + kTileGroup - 1) / kTileGroup);
}

__device__ inline double sumOf(const double* groups, uint32_t count) {
  double sum = 0;
#pragma unroll 8
  for (uint32_t g = 0; g < count; ++g) sum += groups[g];
  return sum;
}

// A block a window.
__global__ void __launch_bounds__(kThreads) sumNorms(const Control* control, SelectionSpace space, double* norms) {
  __shared__ GroupRoom room;
  __shared__ double groups[kMostGroups];
  for (uint32_t w = blockIdx.x; w < control->windowCount; w += gridDim.x) {
    const Interval stretch{control->windows[w].begin, control->windows[w].end};
    const double* const of = space.squares + firstNumber(stretch, 2 * w + 1);
    const uint64_t tiles = (stretch.end - stretch.begin + kTile - 1) / kTile;
    for (uint32_t g = warpIndex(); g < groupsOf(tiles); g += blockDim.x / kWarp) {
      const double sum = groupSum(of, tiles, g, room);
      if (laneIndex() == 0) groups[g] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const double squares = sumOf(groups, groupsOf(tiles));
      norms[w] = isFinite(squares) ? std::sqrt(squares) : 0;
    }
    __syncthreads();
  }
}

template <class A, class T>
__global__ void __launch_bounds__(kThreads) squareTiles(const T* x, uint64_t n, double* squares) {
  const uint64_t tiles = (n + kTile - 1) / kTile;
  for (uint64_t tile = globalThread() / kWarp; tile < tiles; tile += globalThreads() / kWarp) {
    const uint64_t end = (tile + 1) * kTile < n ? (tile + 1) * kTile : n;
    double lane = 0;
    for (uint64_t i = tile * kTile + laneIndex(); i < end; i += kWarp) {
      const auto wide = static_cast<double>(Element<T>::load(x[i]));
      lane = fusedMultiplyAdd(wide, wide, lane);
    }
    lane = lanesSum(lane);
    if (laneIndex() == 0) squares[tile] = lane;
  }
}

// A warp a group of tiles, and the last block to finish adds the groups, whose sums lie behind the tiles'.
__global__ void __launch_bounds__(kThreads) sumTiles(SelectionSpace space, uint64_t tiles, double* squaresAt) {
  __shared__ GroupRoom room;
  __shared__ double groups[kMostGroups];
  double* const sums = space.squares + tiles;
  const uint32_t count = groupsOf(tiles);
  for (uint64_t g = globalThread() / kWarp; g < count; g += globalThreads() / kWarp) {
    const double sum = groupSum(space.squares, tiles, g, room);
    if (laneIndex() == 0) sums[g] = sum;
  }
  if (!lastOf(space.turn->done, gridDim.x)) return;
  for (uint32_t g = threadIdx.x; g < count; g += blockDim.x) groups[g] = __ldcg(sums + g);
  __syncthreads();
  if (threadIdx.x == 0) *squaresAt = sumOf(groups, count);
}

// One thread: a vector has few parts.
__global__ void __launch_bounds__(kThreads)
    clipScale(const double* squares, uint32_t parts, Scale scale, double mostNorm, double* scaleAt) {
  if (globalThread() == 0) *scaleAt = clippedScale(sumOf(squares, parts), scale.now(), mostNorm);
}

// The first block lays out how many runs each window has.
__global__ void __launch_bounds__(kThreads) beginSample(Control* control, SelectionSpace space) {
  __shared__ BlockSums<uint64_t> sums;
  __shared__ BlockSums<uint32_t> shares;
  for (uint64_t b = globalThread(); b < kHistogramBins; b += globalThreads()) control->histogram[b] = 0;
  if (blockIdx.x != 0) return;
  const uint32_t windows = control->windowCount;
  const auto lengthOf = [control](uint32_t w) { return control->windows[w].end - control->windows[w].begin; };
  uint64_t length = 0;
  for (uint32_t w = threadIdx.x; w < windows; w += blockDim.x) length += lengthOf(w);
  length = blockSum(length, sums).total;
  const uint64_t stride = length / kSampleElements > 1 ? length / kSampleElements : 1;
  const uint64_t step = stride * kSampleRun;
  layOutUnits(space.unitsBefore, windows, shares, [&](uint32_t w) { return (lengthOf(w) + step - 1) / step; });
  if (threadIdx.x != 0) return;
  space.turn->stride = stride;
  control->sampled = 0;
}

// A warp takes a run. Where the run is among its neighbours is left to chance, as on the host.
template <class A, class T>
__global__ void __launch_bounds__(kSampleThreads) sampleRuns(PassView<A, T> view) {
  SC_DYNAMIC_SHARED(uint32_t, bins);
  const AccSource<A, T> source = view.source.onDevice();
  Control& control = *view.control;
  for (uint32_t b = threadIdx.x; b < kHistogramBins; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  const uint64_t stride = view.space.turn->stride;
  const uint64_t step = stride * kSampleRun;
  const uint64_t seed = mixBits(control.iteration);
  uint32_t counted = 0;
  forShare(view.space.unitsBefore, control.windowCount, kRunsABlock, [&](const SharePart& part) {
    const Window& window = control.windows[part.window];
    for (uint64_t r = part.begin + threadIdx.x / kSampleRun; r < part.end; r += kRunsABlock) {
      const uint64_t at = window.begin + r * step;
      const uint64_t run = at + drawBelow(stride, seed + at) * kSampleRun;
      const uint64_t i = run + threadIdx.x % kSampleRun;
      if (i >= window.end) continue;
      const A in = source.in != nullptr ? source.in[i] : A{0};
      const A velocity = source.velocityIn != nullptr ? source.velocityIn[i] : A{0};
      const A acc = accumulate(source, source.gradient[i], in, velocity).acc;
      atomicAdd(&bins[Magnitude<float>::of(canonical(static_cast<float>(acc))) >> 18], 1u);
      ++counted;
    }
  });
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < kHistogramBins; b += blockDim.x)
    if (bins[b] != 0) atomicAdd(&control.histogram[b], bins[b]);
  counted = warpSum(counted);
  if (laneIndex() == 0 && counted != 0) atomicAddWide(&control.sampled, counted);
}

}  // namespace

template <class A, class T>
void measureNorms(const PassView<A, T>& view, double* norms, DeviceContext& device, Stream stream) {
  const uint64_t items = view.space.tiles + 2 * view.space.windows + 1;
  device.launch<measureTiles<A, T>>("measureTiles", view.n, device.gridFor(items, kThreads / kWarp), stream, view);
  device.launch<sumNorms>("sumNorms", view.space.windows, device.gridFor(view.space.windows, 1), stream, view.control,
                          view.space, norms);
}

template void measureNorms(const PassView<float, float>&, double*, DeviceContext&, Stream);
template void measureNorms(const PassView<float, Half>&, double*, DeviceContext&, Stream);
template void measureNorms(const PassView<float, Bfloat>&, double*, DeviceContext&, Stream);
template void measureNorms(const PassView<double, double>&, double*, DeviceContext&, Stream);

void sample(const PassArgs& args, DeviceContext& device, Stream stream) {
  withElement(args.gradientType, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    const PassView<A, T> view = passView<A, T>(args, stream);
    constexpr uint32_t kBinBytes = kHistogramBins * sizeof(uint32_t);
    device.launch<beginSample>("beginSample", kHistogramBins, device.gridFor(kHistogramBins), stream, args.control,
                               view.space);
    Grid grid = device.gridFor(kSampleElements / kSampleRun + view.space.windows, kRunsABlock, kSampleThreads);
    grid.blocks = std::min<uint64_t>(grid.blocks, device.processors());
    grid.sharedBytes = kBinBytes;
    device.launch<sampleRuns<A, T>>("sampleRuns", args.n, grid, stream, view);
  });
}

void squares(const void* x, sparsecollDataType_t type, uint64_t n, double* squaresAt, DeviceContext& device,
             Stream stream) {
  const SelectionSpace& space = workspaceOf(stream).selection();
  const uint64_t tiles = (n + kTile - 1) / kTile;
  withElement(type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    device.launch<squareTiles<A, T>>("squareTiles", n, device.gridFor(n, kTile * (kThreads / kWarp)), stream,
                                     static_cast<const T*>(x), n, space.squares);
  });
  device.launch<sumTiles>("sumTiles", n, device.gridFor(tiles, kTileGroup * (kThreads / kWarp)), stream, space, tiles,
                          squaresAt);
}

void clip(std::span<const double> squares, Scale scale, double mostNorm, double* scaleAt, DeviceContext& device,
          Stream stream) {
  device.launch<clipScale>("clipScale", squares.size(), device.gridFor(1), stream, squares.data(),
                           static_cast<uint32_t>(squares.size()), scale, mostNorm, scaleAt);
}

}  // namespace sparsecoll::cuda
