// How ranks choose the engine that they meet over: what each can use is made up here, and told by an all-gather.
#include "src/engines.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "tests/support/catch.h"
#include "tests/support/room.h"
#include "transports/bootstrap/oob.h"

namespace sparsecoll {
namespace {

using test::Room;

constexpr sparsecollTransport_t kAuto = sparsecollTransportAuto;
constexpr sparsecollTransport_t kNccl = sparsecollTransportNccl;
constexpr sparsecollTransport_t kUcx = sparsecollTransportUcx;
constexpr sparsecollTransport_t kTcp = sparsecollTransportTcp;

size_t rowOf(sparsecollTransport_t engine) {
  return static_cast<size_t>(std::ranges::find(kMeetingEngines, engine) - kMeetingEngines.begin());
}

// A rank on a device that has all engines.
Candidate able(sparsecollTransport_t named = kAuto) {
  Candidate one;
  one.named = named;
  one.onDevice = true;
  one.abilities[rowOf(kNccl)].version = 22809;
  one.abilities[rowOf(kUcx)].version = 11300;
  one.abilities[rowOf(kTcp)].version = 1;
  return one;
}
Candidate without(sparsecollTransport_t engine, const char* why, sparsecollTransport_t named = kAuto) {
  Candidate one = able(named);
  one.abilities[rowOf(engine)].lack = why;
  return one;
}
// The same without TCP.
Candidate withoutTcp(Candidate one) {
  one.abilities[rowOf(kTcp)].lack = "no TCP";
  return one;
}
Candidate onHost(Candidate one) {
  one.onDevice = false;
  one.abilities[0].lack = "host memory";
  return one;
}

struct Outcome {
  sparsecollResult_t result = sparsecollSuccess;
  int peer = -1;
  std::string field, text;
  sparsecollTransport_t engine = kAuto;
};

// What all ranks come to, which has to be the same.
Outcome agree(const std::vector<Candidate>& candidates) {
  const int ranks = static_cast<int>(candidates.size());
  Room room(ranks);
  std::vector<sparsecollOob_t> oobs;
  for (int rank = 0; rank < ranks; ++rank) oobs.push_back(room.of(rank));
  std::vector<Outcome> outcomes(candidates.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, r = static_cast<size_t>(rank)] {
      bootstrap::OobExchange exchange(oobs[r], static_cast<int>(r), ranks);
      auto choice = agreeOnEngine(exchange, candidates[r], Deadline::in(60000));
      Outcome& outcome = outcomes[r];
      if (choice.ok()) {
        outcome.engine = choice->engine;
        outcome.text = choice->reason.c_str();
        return;
      }
      const Status status = choice.takeStatus();
      outcome = {status.result(), status.failure().peer, status.failure().field.c_str(), status.failure().text.c_str(),
                 kAuto};
    });
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& one : outcomes) {
    CHECK(one.result == outcomes[0].result);
    CHECK(one.engine == outcomes[0].engine);
    CHECK(one.text == outcomes[0].text);
    CHECK(one.peer == outcomes[0].peer);
  }
  return outcomes[0];
}

}  // namespace

TEST_CASE("ranks that name no engine meet over the best that all of them have") {
  Outcome all = agree({able(), able(), able()});
  CHECK(all.engine == kNccl);
  CHECK(all.text == "NCCL is the best, and all ranks have it");

  Outcome some = agree({able(), without(kNccl, "NCCL was not found"), able(), without(kNccl, "too old")});
  CHECK(some.engine == kUcx);
  CHECK(some.text == "rank(s) 1, 3 cannot use NCCL (NCCL was not found)");

  Outcome host = agree({onHost(able()), onHost(able())});
  CHECK(host.engine == kUcx);
  CHECK(host.text == "UCX is the best, and all ranks have it");

  Outcome plain = agree({onHost(able()), onHost(without(kUcx, "no UCX"))});
  CHECK(plain.engine == kTcp);
  CHECK(plain.text == "rank(s) 1 cannot use UCX (no UCX)");
}

