// Ranks that have the key and the place of one, and say something else than the exchange has to hear.
#include <atomic>

#include "core/bytes.h"
#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "transports/bootstrap/lobby.h"
#include "transports/bootstrap/search.h"
#include "transports/bootstrap/unique_id.h"

namespace sparsecoll {
namespace {

using namespace test;

constexpr uint64_t kLong = 60000;

Identity identityOf(const Invitation& invitation, int rank, int ranks) {
  return {invitation.key, invitation.job, Purpose::kRendezvous, rank, ranks};
}

// Until the other side has closed, so that everything said before is heard.
void stay(Link& link, const Deadline& deadline) {
  while (!link.closed() && !deadline.expired()) {
    (void)link.receive([](FrameType, Bytes) { return Status(); });
    std::array<pollfd, 1> watched = {link.watch()};
    (void)awaitAny(watched, Deadline::earlier(deadline, Deadline::in(20)));
    link.flush();
  }
}

// The connections are closed once it returns.
Status meetAndTellNothing(const Id& id, int rank, int ranks, const Deadline& deadline) {
  SC_TRY(const auto exchange, meet(read(id), rank, ranks, deadline));
  SC_TRY(const Parts all, exchange->allgather({}, deadline));
  return all.size() == size_t(ranks) ? Status() : fail(sparsecollInternalError, "{} parts", all.size());
}

using Say = std::function<void(Link&)>;

Result<Link> comeAs(const Invitation& invitation, int rank, int ranks, const Deadline& deadline) {
  const std::vector<Address> only = {invitation.address};
  const Identity self = identityOf(invitation, rank, ranks);
  return Search(self, "", [&] { return Result<std::vector<Address>>(only); }).run(deadline);
}

// What rank 0 makes of a rank 1 that says this. Rank 2 never tells its part, so that rank 0 hears all of it.
Failure heardByHub(const Say& say) {
  constexpr int kRanks = 3;
  const Id id = makeId();
  const Deadline deadline = Deadline::in(kLong);
  std::thread others([&] {
    const Invitation invitation = read(id);
    const auto silent = comeAs(invitation, 2, kRanks, deadline);
    auto link = comeAs(invitation, 1, kRanks, deadline);
    if (!silent.ok() || !link.ok()) return;
    say(*link);
    stay(*link, deadline);
  });
  const Status status = meetAndTellNothing(id, 0, kRanks, deadline);
  others.join();
  return status.failure();
}

// Until rank 1 has told its part.
void awaitOffer(Link& link, const Deadline& deadline) {
  for (bool told = false; !told && !deadline.expired();) {
    (void)link.receive([&](FrameType type, Bytes) -> Status {
      told = told || type == FrameType::kOffer;
      return {};
    });
    std::array<pollfd, 1> watched = {link.watch()};
    if (!told) (void)awaitAny(watched, deadline);
  }
}

// What rank 1 of two makes of a rank 0 that seats it and answers so.
Failure heardBySpoke(const Say& say) {
  constexpr int kRanks = 2;
  const Id id = makeId();
  const Deadline deadline = Deadline::in(kLong);
  std::thread hub([&] {
    const Invitation invitation = read(id);
    auto claimed = claim(invitation);
    if (!claimed.ok() || !listen(claimed->port, kBacklog).ok()) return;
    Lobby lobby(std::move(claimed->port), identityOf(invitation, 0, kRanks));
    while (!deadline.expired()) {
      for (Guest& guest : lobby.serve()) {
        guest.link.send(FrameType::kVerdict, writeVerdict({sparsecollSuccess, -1, {}, {}}));
        awaitOffer(guest.link, deadline);
        say(guest.link);
        return stay(guest.link, deadline);
      }
      std::vector<pollfd> watched;
      lobby.watch(watched);
      (void)awaitAny(watched, Deadline::in(20));
    }
  });
  const Status status = meetAndTellNothing(id, 1, kRanks, deadline);
  hub.join();
  return status.failure();
}

// What rank 1 of two makes of a rank 0 that it meets, calls and hears this from before it may talk.
Failure heardAsMeshIsMade(const Say& say) {
  constexpr int kRanks = 2;
  const Id id = makeId();
  const Invitation invitation = read(id);
  const Deadline deadline = Deadline::in(kLong);
  std::atomic<bool> over{false};
  const std::vector<Status> ended = onRanks(kRanks, [&](int rank) -> Status {
    SC_TRY(const auto exchange, meet(invitation, rank, kRanks, deadline));
    const auto none = [](bool, const Address&) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(); };
    if (rank != 0) {
      Status made = makeMesh(*exchange, {invitation.key, invitation.job, "", none}, deadline).takeStatus();
      over = true;
      return made;
    }
    Writer host, place;
    host.write(hostId());
    writeAddress(host, Address::loopback());
    SC_TRY(const Parts hosts, exchange->allgather(host.bytes(), deadline));
    SC_TRY(Fd listener, bindTo(Address::loopback()));
    SC_TRY(listen(listener, kBacklog));
    SC_TRY(const Address at, localAddress(listener));
    writeAddress(place, at);
    SC_TRY(const Parts places, exchange->allgather(place.bytes(), deadline));
    Lobby lobby(std::move(listener), {invitation.key, invitation.job, Purpose::kMesh, 0, kRanks});
    while (!over && !deadline.expired()) {  // on a busy machine rank 1 may come a second time
      for (Guest& guest : lobby.serve()) {
        say(guest.link);
        stay(guest.link, deadline);
      }
      std::vector<pollfd> watched;
      lobby.watch(watched);
      (void)awaitAny(watched, Deadline::in(20));
    }
    return {};
  });
  CHECK(ended[0].ok());
  return ended[1].failure();
}

std::vector<std::byte> partOf(uint32_t rank) {
  Writer writer;
  writer.write(rank);
  return writer.bytes();
}

}  // namespace

