#include "bench/device/library.h"

#include <algorithm>

#include "cuda/cuda_kernels.h"

namespace bench {

void check(const sparsecoll::Status& status) {
  if (status.ok()) return;
  if (status.result() == sparsecollOutOfMemory) throw OutOfDeviceMemory(status.failure().text.c_str());
  throw EnvironmentError(status.failure().text.c_str());
}

namespace {

template <class T>
T take(sparsecoll::Result<T>&& made) {
  if (!made.ok()) check(made.takeStatus());
  return std::move(*made);
}

constexpr uint64_t kMostWaitMs = 600000;

}  // namespace

Device::Device(int ordinal, const sparsecoll::WorkspaceNeed& need)
    : kernels_(take(sparsecoll::cuda::makeCudaKernels(ordinal))),
      workspace_(take(kernels_->makeWorkspace(need, nullptr))) {
  waitForDevice();
}

void Device::finish() const { check(kernels_->findings(stream(), sparsecoll::Deadline::in(kMostWaitMs))); }

Device::Selecting Device::select(sparsecoll::PlanFunction plan, const sparsecoll::SelectionRequest& request) const {
  auto selection = take(sparsecoll::Selection::make(plan, request, *kernels_, nullptr));
  const auto ranks = static_cast<uint64_t>(request.ranks);
  sparsecoll::WorkspaceNeed need;
  need.n = request.n;
  need.windows = selection->windows();
  need.lists = 2 * ranks;
  need.entries = ranks * std::max(selection->capacity(), selection->mostEntries());
  auto workspace = take(kernels_->makeWorkspace(need, nullptr));
  waitForDevice();
  return {std::move(selection), std::move(workspace), stream_.get()};
}

DeviceList::DeviceList(const std::vector<uint32_t>& indices, float value) : DeviceList(indices.size()) {
  const auto count = static_cast<uint32_t>(indices.size());
  indices_.load(indices.data(), count);
  values_.load(std::vector<float>(count, value).data(), count);
  count_.load(&count, 1);
}

OneWindow::OneWindow(uint64_t n, uint32_t key, uint64_t room)
    : control_(1), window_(1), facts_{n, n, true, false}, indices_(room), values_(room) {
  sparsecoll::Window window{};
  window.end = n;
  window.key = key;
  window.slots = window.room = window.limit = room;
  window.forced = sparsecoll::kNoForcedIndex;
  window_.load(&window, 1);
  sparsecoll::Control control{};
  control.n = n;
  control.ranks = 1;
  control.windowCount = 1;
  control.windows = window_.get();
  control_.load(&control, 1);
}

sparsecoll::PassArgs OneWindow::passOver(uint64_t n) const {
  sparsecoll::PassArgs args;
  args.n = n;
  args.control = control_.get();
  args.facts = facts_;
  args.candidateIndices = indices_.get();
  args.candidateValues = values_.get();
  return args;
}

}  // namespace bench