TEST_CASE("an engine that a rank names is the one for all, or for none") {
  CHECK(agree({able(kNccl), able(kNccl)}).engine == kNccl);
  CHECK(agree({able(kUcx), able(kUcx)}).engine == kUcx);
  Outcome one = agree({able(), able(kUcx), able()});
  CHECK(one.engine == kUcx);
  CHECK(one.text == "UCX was named");

  for (const int lacking : {0, 2}) {
    std::vector<Candidate> candidates(3, able(kNccl));
    candidates[static_cast<size_t>(lacking)] = without(kNccl, "this build has no CUDA back end", kNccl);
    const Outcome refused = agree(candidates);
    CHECK(refused.result == sparsecollUnsupported);
    CHECK(refused.peer == lacking);
    CHECK(refused.text == "NCCL was named, and rank(s) " + std::to_string(lacking) +
                              " cannot use NCCL (this build has no CUDA back end)");
  }

  const Outcome differ = agree({able(), able(kUcx), able(kNccl)});
  CHECK(differ.result == sparsecollMismatch);
  CHECK(differ.field == "transport");
  CHECK(differ.peer == 2);
  CHECK(differ.text == "rank 2 names NCCL, rank 1 names UCX");
}

TEST_CASE("ranks with no engine in common all learn what each of them lacks") {
  const Outcome none = agree({withoutTcp(without(kUcx, "no UCX")), without(kNccl, "no NCCL")});
  CHECK(none.result == sparsecollUnsupported);
  CHECK(none.peer == 1);
  CHECK(none.text ==
        "no engine that all ranks can use: rank(s) 1 cannot use NCCL (no NCCL); rank(s) 0 cannot use UCX (no UCX); "
        "rank(s) 0 cannot use TCP (no TCP)");
  const Outcome host = agree({onHost(able()), onHost(withoutTcp(without(kUcx, "no UCX")))});
  CHECK(host.result == sparsecollUnsupported);
  CHECK(host.text ==
        "no engine that all ranks can use: rank(s) 1 cannot use UCX (no UCX); rank(s) 1 cannot use TCP (no TCP)");
}

TEST_CASE("ranks with different versions of NCCL do not share it, those with different versions of UCX do") {
  std::vector<Candidate> candidates(3, able());
  candidates[1].abilities[rowOf(kNccl)].version = 21803;
  candidates[2].abilities[rowOf(kUcx)].version = 11700;
  const Outcome choice = agree(candidates);
  CHECK(choice.engine == kUcx);
  CHECK(choice.text == "rank(s) 1 cannot use NCCL (it has version 21803, rank 0 has 22809)");
}

TEST_CASE("ranks that share a device do not choose NCCL, unless it is named") {
  const auto on = [](uint64_t host, const char* device, sparsecollTransport_t named = kAuto) {
    Candidate one = able(named);
    one.host = host;
    one.deviceName = device;
    return one;
  };
  const Outcome shared = agree({on(1, "0000:01:00.0"), on(1, "0000:02:00.0"), on(1, "0000:02:00.0")});
  CHECK(shared.engine == kUcx);
  CHECK(shared.text == "rank(s) 2 cannot use NCCL (it shares device 0000:02:00.0 with rank 1)");
  CHECK(agree({on(1, "0000:01:00.0"), on(1, "0000:02:00.0")}).engine == kNccl);
  CHECK(agree({on(1, "0000:01:00.0"), on(2, "0000:01:00.0")}).engine == kNccl);
  CHECK(agree({on(1, ""), on(1, "")}).engine == kNccl);
  CHECK(agree({on(1, "0000:01:00.0", kNccl), on(1, "0000:01:00.0")}).engine == kNccl);

  std::vector<Candidate> alone(2, withoutTcp(on(1, "0000:01:00.0")));
  alone[0].abilities[rowOf(kUcx)].lack = "no UCX";
  const Outcome none = agree(alone);
  CHECK(none.result == sparsecollUnsupported);
  CHECK(none.peer == 1);
  CHECK(none.text ==
        "no engine that all ranks can use: rank(s) 1 cannot use NCCL (it shares device 0000:01:00.0 with rank 0); "
        "rank(s) 0 cannot use UCX (no UCX); rank(s) 0, 1 cannot use TCP (no TCP)");
}

TEST_CASE("ranks of different versions or with different kinds of memory all get Mismatch") {
  std::vector<Candidate> candidates(2, able());
  candidates[1] = onHost(candidates[1]);
  const Outcome memory = agree(candidates);
  CHECK(memory.result == sparsecollMismatch);
  CHECK(memory.field == "backend");
  CHECK(memory.peer == 1);
  CHECK(memory.text == "rank 1 has its vectors in host memory, rank 0 has not");
  CHECK(agree({onHost(able()), able()}).text == "rank 1 has its vectors on a device, rank 0 has not");
  std::vector<Candidate> versions(3, able());
  versions[2].version = SPARSECOLL_VERSION(9, 9, 9);
  // A rank reads of another version's part nothing but the version, so it cannot see that its own differs from all.
  const auto refused = choose(versions).takeStatusOrOk();
  CHECK(refused.result() == sparsecollMismatch);
  CHECK(refused.failure().field == "version");
  CHECK(refused.failure().peer == 2);
}

