// The library's kernels on a device, with exceptions instead of results.
#pragma once

#include <memory>

#include "bench/device/cuda_objects.h"
#include "core/kernels.h"
#include "selectors/selection.h"

namespace bench {

void check(const sparsecoll::Status& status);

// What the benchmarks of one device share.
class Device {
 public:
  // need: of what is no selection's work.
  Device(int ordinal, const sparsecoll::WorkspaceNeed& need);

  sparsecoll::Kernels& kernels() const { return *kernels_; }
  const CudaStream& cudaStream() const { return stream_; }
  sparsecoll::Stream stream() const { return {stream_.get(), workspace_.get()}; }
  // Waits; throws what kernels found wrong.
  void finish() const;

  // A selection in a workspace like that of a reducer which selects so. Kernels' grids go by the workspace's size.
  struct Selecting {
    std::unique_ptr<sparsecoll::Selection> selection;
    std::unique_ptr<sparsecoll::Workspace> workspace;
    cudaStream_t on;

    sparsecoll::Selection* operator->() const { return selection.get(); }
    sparsecoll::Stream stream() const { return {on, workspace.get()}; }
  };
  Selecting select(sparsecoll::PlanFunction plan, const sparsecoll::SelectionRequest& request) const;

 private:
  std::unique_ptr<sparsecoll::Kernels> kernels_;
  CudaStream stream_;
  std::unique_ptr<sparsecoll::Workspace> workspace_;
};

// A list on a device.
class DeviceList {
 public:
  explicit DeviceList(uint64_t capacity) : indices_(capacity), values_(capacity), count_(1) {}
  DeviceList(const std::vector<uint32_t>& indices, float value);

  sparsecoll::List target() const {
    sparsecoll::List list;
    list.indices = indices_.get();
    list.values = values_.get();
    list.count = count_.get();
    list.capacity = indices_.count();
    return list;
  }
  sparsecoll::ListView view() const { return {indices_.get(), values_.get(), count_.get()}; }
  uint32_t count() const { return onHost(count_.get()); }

 private:
  DeviceArray<uint32_t> indices_;
  DeviceArray<float> values_;
  DeviceArray<uint32_t> count_;
};

// A control block with one window over the whole vector, from which everything that reaches the key is taken.
class OneWindow {
 public:
  // room: entries that there is space for.
  OneWindow(uint64_t n, uint32_t key, uint64_t room);
  sparsecoll::PassArgs passOver(uint64_t n) const;
  const sparsecoll::WindowFacts& facts() const { return facts_; }
  uint64_t found() const { return onHost(window_.get()).found; }

 private:
  DeviceArray<sparsecoll::Control> control_;
  DeviceArray<sparsecoll::Window> window_;
  sparsecoll::WindowFacts facts_;
  DeviceArray<uint32_t> indices_;
  DeviceArray<float> values_;
};

}  // namespace bench
