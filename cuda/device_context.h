// A device as the kernels' callers see it: its size, how work is launched on it, and where findings go.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernel_table.h"
#include "core/kernels.h"
#include "core/list_rule.h"
#include "core/rule.h"
#include "cuda/device.h"
#include "cuda/findings.h"
#include "cuda/objects.h"
#include "cuda/selection_space.h"

namespace sparsecoll::cuda {

struct Grid {
  uint64_t blocks = 1;
  uint32_t threads = kThreads;
  uint32_t sharedBytes = 0;
};

template <class... Parameters, class... Arguments>
cudaError_t launchKernel(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
                         Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.sharedBytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

// Has the kernel loaded before anything is launched (core/kernel_table.h).
template <auto kKernel, class... Arguments>
cudaError_t launchOn(const Grid& grid, cudaStream_t stream, Arguments&&... arguments) {
  (void)Listed<kKernel>::is;
  return launchKernel(kKernel, grid, stream, std::forward<Arguments>(arguments)...);
}

class DeviceContext {
 public:
  static Result<DeviceContext> make(int ordinal);

  int ordinal() const { return ordinal_; }
  uint32_t processors() const { return processors_; }
  Finding* finding() const { return findings_->as<Finding>(); }
  Finding* notice() const { return finding() + 1; }  // see findings.h
  const std::shared_ptr<const Buffer>& findings() const { return findings_; }
  void setFindings(Buffer both) { findings_ = std::make_shared<const Buffer>(std::move(both)); }

  // A grid for `items` of work, `each` a block, no larger than keeps all processors busy: blocks take further items in
  // turn.
  Grid gridFor(uint64_t items, uint64_t each = kThreads, uint32_t threads = kThreads) const {
    const uint64_t blocks = (items + each - 1) / each;
    return {std::clamp<uint64_t>(blocks, 1, uint64_t{processors_} * kBlocksPerProcessor), threads, 0};
  }
  // A grid whose blocks each take one share of the work (shares.h), at least `least` of `units` that there may be.
  Grid gridForShares(uint64_t units, uint64_t least, uint32_t threads = kThreads) const {
    const uint64_t most = std::min<uint64_t>(uint64_t{processors_} * kSharesPerProcessor, kMostShares);
    return {std::clamp<uint64_t>((units + least - 1) / least, 1, most), threads, 0};
  }

  // name, size: what a failure is reported with.
  template <auto kKernel, class... Arguments>
  void launch(const char* name, uint64_t size, const Grid& grid, Stream stream, Arguments&&... arguments) {
    note(name, size,
         launchOn<kKernel>(grid, static_cast<cudaStream_t>(stream.handle), std::forward<Arguments>(arguments)...));
  }
  // The one kernel of a rule, which ruleOf has listed.
  void launch(const Rule& rule, Control* control, Stream stream) {
    note(rule.name, 1,
         launchKernel(rule.onDevice, {1, rule.threads}, static_cast<cudaStream_t>(stream.handle), control));
  }

  void launch(const ListRule& rule, const ListRuleArgs& args, uint64_t items, Stream stream) {
    note(rule.name, items,
         launchKernel(rule.onDevice, gridFor(items), static_cast<cudaStream_t>(stream.handle), args, finding()));
  }

  // What a call that enqueues returned: the first that failed since the last look is kept.
  void note(const char* name, uint64_t size, cudaError_t error) {
    enqueued_ = true;
    if (taken(error) != cudaSuccess && failure_.ok()) noteFailure(name, size, error);
  }
  // Whether anything may have been enqueued since the last time.
  bool tookEnqueued() { return std::exchange(enqueued_, false); }
  Status takeFailure() { return std::exchange(failure_, Status()); }

 private:
  void noteFailure(const char* name, uint64_t size, cudaError_t error);

  static constexpr uint32_t kBlocksPerProcessor = 16;
  static constexpr uint32_t kSharesPerProcessor = 6;

  int ordinal_ = 0;
  uint32_t processors_ = 1;
  std::shared_ptr<const Buffer> findings_;
  Status failure_;
  bool enqueued_ = false;
};

}  // namespace sparsecoll::cuda
