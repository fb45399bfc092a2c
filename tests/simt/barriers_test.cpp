// The barriers of the pass and the cut, left out one after the other: the host's bits are not there any more, under
// some schedule, or the emulation has something to say. So does a test notice where one is forgotten.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/simt/cuts.h"

namespace sparsecoll {
namespace {

using test::Cuts;

constexpr unsigned kMostSeconds = 60;

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
