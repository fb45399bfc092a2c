// One pass and cut over hand-made windows, and what it must give: the oracle sorts.
#pragma once

#include <numeric>
#include <string>
#include <vector>
#include "tests/support/catch.h"

#include "core/checked.h"
#include "host/host_kernels.h"
#include "tests/unit/data.h"

namespace sparsecoll::test {

struct WindowSpec {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t limit = 0;
  uint64_t key = 0;
  uint64_t slots = 0;
  bool exact = true;
  uint64_t forced = kNoForcedIndex;

  uint64_t length() const { return end - begin; }
};

template <class A>
struct Selected {
  std::vector<uint32_t> indices;
  std::vector<A> values;
};

// What a window keeps: the largest magnitudes, in a tie the lowest index, in index order. byMagnitude: the window's
// indices, in this order already.
template <class A>
std::vector<uint32_t> keptOf(const std::vector<A>& acc, const WindowSpec& window,
                             const std::vector<uint32_t>& byMagnitude) {
  uint64_t kept = std::min(window.limit, window.length());
  if (!window.exact) {
    const auto passes = [&](uint32_t i) { return Magnitude<A>::of(acc[i]) >= window.key; };
    kept = std::min(kept, static_cast<uint64_t>(std::count_if(byMagnitude.begin(), byMagnitude.end(), passes)));
  }
  if (kept == 0 && window.forced != kNoForcedIndex) return {static_cast<uint32_t>(window.forced)};
  std::vector<uint32_t> indices(byMagnitude.begin(), byMagnitude.begin() + static_cast<int64_t>(kept));
  std::sort(indices.begin(), indices.end());
  return indices;
}

template <class A>
std::vector<uint32_t> sortedByMagnitude(const std::vector<A>& acc, uint64_t begin, uint64_t end) {
  std::vector<uint32_t> indices(end - begin);
  std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
  std::stable_sort(indices.begin(), indices.end(),
                   [&](uint32_t a, uint32_t b) { return Magnitude<A>::of(acc[a]) > Magnitude<A>::of(acc[b]); });
  return indices;
}

template <class A>
Selected<A> expectedSelection(const std::vector<A>& acc, const std::vector<WindowSpec>& windows) {
  Selected<A> expected;
  for (const WindowSpec& window : windows)
    for (const uint32_t i : keptOf(acc, window, sortedByMagnitude(acc, window.begin, window.end))) {
      expected.indices.push_back(i);
      expected.values.push_back(acc[i]);
    }
  return expected;
}

// A back end's pass and cut, with marks around everything they may write.
template <class A>
class CutStep {
 public:
  // acc: what is selected from; it goes through the pass as a gradient of scale 1.
  CutStep(const std::vector<A>& acc, const std::vector<WindowSpec>& specs, List::Values where = List::Values::kApart)
      : specs_(specs), acc_(acc), out_(acc.size()), windows_(specs.size()), where_(where) {
    uint64_t slots = 0;
    uint64_t most = 0;
    for (size_t w = 0; w < specs.size(); ++w) {
      const WindowSpec& spec = specs[w];
      windows_[w].begin = spec.begin;
      windows_[w].end = spec.end;
      windows_[w].key = spec.key;
      windows_[w].limit = spec.limit;
      windows_[w].firstSlot = slots;
      windows_[w].slots = spec.slots;
      windows_[w].exact = spec.exact ? 1 : 0;
      windows_[w].forced = spec.forced;
      slots += spec.slots;
      most += std::max<uint64_t>(std::min(spec.limit, spec.length()), spec.forced != kNoForcedIndex ? 1 : 0);
    }
    candidates_ = slots;
    capacity_ = most;
  }

  // Instead of room for all that the windows may keep.
  void setCapacity(uint64_t entries) { capacity_ = entries; }

  // keepsAcc: acc is written by the pass; otherwise the gradient itself stands for it.
  Selected<A> run(Kernels& kernels, bool keepsAcc = true, Stream stream = {}) {
    control.n = acc_.size();
    control.windows = windows_.data();
    control.windowCount = static_cast<uint32_t>(windows_.size());
    control.isDouble = sizeof(A) == 8 ? 1 : 0;
    control.overflows = control.fallbacks = control.candidates = 77;  // left over from the step before
    control.nonFinite.count = 77;
    Guarded<uint32_t> candidateIndices(candidates_);
    Guarded<A> candidateValues(candidates_);
    PassArgs pass;
    pass.gradient = acc_.data();
    pass.gradientType = Element<A>::kType;
    pass.out = keepsAcc ? out_.data() : nullptr;
    pass.n = acc_.size();
    pass.control = &control;
    pass.candidateIndices = candidateIndices.data();
    pass.candidateValues = candidateValues.data();
    pass.facts = facts;
    kernels.pass(pass, stream);
    CHECK(candidateIndices.intact());
    CHECK(candidateValues.intact());
    for (const Window& window : windows_) passFound.push_back(window.found);
    CutArgs cut;
    cut.acc = keepsAcc ? out_.data() : acc_.data();
    cut.accumulateType = Element<A>::kType;
    cut.control = &control;
    cut.candidateIndices = candidateIndices.data();
    cut.candidateValues = candidateValues.data();
    cut.facts = facts;
    Selected<A> selected = writeTo(kernels, cut, stream);
    CHECK(candidateIndices.intact());
    CHECK(candidateValues.intact());
    return selected;
  }

  // acc as the kernels saw it.
  const std::vector<A>& acc(bool keepsAcc = true) const { return keepsAcc ? out_ : acc_; }
  const Window& window(size_t w) const { return windows_[w]; }

  WindowFacts facts;
  Control control{};
  std::vector<uint64_t> passFound;  // candidates of each window before the cut

 private:
  Selected<A> writeTo(Kernels& kernels, CutArgs& cut, Stream stream) {
    const uint64_t valuesAt = where_ == List::Values::kPacked ? alignUp(capacity_ * 4, 16) : 0;
    Guarded<uint32_t> indices(where_ == List::Values::kPacked ? (valuesAt + capacity_ * sizeof(A)) / 4 : capacity_);
    Guarded<A> apart(where_ == List::Values::kApart ? capacity_ : 0);
    uint32_t count = 12345;
    cut.target = {indices.data(), where_ == List::Values::kApart ? apart.data() : nullptr, &count, capacity_, where_};
    kernels.cut(cut, stream);
    CHECK(indices.intact());
    CHECK(apart.intact());
    CHECK(count == control.selected);
    REQUIRE(count <= capacity_);
    Selected<A> selected;
    selected.indices.assign(indices.data(), indices.data() + count);
    selected.values.resize(count);
    const void* from = apart.data();
    if (where_ == List::Values::kPacked) from = reinterpret_cast<std::byte*>(indices.data()) + alignUp(count * 4, 16);
    if (count != 0) std::memcpy(selected.values.data(), from, count * sizeof(A));
    return selected;
  }

  std::vector<WindowSpec> specs_;
  std::vector<A> acc_;
  std::vector<A> out_;
  std::vector<Window> windows_;
  List::Values where_;
  uint64_t candidates_ = 0;
  uint64_t capacity_ = 0;
};

template <class A>
std::string difference(const Selected<A>& got, const Selected<A>& expected) {
  const std::string indices = difference(got.indices, expected.indices);
  if (!indices.empty()) return "indices: " + indices;
  const std::string values = difference(got.values, expected.values);
  return values.empty() ? "" : "values: " + values;
}

}  // namespace sparsecoll::test