TEST_CASE("rank 0 names a rank that says what was not asked") {
  const Say wrong[] = {
      [](Link& link) { link.send(FrameType::kHeartbeat, {}); },
      [](Link& link) { link.send(FrameType::kTable, partOf(1)); },
      [](Link& link) {
        for (int offers = 0; offers < 3; ++offers) link.send(FrameType::kOffer, {});
      },
      [](Link& link) { link.send(FrameType::kOffer, std::vector<std::byte>(kMostPayloadBytes)); },
  };
  for (const Say& say : wrong) {
    const Failure failure = heardByHub(say);
    CHECK(failure.result == sparsecollCorrupted);
    CHECK(failure.peer == 1);
    CHECK(std::string(failure.text.c_str()) == "rank 1 says what was not asked");
  }
}

TEST_CASE("rank 0 passes on why a rank gives up, and whom that one names") {
  for (const int named : {-1, 0, 1}) {
    const Failure failure = heardByHub([&](Link& link) {
      link.send(FrameType::kVerdict, writeVerdict({sparsecollOutOfMemory, named, "a field", "of its own"}));
    });
    CHECK(failure.result == sparsecollOutOfMemory);
    CHECK(failure.peer == (named < 0 ? 1 : named));
    CHECK(std::string(failure.field.c_str()) == "a field");
    CHECK(std::string(failure.text.c_str()) == "of its own");
  }
  std::vector<std::byte> cut = writeVerdict({sparsecollOutOfMemory, -1, "a field", "of its own"});
  cut.pop_back();
  CHECK(heardByHub([&](Link& link) { link.send(FrameType::kVerdict, cut); }).result == sparsecollCorrupted);
}

TEST_CASE("a rank names rank 0 when that one says what was not asked") {
  const Say wrong[] = {
      [](Link& link) { link.send(FrameType::kHeartbeat, {}); },
      [](Link& link) { link.send(FrameType::kOffer, {}); },
      [](Link& link) { link.send(FrameType::kTable, partOf(1)); },
      [](Link& link) { link.send(FrameType::kOffer, partOf(0)); },
      [](Link& link) {
        for (int part = 0; part < 2; ++part) link.send(FrameType::kTable, partOf(0));
      },
  };
  for (const Say& say : wrong) {
    const Failure failure = heardBySpoke(say);
    CHECK(failure.result == sparsecollCorrupted);
    CHECK(failure.peer == 0);
    CHECK(std::string(failure.text.c_str()) == "rank 0 says what was not asked");
  }
  const Failure none = heardBySpoke([](Link& link) {
    for (const uint32_t rank : {0u, 1u}) link.send(FrameType::kTable, partOf(rank));
  });
  CHECK(none.result == sparsecollSuccess);
}

TEST_CASE("a rank names the rank it calls when that one says what was not asked") {
  const Failure failure = heardAsMeshIsMade([](Link& link) { link.send(FrameType::kOffer, {}); });
  CHECK(failure.result == sparsecollCorrupted);
  CHECK(failure.peer == 0);
  CHECK(std::string(failure.text.c_str()) == "rank 0 says what was not asked");
}

}  // namespace sparsecoll
