// The barriers of the pass and the cut, left out one after the other: the host's bits are not there any more, under
// some schedule, or the emulation has something to say. So does a test notice where one is forgotten.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/device/backends.h"
#include "tests/simt/simt.h"
#include "tests/unit/cut_step.h"

namespace sparsecoll {
namespace {

using test::CutStep;
using test::Selected;
using test::WindowSpec;

constexpr unsigned kMostSeconds = 60;

// Windows that a block cuts, that many blocks cut, and whose candidates are too many for their room.
class Cuts {
 public:
  Cuts() : acc_(test::makeElements<float>(test::Fill::kSmooth, 75000, 3)) {
    acc_[4] = acc_[66000] = std::numeric_limits<float>::infinity();
    const uint64_t key = Magnitude<float>::of(4.0F);
    windows_ = {{1, 3000, 40, key, 400}, {3000, 74000, 900, key, 4000}, {74000, 74990, 20, key, 1}};
    test::BackEnd host = test::hostBackEnd(need());
    CutStep<float> step(acc_, windows_);
    expected_ = step.run(*host, true, host.stream());
  }

  bool areRight() const {
    test::BackEnd device = test::deviceBackEnd(need());
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

// In a process of its own, whose memory it may ruin.
bool isNoticed(const Cuts& cuts, const simt::BarrierPlace& place, uint64_t seed) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    alarm(kMostSeconds);
    simt::schedule(seed);
    simt::leaveOut(place);
    _exit(cuts.areRight() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status != 0;
}

TEST_CASE("a barrier that is missing from a kernel is noticed") {
  const Cuts cuts;
  simt::watchBarriers();
  REQUIRE(cuts.areRight());
  const std::vector<simt::BarrierPlace> places = simt::barriersMet();
  REQUIRE(!isNoticed(cuts, {"none", 1}, 1));
  std::set<std::string> noticed;
  size_t count = 0;
  for (const simt::BarrierPlace& place : places) {
    bool found = false;
    for (uint64_t seed = 0; seed < 4 && !found; ++seed) found = isNoticed(cuts, place, seed);
    if (!found) continue;  // others order what it does, too
    const std::string file = place.file;
    noticed.insert(file.substr(file.rfind('/') + 1));
    ++count;
  }
  CHECK(noticed ==
        std::set<std::string>{"block.h", "cut.cu", "cut_boundary.cu", "cut_emit.cu", "descent.h", "pass.cu"});
  CHECK(count >= 10);
}

}  // namespace
}  // namespace sparsecoll
