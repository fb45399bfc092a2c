// The same calls on the host's kernels and on device code, to be compared.
#pragma once

#include <memory>

#include "cuda/cuda_kernels.h"
#include "host/host_kernels.h"
#include "tests/device/checks.h"

namespace sparsecoll::test {

// A back end, and a stream of its own with a workspace.
class BackEnd {
 public:
  BackEnd(std::shared_ptr<Kernels> kernels, const WorkspaceNeed& need) : kernels_(std::move(kernels)) {
    auto workspace = kernels_->makeWorkspace(need, nullptr);
    REQUIRE(workspace.ok());
    workspace_ = std::move(*workspace);
  }
  Kernels& operator*() { return *kernels_; }
  Kernels* operator->() { return kernels_.get(); }
  Stream stream() const { return {nullptr, workspace_.get()}; }

 private:
  std::shared_ptr<Kernels> kernels_;
  std::unique_ptr<Workspace> workspace_;
};

inline BackEnd hostBackEnd(const WorkspaceNeed& need) { return {host::makeHostKernels(), need}; }
inline BackEnd deviceBackEnd(const WorkspaceNeed& need) {
  auto kernels = cuda::makeCudaKernels(0);
  REQUIRE(kernels.ok());
  return {std::move(*kernels), need};
}

// Runs `check` in the order of a device's threads that is easiest to follow, and in some that are not.
template <class Check>
void underSchedules(Check check) {
  for (const uint64_t seed : {0, 1}) {
    CAPTURE(seed);
    simt::schedule(seed);
    check();
    checkEmulation();
  }
  simt::schedule(0);
}

}  // namespace sparsecoll::test
