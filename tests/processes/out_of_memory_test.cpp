// Memory runs out in a process, at the i-th allocation by operator new in any of its threads, for every i until a call
// goes through (T46): the call tells, no process ends, and the other rank returns too. Foreign libraries, which take
// memory by malloc, keep theirs.
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <new>
#include <string>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {
namespace {

// -1: none is refused; else so many go through, and then one does not.
std::atomic<int64_t> g_left{-1};

void* given(std::size_t bytes, std::size_t alignment) noexcept {
  for (int64_t left = g_left.load(); left >= 0;)
    if (g_left.compare_exchange_weak(left, left - 1)) {
      if (left == 0) return nullptr;
      break;
    }
  const std::size_t wanted = bytes == 0 ? 1 : bytes;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(wanted);
  return std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
}

void* givenOrThrow(std::size_t bytes, std::size_t alignment) {
  void* const memory = given(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace
}  // namespace sparsecoll::test

void* operator new(std::size_t n) { return sparsecoll::test::givenOrThrow(n, sparsecoll::test::kUsual); }
void* operator new[](std::size_t n) { return sparsecoll::test::givenOrThrow(n, sparsecoll::test::kUsual); }
void* operator new(std::size_t n, std::align_val_t a) {
  return sparsecoll::test::givenOrThrow(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return sparsecoll::test::givenOrThrow(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, sparsecoll::test::kUsual);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, sparsecoll::test::kUsual);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace sparsecoll::test {
namespace {

constexpr uint64_t kLength = 300;
constexpr int kRanks = 2;
constexpr int kPoor = 1;  // the rank without memory

// A rank's things in one attempt.
struct Place {
  sparsecollComm_t comm = nullptr, other = nullptr;
  sparsecollReducer_t reducer = nullptr;
  Elements in{sparsecollFloat32, kLength, 1}, out{sparsecollFloat32, kLength};
  std::vector<char> blob;
};

sparsecollResult_t create(Place& at) {
  const sparsecollParams_t params = preset("topka", 0.1);
  return sparsecollReducerCreate(&at.reducer, kLength, sparsecollFloat32, &params, nullptr, at.comm);
}

sparsecollResult_t step(Place& at) { return sparsecollReducerRun(at.reducer, at.in.data(), at.out.data(), nullptr); }

sparsecollResult_t sum(Place& at) {
  const sparsecollParams_t params = preset("dense", 0);
  return sparsecollAllReduce(at.in.data(), at.out.data(), kLength, sparsecollFloat32, &params, at.comm, nullptr);
}

sparsecollResult_t exportState(Place& at) {
  size_t bytes = at.blob.size();
  return sparsecollReducerExport(at.reducer, at.blob.data(), &bytes, nullptr);
}

struct Call {
  const char* name;
  bool onReducer;  // there is one already, which has made a step
  sparsecollResult_t (*run)(Place& at, int rank);
};

const Call kCalls[] = {
    {"create", false, [](Place& at, int) { return create(at); }},
    {"dense", false, [](Place& at, int) { return sum(at); }},
    // Whoever went on to a sum without a word is met there, or told from.
    {"create, then a sum", false,
     [](Place& at, int) {
       const sparsecollResult_t created = create(at);
       const sparsecollResult_t summed = sum(at);
       return created != sparsecollSuccess ? created : summed;
     }},
    {"step", true, [](Place& at, int) { return step(at); }},
    {"export", true, [](Place& at, int) { return exportState(at); }},
    {"import", true,
     [](Place& at, int) { return sparsecollReducerImport(at.reducer, at.blob.data(), at.blob.size(), nullptr); }},
    {"split", true, [](Place& at, int rank) { return sparsecollCommSplit(at.comm, 0, rank, &at.other, nullptr); }},
    {"shrink", true, [](Place& at, int) { return sparsecollCommShrink(at.comm, nullptr, 0, &at.other, nullptr); }},
    {"move", true,
     [](Place& at, int rank) {
       const sparsecollResult_t split = sparsecollCommSplit(at.comm, 0, rank, &at.other, nullptr);
       if (split != sparsecollSuccess) return split;
       sparsecollReducer_t moved = nullptr;
       const sparsecollResult_t done = sparsecollReducerMove(at.reducer, at.other, &moved, nullptr);
       (void)sparsecollReducerDestroy(moved);
       return done;
     }},
    {"destroy", true,
     [](Place& at, int) {
       const sparsecollResult_t destroyed = sparsecollReducerDestroy(std::exchange(at.reducer, nullptr));
       const sparsecollResult_t left = sparsecollCommDestroy(std::exchange(at.comm, nullptr));
       return destroyed != sparsecollSuccess ? destroyed : left;
     }},
};

// Who waits for a rank that never came waits for all of initTimeoutMs.
sparsecollConfig_t configOver(const Way& way, bool joinsInVain) {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = way.engine;
  config.initTimeoutMs = joinsInVain ? 1500 : 20000;
  config.opTimeoutMs = 20000;
  config.abortTimeoutMs = 500;
  return config;
}

bool prepare(Place& at, const Call& call) {
  if (at.comm == nullptr) return false;
  if (!call.onReducer) return true;
  if (create(at) != sparsecollSuccess || step(at) != sparsecollSuccess) return false;
  size_t bytes = 0;
  if (sparsecollReducerExport(at.reducer, nullptr, &bytes, nullptr) != sparsecollSuccess) return false;
  at.blob.resize(bytes);
  return exportState(at) == sparsecollSuccess;
}

void clear(Place& at) {
  (void)sparsecollReducerDestroy(at.reducer);
  (void)sparsecollCommDestroy(at.other);
  (void)sparsecollCommDestroy(at.comm);
}

// numbers of the poor rank: 0 attempts in which an allocation was refused, 1 those of them that the call told of, 2
// told without a text, 3 attempts that could not be prepared. 4 calls that waited until the deadline. Of the other one:
// 2 to 4.
enum { kRefused, kTold, kWithoutText, kUnprepared, kOverdue };

// Attempt after attempt on both ranks, until nothing is refused; a stage of the poor one each.
void runOut(Processes& processes, int rank, Finding& finding, const Way& way, const Call* call, int64_t first,
            int64_t apart) {
  const sparsecollConfig_t config = configOver(way, call == nullptr);
  for (int64_t skip = first; finding.numbers[kUnprepared] == 0; skip += apart) {
    Place at;
    sparsecollResult_t result = sparsecollSuccess;
    int64_t left = -1;
    const auto refuse = [&] { g_left = rank == kPoor ? skip : -1; };
    const auto refuseNone = [&] { left = g_left.exchange(-1); };
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

void check(const Way& way, const Call* call, int64_t first, int64_t apart) {
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

// All of them where SPARSECOLL_TEST_EVERY is set, else some, others each time.
int64_t apart(int64_t some) { return std::getenv("SPARSECOLL_TEST_EVERY") != nullptr ? 1 : some; }
bool isWanted(const Call& call) {
  const char* const name = std::getenv("SPARSECOLL_TEST_CALL");
  return name == nullptr || std::string(name) == call.name;
}
int64_t someFirst(int64_t apart) { return static_cast<int64_t>(std::time(nullptr)) % apart; }

}  // namespace

TEST_CASE("memory runs out while a process joins") {
  for (const Way& way : engines()) check(way, nullptr, someFirst(apart(20)), apart(20));
}

TEST_CASE("memory runs out in a call of a process") {
  for (const Way& way : engines())
    for (const Call& call : kCalls)
      if (isWanted(call)) check(way, &call, someFirst(apart(5)), apart(5));
}

}  // namespace sparsecoll::test
