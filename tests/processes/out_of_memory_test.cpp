// Memory runs out in a process, at the i-th allocation by operator new in any of its threads, for every i until a call
// goes through (T46): the call tells, no process ends, and the other rank returns too.
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/every.h"
#include "tests/support/poor_calls.h"
#include "tests/support/refused_memory.h"

namespace sparsecoll::test {
namespace {

constexpr int kRanks = 2;
constexpr int kPoor = 1;  // the rank without memory

// Who waits for a rank that never came waits for all of initTimeoutMs.
sparsecollConfig_t configOver(const Way& way, bool joinsInVain) {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = way.engine;
  config.initTimeoutMs = joinsInVain ? 1500 : 20000;
  config.opTimeoutMs = 20000;
  config.abortTimeoutMs = 500;
  return config;
}

// numbers of the poor rank: 0 attempts in which an allocation was refused, 1 those of them that the call told of, 2
// told without a text, 3 attempts that could not be prepared. 4 calls that waited until the deadline. Of the other one:
// 2 to 4.
enum { kRefused, kTold, kWithoutText, kUnprepared, kOverdue };

// Attempt after attempt on both ranks, until nothing is refused; a stage of the poor one each.
void runOut(Processes& processes, int rank, Finding& finding, const Way& way, const PoorCall* call, int64_t first,
            int64_t apart) {
  const sparsecollConfig_t config = configOver(way, call == nullptr);
  for (int64_t skip = first; finding.numbers[kUnprepared] == 0; skip += apart) {
    PoorPlace at;
    sparsecollResult_t result = sparsecollSuccess;
    int64_t left = -1;
    const auto refuse = [&] { memoryLeft = rank == kPoor ? skip : -1; };
    const auto refuseNone = [&] { left = memoryLeft.exchange(-1); };
    if (call == nullptr) {  // joining itself
      refuse();
      at.comm = processes.join(rank, &config);
      refuseNone();
      result = static_cast<sparsecollResult_t>(finding.made);
    } else {
      at.comm = processes.join(rank, &config);
      if (!prepare(at, *call)) finding.numbers[kUnprepared] = skip + 1;
      refuse();
      if (finding.numbers[kUnprepared] == 0) result = call->run(at, rank);
      refuseNone();
    }
    if (result != sparsecollSuccess && sparsecollGetLastError()[0] == '\0') ++finding.numbers[kWithoutText];
    finding.numbers[kOverdue] += call != nullptr && result == sparsecollTimeout ? 1 : 0;
    const bool refused = rank == kPoor && left == -1;
    finding.numbers[kRefused] += refused ? 1 : 0;
    finding.numbers[kTold] += refused && result != sparsecollSuccess ? 1 : 0;
    clear(at);
    if (rank == kPoor) {
      finding.peer = refused ? 1 : 0;  // once more?
      ++finding.stage;
    } else {
      const int attempts = static_cast<int>((skip - first) / apart) + 1;
      if (!processes.awaitStage(kPoor, attempts)) return;
    }
    if (processes[kPoor].peer == 0) return;
  }
}

void check(const Way& way, const PoorCall* call, int64_t first, int64_t apart) {
  const std::string name = call == nullptr ? "init" : call->name;
  CAPTURE(way.name(), name, first, apart);
  Processes processes(kRanks, way);
  processes.start([&](int rank, Finding& finding) { runOut(processes, rank, finding, way, call, first, apart); });
  const bool ended = processes.awaitEnd(apart == 1 ? 3600000 : 300000);
  const Finding& poor = processes[kPoor];
  CAPTURE(poor.stage.load(), poor.text, processes[0].text);
  CHECK(ended);
  CHECK(poor.numbers[kRefused] == poor.stage - 1);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(processes[rank].numbers[kWithoutText] == 0);
    CHECK(processes[rank].numbers[kUnprepared] == 0);
    CHECK(processes[rank].numbers[kOverdue] == 0);
  }
  std::cout << way.name() << ", " << name << ": " << poor.numbers[kRefused] << " allocations refused, "
            << poor.numbers[kTold] << " told\n";
}

bool isWanted(const PoorCall& call) {
  const char* const name = std::getenv("SPARSECOLL_TEST_CALL");
  return name == nullptr || std::string(name) == call.name;
}

}  // namespace

TEST_CASE("memory runs out while a process joins") {
  for (const Way& way : engines()) check(way, nullptr, someFirst(apart(20)), apart(20));
}

TEST_CASE("memory runs out in a call of a process") {
  for (const Way& way : engines())
    for (const PoorCall& call : kPoorCalls)
      if (isWanted(call)) check(way, &call, someFirst(apart(5)), apart(5));
}

}  // namespace sparsecoll::test
