// What a selection keeps between steps, in a checkpoint and back. A blob is hostile until it is read to its end; only
// then does anything change.
#include <algorithm>
#include <cmath>

#include "core/numeric.h"
#include "selectors/selection.h"

namespace sparsecoll {

namespace {

bool isMagnitude(double x) { return isFinite(x) && x >= 0; }
bool isShare(double x) { return x >= 0 && x <= 1; }

template <class T>
void writeTable(Kernels& kernels, Writer& to, const T* table, uint64_t count, Stream stream) {
  for (uint64_t i = 0; i < count; ++i) {
    T value{};
    kernels.copy(&value, table + i, sizeof value, stream);
    to.write(value);
  }
}

// Where the parts of [0, end) begin, and end; all 0 before the first step.
template <class T>
Result<std::vector<T>> readBounds(Reader& from, uint64_t parts, T end) {
  std::vector<T> bounds(parts + 1);
  for (T& bound : bounds) {
    SC_TRY(bound, from.read<T>());
  }
  if (bounds.front() != 0 || (bounds.back() != 0 && bounds.back() != end) ||
      !std::is_sorted(bounds.begin(), bounds.end()))
    return fail(sparsecollCorrupted, "the blob has parts of the vector that no step leaves");
  return bounds;
}

template <class T>
Status readAll(Reader& from, std::span<T> values, bool (*sound)(T)) {
  for (T& value : values) {
    SC_TRY(value, from.read<T>());
    if (!sound(value)) return fail(sparsecollCorrupted, "the blob's thresholds have a state that no step leaves");
  }
  return {};
}

}  // namespace

void Selection::save(Writer& to) const {
  Control now{};
  kernels_.copy(&now, control(), sizeof now, stream_);
  to.write(now.iteration);
  to.write(now.threshold);
  to.write(now.gain);
  to.write(now.side);
  for (const double kept : now.kept) to.write(kept);
  for (const double share : now.teamShare) to.write(share);
  to.write(now.ranks);
  if (now.blocks.count != 0) writeTable(kernels_, to, now.blocks.starts, uint64_t{now.ranks} + 1, stream_);
  if (request_.regions) {
    to.write(now.sumThreshold);
    to.write(now.sumDue);
    writeTable(kernels_, to, now.regions, uint64_t{now.ranks} + 1, stream_);
  }
  to.write(now.windowCount);
  for (uint32_t w = 0; w < now.windowCount; ++w) {
    Window window{};
    kernels_.copy(&window, now.windows + w, sizeof window, stream_);
    to.write(window.key);
    to.write(window.spread);
    to.write(window.keptBefore);
  }
}

// otherRanks: the blob may come from another number of ranks; what depends on it starts anew.
Status Selection::load(Reader& from, bool otherRanks) {
  constexpr uint32_t kMostParts = 1u << 20;
  Control saved{};
  SC_TRY(saved.iteration, from.read<uint64_t>());
  SC_TRY(readAll<double>(from, {&saved.threshold, 1}, isMagnitude));
  SC_TRY(readAll<double>(from, {&saved.gain, 1}, isShare));
  SC_TRY(readAll<double>(from, {&saved.side, 1}, [](double x) { return isShare(std::abs(x)); }));
  SC_TRY(readAll<double>(from, saved.kept, isMagnitude));
  SC_TRY(readAll<double>(from, saved.teamShare, [](double x) { return isFinite(x); }));
  SC_TRY(saved.ranks, from.read<uint32_t>());
  const bool alike = saved.ranks == static_cast<uint32_t>(request_.ranks);
  if ((!alike && !otherRanks) || saved.ranks == 0 || saved.ranks > kMostParts)
    return fail(sparsecollCorrupted, "the blob's selection is of {} ranks", saved.ranks);
  std::vector<uint32_t> starts;
  if (plan_.blocks != 0) {
    SC_TRY(starts, readBounds<uint32_t>(from, saved.ranks, plan_.blocks));
  }
  std::vector<uint64_t> regions;
  if (request_.regions) {
    SC_TRY(readAll<double>(from, {&saved.sumThreshold, 1}, isMagnitude));
    SC_TRY(readAll<uint32_t>(from, {&saved.sumDue, 1}, [](uint32_t x) { return x <= 1; }));
    SC_TRY(regions, readBounds<uint64_t>(from, saved.ranks, request_.n));
  }
  SC_TRY(const auto windows, from.read<uint32_t>());
  const bool sameWindows = windows == plan_.windows.size();
  if (!sameWindows && alike) return invalid("the blob has {} windows, this reducer {}", windows, plan_.windows.size());
  const uint64_t infinity = infinityKey(request_.accumulateType == sparsecollFloat64);
  std::vector<Window> states(sameWindows ? windows : 0);
  for (uint32_t w = 0; w < windows; ++w) {
    Window state{};
    SC_TRY(state.key, from.read<uint64_t>());
    SC_TRY(state.spread, from.read<double>());
    SC_TRY(state.keptBefore, from.read<double>());
    if (state.key > infinity || !isShare(state.spread) || !isMagnitude(state.keptBefore))
      return fail(sparsecollCorrupted, "a window of the blob has a state that no step leaves");
    if (sameWindows) states[w] = state;
  }
  if (from.left() != 0) return fail(sparsecollCorrupted, "the blob's selection is {} bytes too long", from.left());

  Control* const now = control();
  iteration_ = saved.iteration;
  kernels_.copy(&now->iteration, &saved.iteration, sizeof saved.iteration, stream_);
  kernels_.copy(&now->threshold, &saved.threshold, sizeof saved.threshold, stream_);
  kernels_.copy(&now->gain, &saved.gain, sizeof saved.gain, stream_);
  kernels_.copy(&now->side, &saved.side, sizeof saved.side, stream_);
  kernels_.copy(now->kept, saved.kept, sizeof saved.kept, stream_);
  if (otherRanks)
    startSharesAnew();
  else
    kernels_.copy(now->teamShare, saved.teamShare, sizeof saved.teamShare, stream_);
  if (request_.regions) {
    kernels_.copy(&now->sumThreshold, &saved.sumThreshold, sizeof saved.sumThreshold, stream_);
    kernels_.copy(&now->sumDue, &saved.sumDue, sizeof saved.sumDue, stream_);
  }
  if (alike && !regions.empty())
    kernels_.copy(tables_.regions, regions.data(), regions.size() * sizeof(uint64_t), stream_);
  if (alike && !starts.empty())
    kernels_.copy(tables_.blocks.starts, starts.data(), starts.size() * sizeof(uint32_t), stream_);
  for (size_t w = 0; w < states.size(); ++w) {
    kernels_.copy(&tables_.windows[w].key, &states[w].key, sizeof(uint64_t), stream_);
    kernels_.copy(&tables_.windows[w].spread, &states[w].spread, sizeof(double), stream_);
    kernels_.copy(&tables_.windows[w].keptBefore, &states[w].keptBefore, sizeof(double), stream_);
  }
  return {};
}

}  // namespace sparsecoll
