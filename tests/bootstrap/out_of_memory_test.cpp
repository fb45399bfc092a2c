// The thread that watches the other ranks is without memory (T46): its rank loses them and says why, the process lives.
#include <iostream>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "tests/support/malloc_hooks.h"
#include "transports/bootstrap/control.h"

namespace sparsecoll {
namespace {

using namespace test;
using engine::PeerState;

constexpr uint64_t kLong = 60000;
// After its first heartbeat no rank speaks by itself: a word at the wrong moment would meet the refusal meant for another.
constexpr ControlTimes kSilent = {.heartbeatMs = kLong, .silenceMs = 2 * kLong};

Result<std::shared_ptr<Control>> makeControl(const Id& id, int rank, int ranks) {
  const Deadline deadline = Deadline::in(kLong);
  const Invitation invitation = read(id);
  SC_TRY(const auto exchange, meet(invitation, rank, ranks, deadline));
  const auto show = [&](bool, const Address&) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(8); };
  SC_TRY(Mesh mesh, makeMesh(*exchange, {invitation.key, invitation.job, "", show}, deadline));
  return Control::make(std::move(mesh), kSilent);
}

using Controls = std::vector<std::shared_ptr<Control>>;

Controls makeControls(int ranks) {
  const Id id = makeId();
  Controls controls(static_cast<size_t>(ranks));
  const auto results = onRanks(ranks, [&](int rank) -> Status {
    SC_TRY(controls[static_cast<size_t>(rank)], makeControl(id, rank, ranks));
    return {};
  });
  for (const Status& status : results) REQUIRE(status.ok());
  return controls;
}

}  // namespace

TEST_CASE("a rank whose watching thread finds no memory loses the others, and they it") {
  if (!memory::hooked()) {
    std::cout << "skipped: the sanitizer has an allocator of its own\n";
    return;
  }
  constexpr int kRanks = 3;
  const Controls controls = makeControls(kRanks);
  // A thread that has two letters, one after the other, has been through its loop: it is not at its start any more.
  for (size_t letters = 1; letters <= 2; ++letters)
    for (const auto& from : controls)
      for (const auto& to : controls) {
        if (from == to) continue;
        from->write(to->rank(), FrameType::kView, {});
        const auto came = [&] { return to->mail(from->rank()).size() == letters; };
        REQUIRE(to->await(Deadline::in(kLong), came));
      }
  const std::vector<std::byte> letter(2000);
  memory::refuseOthers(true);
  controls[2]->write(0, FrameType::kView, letter);  // rank 0 has to keep it
  const Deadline deadline = Deadline::in(kLong);
  while (controls[0]->stateOf(1) == PeerState::kHere && !deadline.expired()) pause(deadline);
  memory::refuseOthers(false);
  for (const int peer : {1, 2}) {
    CHECK(controls[0]->stateOf(peer) == PeerState::kLost);
    CHECK_FALSE(controls[0]->reaches(peer));
    CHECK(std::string(controls[0]->reasonOf(peer).c_str()).find("cannot watch") != std::string::npos);
    const Control& other = *controls[static_cast<size_t>(peer)];
    while (other.stateOf(0) == PeerState::kHere && !deadline.expired()) pause(deadline);
    CHECK(other.stateOf(0) == PeerState::kLost);
  }
}

TEST_CASE("a rank that finds no memory for a word to another has lost it, and all hear of it") {
  if (!memory::hooked()) {
    std::cout << "skipped: the sanitizer has an allocator of its own\n";
    return;
  }
  const Controls controls = makeControls(3);
  const std::vector<std::byte> letter(2000);
  memory::refuseAfter(0);
  controls[0]->write(1, FrameType::kView, letter);
  REQUIRE(memory::refused());
  const Deadline deadline = Deadline::in(kLong);
  const auto loses = [&](int rank, int peer) {
    const Control& control = *controls[static_cast<size_t>(rank)];
    while (control.stateOf(peer) == PeerState::kHere && !deadline.expired()) pause(deadline);
    return control.stateOf(peer) == PeerState::kLost;
  };
  CHECK(loses(0, 1));
  CHECK(std::string(controls[0]->reasonOf(1).c_str()) == "no memory for a word to rank 1");
  CHECK_FALSE(controls[0]->reaches(1));
  CHECK(loses(1, 0));
  CHECK(loses(2, 1));
  CHECK(controls[0]->stateOf(2) == PeerState::kHere);
}

}  // namespace sparsecoll
