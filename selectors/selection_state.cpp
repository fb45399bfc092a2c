// What a selection keeps between steps, in a checkpoint and back. A blob is hostile until it is read to its end; only
// then does anything change.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/numeric.h"
#include "selectors/selection.h"

namespace sparsecoll {

namespace {

constexpr uint32_t kMostRanks = 1u << 20;  // that a blob may be of

bool isMagnitude(double x) { return isFinite(x) && x >= 0; }
bool isShare(double x) { return x >= 0 && x <= 1; }

// As they are written: little-endian, one behind the other.
using Numbers = std::span<const std::byte>;

template <class T>
T numberAt(Numbers numbers, uint64_t i) {
  T value;
  std::memcpy(&value, numbers.data() + i * sizeof value, sizeof value);
  return value;
}

uint64_t integerAt(Numbers numbers, const StatePart& part, uint64_t i) {
  return part.elementBytes == sizeof(uint32_t) ? numberAt<uint32_t>(numbers, i) : numberAt<uint64_t>(numbers, i);
}

bool areBounds(Numbers numbers, const StatePart& part) {
  const uint64_t last = numbers.size() / part.elementBytes - 1;
  for (uint64_t i = 0; i < last; ++i)
    if (integerAt(numbers, part, i) > integerAt(numbers, part, i + 1)) return false;
  const uint64_t end = integerAt(numbers, part, last);
  return integerAt(numbers, part, 0) == 0 && (end == 0 || end == part.end);
}

bool areSound(Numbers numbers, const StatePart& part) {
  switch (part.sound) {
    case Sound::kMagnitude:
      return isMagnitude(numberAt<double>(numbers, 0));
    case Sound::kFinite:
      return isFinite(numberAt<double>(numbers, 0));
    case Sound::kShare:
      return isShare(numberAt<double>(numbers, 0));
    case Sound::kSide:
      return isShare(std::abs(numberAt<double>(numbers, 0)));
    case Sound::kFlag:
      return integerAt(numbers, part, 0) <= 1;
    case Sound::kBounds:
      return areBounds(numbers, part);
  }
  return false;
}

}  // namespace

template <class Visit>
Status Selection::eachPart(const SelectionPlan& plan, const SelectionRequest& request, const Visit& visit) {
  for (const StatePart& part : plan.state.parts()) SC_TRY(visit(&Control::selector, part));
  for (const StatePart& part : request.collective.parts()) SC_TRY(visit(&Control::collective, part));
  return {};
}

// In the kernels' memory.
void* Selection::partAt(MethodState Control::*state, const StatePart& part) const {
  if (!part.table) return (control()->*state).bytes + part.at;
  void* table = nullptr;
  std::memcpy(&table, (tables_.*state).bytes + part.at, sizeof table);
  return table;
}

void Selection::clearTables() {
  (void)eachPart(plan_, request_, [&](MethodState Control::*state, const StatePart& part) -> Status {
    if (part.table) kernels_.fillZero(partAt(state, part), part.bytes(), stream_);
    return {};
  });
}

void Selection::startAgreedAnew() {
  (void)eachPart(plan_, request_, [&](MethodState Control::*state, const StatePart& part) -> Status {
    if (part.saved == Saved::kAgreed) kernels_.fillZero(partAt(state, part), part.bytes(), stream_);
    return {};
  });
}

void Selection::save(Writer& to) const {
  Control now{};
  kernels_.transfer(&now, control(), sizeof now, stream_);
  to.write(now.iteration);
  to.write(now.threshold);
  to.write(now.ranks);
  (void)eachPart(plan_, request_, [&](MethodState Control::*state, const StatePart& part) -> Status {
    if (part.saved == Saved::kNo) return {};
    std::vector<std::byte> numbers(part.bytes());
    kernels_.transfer(numbers.data(), partAt(state, part), numbers.size(), stream_);
    to.append(numbers.data(), numbers.size());
    return {};
  });
  to.write(now.windowCount);
  for (uint32_t w = 0; w < now.windowCount; ++w) {
    Window window{};
    kernels_.transfer(&window, now.windows + w, sizeof window, stream_);
    to.write(window.key);
    to.write(window.spread);
    to.write(window.keptBefore);
  }
}

// otherRanks: the blob may come from another number of ranks; what depends on it starts anew.
Status Selection::load(Reader& from, bool otherRanks) {
  Control saved{};
  SC_TRY(saved.iteration, from.read<uint64_t>());
  SC_TRY(saved.threshold, from.read<double>());
  SC_TRY(saved.ranks, from.read<uint32_t>());
  if (!isMagnitude(saved.threshold)) return fail(sparsecollCorrupted, "the blob's threshold is {}", saved.threshold);
  const auto ranks = static_cast<uint32_t>(request_.ranks);
  const bool alike = saved.ranks == ranks;
  if ((!alike && !otherRanks) || saved.ranks == 0 || saved.ranks > kMostRanks)
    return fail(sparsecollCorrupted, "the blob's selection is of {} ranks", saved.ranks);
  std::vector<Numbers> parts;
  SC_TRY(eachPart(plan_, request_, [&](MethodState Control::*, const StatePart& part) -> Status {
    if (part.saved == Saved::kNo) return {};
    const uint64_t count = part.saved == Saved::kOfAllRanks ? part.count - ranks + saved.ranks : part.count;
    SC_TRY(const Numbers numbers, from.take(count * part.elementBytes));
    if (!areSound(numbers, part)) return fail(sparsecollCorrupted, "the blob has a state that no step leaves");
    parts.push_back(numbers);
    return {};
  }));
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
  kernels_.transfer(&now->iteration, &saved.iteration, sizeof saved.iteration, stream_);
  kernels_.transfer(&now->threshold, &saved.threshold, sizeof saved.threshold, stream_);
  size_t next = 0;
  SC_TRY(eachPart(plan_, request_, [&](MethodState Control::*state, const StatePart& part) -> Status {
    if (part.saved == Saved::kNo) return {};
    const Numbers numbers = parts[next++];
    const bool taken = part.saved == Saved::kYes || (part.saved == Saved::kOfAllRanks ? alike : !otherRanks);
    if (taken)
      kernels_.transfer(partAt(state, part), numbers.data(), numbers.size(), stream_);
    else if (part.saved == Saved::kOfAllRanks)
      kernels_.fillZero(partAt(state, part), part.bytes(), stream_);
    return {};
  }));
  if (otherRanks) startAgreedAnew();
  for (size_t w = 0; w < states.size(); ++w) {
    kernels_.transfer(&tables_.windows[w].key, &states[w].key, sizeof(uint64_t), stream_);
    kernels_.transfer(&tables_.windows[w].spread, &states[w].spread, sizeof(double), stream_);
    kernels_.transfer(&tables_.windows[w].keptBefore, &states[w].keptBefore, sizeof(double), stream_);
  }
  return {};
}

}  // namespace sparsecoll
