// Error feedback on some ranks in one thread: what a reducer does with a selection, without an engine.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "host/host_kernels.h"
#include "selectors/selectors.h"
#include "tests/unit/data.h"

namespace sparsecoll::test {

template <class A>
class SelectionRun {
 public:
  // clearsUnion: what any rank sent leaves every rank's residual, as the index union does.
  SelectionRun(PlanFunction plan, SelectionRequest request, bool clearsUnion) : clearsUnion_(clearsUnion) {
    request.accumulateType = Element<A>::kType;
    for (int rank = 0; rank < request.ranks; ++rank) {
      request.rank = rank;
      selections_.push_back(std::move(*Selection::make(plan, request, *kernels_, nullptr)));
      residuals.emplace_back(request.n);
    }
    lists.resize(selections_.size());
    values.resize(selections_.size());
  }

  size_t ranks() const { return selections_.size(); }
  Selection& operator[](size_t rank) { return *selections_[rank]; }
  const Control& control(size_t rank = 0) const { return *selections_[rank]->control(); }

  // One step with a gradient a rank. Returns the entries of all ranks.
  uint64_t step(const std::vector<std::vector<A>>& gradients) {
    for (size_t r = 0; r < ranks(); ++r)
      selections_[r]->pass({gradients[r].data(), Element<A>::kType, residuals[r].data(), residuals[r].data(), 1}, {});
    exchangeSurveys();
    for (size_t r = 0; r < ranks(); ++r) cut(r);
    tellEveryone();
    std::vector<ListView> sent;
    std::vector<uint32_t> counts;
    for (const auto& list : lists) counts.push_back(static_cast<uint32_t>(list.size()));
    for (size_t r = 0; r < ranks(); ++r) sent.push_back({lists[r].data(), values[r].data(), &counts[r]});
    for (size_t r = 0; r < ranks(); ++r) {
      if (!selections_[r]->observe(sent, {}).ok()) std::abort();
      selections_[r]->advance({});
      for (size_t peer = 0; peer < ranks(); ++peer)
        if (clearsUnion_ || peer == r)
          for (const uint32_t i : lists[peer]) residuals[r][i] = 0;
    }
    return control().delivered;
  }

  std::vector<std::vector<A>> residuals;     // of each rank
  std::vector<std::vector<A>> accumulated;   // of each rank in the latest step
  std::vector<std::vector<uint32_t>> lists;  // what each rank sent in it
  std::vector<std::vector<A>> values;

 private:
  void exchangeSurveys() {
    const uint64_t length = selections_[0]->surveyLength();
    if (length == 0) return;
    for (size_t from = 0; from < ranks(); ++from)
      for (const auto& to : selections_)
        std::copy_n(selections_[from]->surveyRows() + from * length, length, to->surveyRows() + from * length);
    for (const auto& selection : selections_) selection->afterSurvey({});
  }

  void cut(size_t r) {
    Selection& selection = *selections_[r];
    lists[r].assign(selection.capacity(), 0);
    values[r].assign(selection.capacity(), 0);
    uint32_t count = 0;
    const List target{lists[r].data(), values[r].data(), &count, selection.capacity(), List::Values::kApart};
    if (!selection.cut(target, {}).ok()) std::abort();
    lists[r].resize(count);
    values[r].resize(count);
    accumulated.resize(ranks());
    accumulated[r] = residuals[r];
  }

  // Every rank's header, without its entries, goes to every rank.
  void tellEveryone() {
    const FrameExpectation identity{1, 2};
    const FrameLayout layout{selections_[0]->capacity(), 4, 0};
    std::vector<std::vector<std::byte>> memory(ranks(), std::vector<std::byte>(layout.capacityBytes()));
    std::vector<const std::byte*> frames;
    const std::vector<uint64_t> bytes(ranks(), layout.capacityBytes());
    for (size_t r = 0; r < ranks(); ++r) {
      const auto count = static_cast<uint32_t>(lists[r].size());
      std::memcpy(memory[r].data() + offsetof(FrameHeader, count), &count, sizeof count);
      kernels_->seal({memory[r].data(), layout, identity, selections_[r]->control(), false}, {});
      frames.push_back(memory[r].data());
    }
    for (const auto& selection : selections_)
      if (!kernels_->open({frames, bytes, layout, identity, selection->control(), {}, false}, {}).ok()) std::abort();
  }

  std::unique_ptr<Kernels> kernels_ = host::makeHostKernels();
  std::vector<std::unique_ptr<Selection>> selections_;
  bool clearsUnion_;
};

// Gradients with exponential tails whose coordinates have scales of their own, which stay; seed: another step.
template <class A>
std::vector<std::vector<A>> gradientsOf(size_t ranks, uint64_t n, uint64_t seed, double scale = 1) {
  std::vector<std::vector<A>> gradients(ranks, std::vector<A>(n));
  for (size_t r = 0; r < ranks; ++r) {
    Random random(seed * 1000 + r);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t bits = random();
      const float tail = -std::log(static_cast<float>((bits >> 40) + 1) * 0x1p-24F);
      const auto own = static_cast<double>(1 + i * 2654435761u % 8);
      gradients[r][i] = static_cast<A>(scale * own * static_cast<double>((bits & 1) != 0 ? tail : -tail));
    }
  }
  return gradients;
}

}  // namespace sparsecoll::test