TEST_CASE("what another rank says may be anything, and is read with care") {
  for (const size_t bytes : {0, 3, 4, 7, 11, 30}) {
    CAPTURE(bytes);
    Room room(2);
    sparsecollOob_t oobs[2] = {room.of(0), room.of(1)};
    std::thread other([&] {
      bootstrap::OobExchange exchange(oobs[1], 1, 2);
      std::vector<std::byte> part(bytes, std::byte{0xff});
      const uint32_t version = SPARSECOLL_VERSION_CODE;
      std::memcpy(part.data(), &version, std::min(bytes, sizeof version));
      (void)exchange.allgather(part, Deadline::in(60000)).ok();
    });
    bootstrap::OobExchange exchange(oobs[0], 0, 2);
    CHECK(agreeOnEngine(exchange, able(), Deadline::in(60000)).takeStatusOrOk().result() == sparsecollCorrupted);
    other.join();
  }
}

TEST_CASE("a rank that names what no rank can name is told from others") {
  for (const auto& [named, onDevice] :
       {std::pair<uint16_t, uint16_t>{sparsecollTransportThreads, 0}, std::pair<uint16_t, uint16_t>{99, 0},
        std::pair<uint16_t, uint16_t>{sparsecollTransportAuto, 2}}) {
    Room room(2);
    sparsecollOob_t oobs[2] = {room.of(0), room.of(1)};
    Writer part;
    part.write(uint32_t{SPARSECOLL_VERSION_CODE});
    part.write(named);
    part.write(onDevice);
    std::thread other(
        [&] { (void)bootstrap::OobExchange(oobs[1], 1, 2).allgather(part.bytes(), Deadline::in(60000)).ok(); });
    bootstrap::OobExchange exchange(oobs[0], 0, 2);
    const Status refused = agreeOnEngine(exchange, able(), Deadline::in(60000)).takeStatusOrOk();
    other.join();
    CHECK(refused.result() == sparsecollCorrupted);
    CHECK(refused.failure().text == "a rank names engine " + std::to_string(named));
  }
}

TEST_CASE("the environment takes engines away from a process, by names that exist") {
  struct Row {
    const char* words;
    bool nccl, ucx, tcp, good;
  };
  for (const Row& row : {Row{"nccl", true, false, false, true}, Row{"ucx", false, true, false, true},
                         Row{"nccl,ucx", true, true, false, true}, Row{"tcp", false, false, true, true},
                         Row{"tcp,nccl,ucx", true, true, true, true}, Row{"", false, false, false, true},
                         Row{"infiniband", false, false, false, false}, Row{"ucx,NCCL", false, false, false, false},
                         Row{"ucx, nccl", false, false, false, false}}) {
    CAPTURE(row.words);
    setenv("SPARSECOLL_DISABLE_ENGINES", row.words, 1);
    for (const sparsecollTransport_t engine : kMeetingEngines) {
      auto ability = abilityHere(engine, true);
      REQUIRE(ability.ok() == row.good);
      if (!row.good) {
        CHECK(ability.takeStatus().result() == sparsecollInvalidArgument);
        continue;
      }
      const bool named = ability->lack == "SPARSECOLL_DISABLE_ENGINES names it";
      CHECK(named == (engine == kNccl ? row.nccl : engine == kUcx ? row.ucx : row.tcp));
    }
  }
  unsetenv("SPARSECOLL_DISABLE_ENGINES");
}

#ifdef SPARSECOLL_TEST_UCX
// Else whoever cannot open it would leave out every test over it.
TEST_CASE("UCX is taken where the system has it") {
  if (std::getenv("SPARSECOLL_UCX_LIBRARY") != nullptr) return (void)std::puts("skipped: another UCX is named");
  const bool here = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL) != nullptr;
  auto ability = abilityHere(kUcx, false);
  REQUIRE(ability.ok());
  CAPTURE(here, ability->lack.c_str());
  CHECK((ability->lack.view().find("was not found") == std::string_view::npos) == here);
  CHECK((ability->version >= 11100) == ability->lack.empty());
}
#endif

}  // namespace sparsecoll
