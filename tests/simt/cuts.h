// A pass and a cut that use most of what these can do, on an emulated device and on the host.
#pragma once

#include <limits>

#include "tests/device/backends.h"
#include "tests/simt/simt.h"
#include "tests/unit/cut_step.h"

namespace sparsecoll::test {

// Windows that a block cuts, that many blocks cut, and whose candidates are too many for their room.
class Cuts {
 public:
  Cuts() : acc_(makeElements<float>(Fill::kSmooth, 75000, 3)) {
    acc_[4] = acc_[66000] = std::numeric_limits<float>::infinity();
    const uint64_t key = Magnitude<float>::of(4.0F);
    windows_ = {{1, 3000, 40, key, 400}, {3000, 74000, 900, key, 4000}, {74000, 74990, 20, key, 1}};
    BackEnd host = hostBackEnd(need());
    CutStep<float> step(acc_, windows_);
    expected_ = step.run(*host, true, host.stream());
  }

  bool areRight() const {
    BackEnd device = deviceBackEnd(need());
    CutStep<float> step(acc_, windows_);
    const Selected<float> got = step.run(*device, true, device.stream());
    const bool good = device->findings(device.stream(), Deadline::in(600000)).ok() && simt::errors().empty();
    return good && difference(got, expected_) == "" && step.control.nonFinite.count == 2;
  }

 private:
  WorkspaceNeed need() const { return {acc_.size(), windows_.size(), 1, 1}; }
  std::vector<float> acc_;
  std::vector<WindowSpec> windows_;
  Selected<float> expected_;
};

}  // namespace sparsecoll::test
