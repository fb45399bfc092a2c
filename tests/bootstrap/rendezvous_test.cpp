// Ranks that meet by a unique id: all come, some do not, some come twice, with other numbers, or with a used id.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "transports/bootstrap/oob.h"

namespace sparsecoll {
namespace {

using namespace test;

constexpr uint64_t kLong = 60000;

std::string textOf(const Status& status) { return status.failure().text.c_str(); }

// An exchange whose ranks all have the same to say, whatever this one has drawn.
class Told : public Exchange {
 public:
  explicit Told(std::initializer_list<char> letters) {
    for (const char letter : letters) parts_.emplace_back(kKeyBytes, static_cast<std::byte>(letter));
  }
  explicit Told(Parts parts) : parts_(std::move(parts)) {}
  int rank() const override { return 0; }
  int ranks() const override { return static_cast<int>(parts_.size()); }
  Result<Parts> allgather(Bytes, const Deadline&) override { return parts_; }

 private:
  Parts parts_;
};

bool allGood(const std::vector<Status>& results) {
  return std::all_of(results.begin(), results.end(), [](const Status& status) { return status.ok(); });
}

}  // namespace

TEST_CASE("ranks that share an id meet and hear each other, and nothing of it stays open") {
  const size_t before = openDescriptors();
  for (const int ranks : {1, 2, 3, 8}) {
    CAPTURE(ranks);
    const Id id = makeId();
    CHECK(listeners().empty());  // the port is taken, not open
    const auto results = onRanks(ranks, [&](int rank) { return meetAndTalk(id, rank, ranks, kLong); });
    for (const Status& status : results) CHECK(textOf(status).empty());
    CHECK(allGood(results));
  }
  CHECK(openDescriptors() == before);
}

TEST_CASE("a secret drawn together is of what every rank has drawn, in the order of ranks, and of the root") {
  const auto drawn = [](std::initializer_list<char> letters, const Key& root = Key()) {
    Told exchange(letters);
    auto secret = drawTogether(exchange, Deadline::in(kLong), root);
    REQUIRE(secret.ok());
    const auto bytes = secret->key.bytes();
    CHECK_FALSE(std::equal(bytes.begin(), bytes.end(), secret->job.begin(), secret->job.end()));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto once = drawn({'a', 'b', 'c'});
  CHECK(once == drawn({'a', 'b', 'c'}));
  for (const auto& other : {drawn({'x', 'b', 'c'}), drawn({'a', 'x', 'c'}), drawn({'a', 'b', 'x'}),
                            drawn({'b', 'a', 'c'}), drawn({'a', 'b'})})
    CHECK(once != other);
  const std::vector<std::byte> root(kKeyBytes, std::byte{7});
  CHECK(once != drawn({'a', 'b', 'c'}, Key(std::span<const std::byte, kKeyBytes>(root))));
  Told shortOne(Parts{std::vector<std::byte>(kKeyBytes), std::vector<std::byte>(kKeyBytes - 1)});
  CHECK(drawTogether(shortOne, Deadline::in(kLong)).takeStatus().result() == sparsecollCorrupted);
}

TEST_CASE("no listener is left once ranks have met, and none was ever off loopback") {
  const Id id = makeId();
  std::vector<std::string> during;
  const auto results = onRanks(4, [&](int rank) -> Status {
    const Deadline deadline = Deadline::in(kLong);
    SC_TRY(const auto exchange, meet(read(id), rank, 4, deadline));
    if (rank == 0) during = listeners();
    return talk(*exchange, deadline);
  });
  CHECK(allGood(results));
  CHECK(during.empty());
  CHECK(listeners().empty());

  const Id waiting = makeId();
  Status waited;
  std::thread first([&] { waited = meetAndTalk(waiting, 0, 2, kLong); });
  std::vector<std::string> open;
  for (const Deadline deadline = Deadline::in(kLong); open.empty() && !deadline.expired(); pause(deadline))
    open = listeners();
  CHECK(meetAndTalk(waiting, 1, 2, kLong).ok());
  first.join();
  CHECK(waited.ok());
  REQUIRE(open.size() == 1);
  CHECK(open[0].substr(0, 9) == "0100007F:");
  CHECK(listeners().empty());
  CHECK_FALSE(meetAndTalk(makeId(), 0, 2, 50).ok());
  CHECK(listeners().empty());
}

TEST_CASE("the failure of a meeting names the ranks that did not come, on every rank that did") {
  const Id id = makeId();
  const auto results = onRanks(6, [&](int rank) -> Status {
    if (rank == 2 || rank == 5) return {};
    return meetAndTalk(id, rank, 6, rank == 0 ? 400 : kLong);
  });
  for (const int rank : {0, 1, 3, 4}) {
    const Status& status = results[static_cast<size_t>(rank)];
    CHECK(status.result() == sparsecollTimeout);
    CHECK(status.failure().peer == 2);
    CHECK_THAT(textOf(status), Catch::Contains("2, 5"));
  }
}

TEST_CASE("ranks without rank 0 end at their deadline and say whom they miss") {
  const Id id = makeId();
  const Status status = meetAndTalk(id, 1, 2, 200);
  CHECK(status.result() == sparsecollTimeout);
  CHECK(status.failure().peer == 0);
}

TEST_CASE("an id serves once") {
  const Id id = makeId();
  REQUIRE(allGood(onRanks(2, [&](int rank) { return meetAndTalk(id, rank, 2, kLong); })));
  const auto again = onRanks(2, [&](int rank) { return meetAndTalk(id, rank, 2, kLong); });
  for (const Status& status : again) CHECK(status.result() == sparsecollInvalidUsage);
}

TEST_CASE("an id ends with its time, and with it the port") {
  const Id id = makeId(20);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(meetAndTalk(id, 0, 2, kLong).result() == sparsecollInvalidUsage);
  const size_t before = openDescriptors();
  for (int i = 0; i < 50; ++i) (void)makeId(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  (void)makeId(1);
  CHECK(openDescriptors() <= before + 2);
}

TEST_CASE("a rank with another key learns that it is not of this job, and the others meet") {
  const Id id = makeId();
  Id wrong = id;
  wrong[60] ^= 1;  // in the key
  std::optional<Status> intruder;
  const auto results = onRanks(3, [&](int rank) -> Status {
    if (rank == 2) {
      intruder = meetAndTalk(wrong, rank, 3, kLong);
      return {};
    }
    return meetAndTalk(id, rank == 1 ? 1 : 0, 3, 700);
  });
  CHECK(intruder->result() == sparsecollAuthFailed);
  CHECK(results[0].result() == sparsecollTimeout);  // of all three, only the real ones came
  CHECK_THAT(textOf(results[0]), Catch::Contains("2"));
}

TEST_CASE("the second claim of a rank is sent away, and the first stays") {
  const Id id = makeId();
  std::vector<Status> claims(2);
  const auto results = onRanks(4, [&](int who) -> Status {
    const int rank = who < 3 ? who : 1;
    if (who == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));  // both claims come before
    // In a process of its own the second would not know of the first.
    Invitation invitation = read(id);
    const Deadline deadline = Deadline::in(kLong);
    if (who == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      Hello hello = Hello::asClient({invitation.key, invitation.job, Purpose::kRendezvous, rank, 3});
      auto socket = socketFor(invitation.address);
      if (!socket.ok()) return socket.takeStatus();
      SC_TRY(connectTo(*socket, invitation.address));
      Stranger stranger(std::move(*socket), std::move(hello), deadline, true);
      while (stranger.advance() == Stranger::State::kGoing && !deadline.expired()) {
        std::array<pollfd, 1> watched = {stranger.watch()};
        (void)awaitAny(watched, deadline);
      }
      Link link = stranger.intoLink(0);
      Status verdict = fail(sparsecollInternalError, "no verdict");
      for (bool heard = false; !heard && !deadline.expired();) {
        std::array<pollfd, 1> watched = {link.watch()};
        (void)awaitAny(watched, deadline);
        (void)link.receive([&](FrameType, Bytes payload) -> Status {
          heard = true;
          SC_TRY(const Failure why, readVerdict(payload));
          verdict = Status(why);
          return {};
        });
        heard = heard || link.closed();
      }
      return verdict;
    }
    return meetAndTalk(id, rank, 3, kLong);
  });
  CHECK(results[0].ok());
  CHECK(results[1].ok());
  CHECK(results[2].ok());
  CHECK(results[3].result() == sparsecollInvalidUsage);
  CHECK(results[3].failure().peer == 1);
}

TEST_CASE("ranks that were told different numbers of ranks all learn so") {
  const Id id = makeId();
  const auto results = onRanks(2, [&](int rank) { return meetAndTalk(id, rank, rank == 0 ? 2 : 3, kLong); });
  for (const Status& status : results) {
    CHECK(status.result() == sparsecollMismatch);
    CHECK(std::string(status.failure().field.c_str()) == "nRanks");
  }
}

TEST_CASE("an id for the loopback of another host is refused at once, with the remedy") {
  Invitation invitation = read(makeId());
  invitation.host ^= 1;
  const Status status = meet(invitation, 1, 2, Deadline::in(kLong)).takeStatus();
  CHECK(status.result() == sparsecollInvalidUsage);
  CHECK_THAT(textOf(status), Catch::Contains("interface"));
}

TEST_CASE("a rank that gives up while ranks are connected ends it for all, with its reason, but for want of memory") {
  const auto [own, heard] = GENERATE(table<sparsecollResult_t, sparsecollResult_t>(
      {{sparsecollUnsupported, sparsecollUnsupported}, {sparsecollOutOfMemory, sparsecollPeerFailed}}));
  const sparsecollResult_t why = own;
  const Id id = makeId();
  std::atomic<int> met{0};
  const auto results = onRanks(3, [&](int rank) -> Status {
    const Deadline deadline = Deadline::in(kLong);
    SC_TRY(const auto exchange, meet(read(id), rank, 3, deadline));
    ++met;
    if (rank != 1) return talk(*exchange, deadline);
    while (met < 3 && !deadline.expired()) std::this_thread::yield();  // who comes later hears of nothing
    exchange->giveUp({why, -1, {}, "its reason"});
    return fail(why, "its reason");
  });
  for (const int rank : {0, 2}) {
    CHECK(results[static_cast<size_t>(rank)].result() == heard);
    CHECK(results[static_cast<size_t>(rank)].failure().peer == 1);
    CHECK(textOf(results[static_cast<size_t>(rank)]) == "its reason");
  }
}

TEST_CASE("an all-gather of the caller's that fails, comes late or gives back something else is named") {
  struct Caller {
    int code;
    uint64_t lengthOfOther;
    bool keepsOwn;
  };
  const auto gathered = [](Caller caller, uint64_t timeoutMs) {
    sparsecollOob_t oob = SPARSECOLL_INIT(sparsecollOob_t);
    oob.user = &caller;
    oob.allgather = [](void* user, const void* send, void* recv, size_t bytes, uint64_t) {
      const auto& how = *static_cast<const Caller*>(user);
      auto* const to = static_cast<std::byte*>(recv);
      if (how.keepsOwn) std::memcpy(to, send, bytes);
      if (bytes == sizeof how.lengthOfOther) std::memcpy(to + bytes, &how.lengthOfOther, bytes);
      return how.code;
    };
    return OobExchange(oob, 0, 2).allgather(bytesOf("own"), Deadline::in(timeoutMs)).takeStatusOrOk();
  };
  CHECK(gathered({0, 3, true}, kLong).ok());
  const Status failed = gathered({7, 3, true}, kLong);
  CHECK(failed.result() == sparsecollRemoteError);
  CHECK(textOf(failed) == "the caller's allgather returned 7");
  CHECK(gathered({7, 3, true}, 0).result() == sparsecollTimeout);
  CHECK(gathered({0, 3, false}, kLong).result() == sparsecollCorrupted);
  CHECK(gathered({0, uint64_t{1} << 40, true}, kLong).result() == sparsecollCorrupted);
}

TEST_CASE("ranks listen at the interface that is named, and say which one is not there") {
  for (const char* const name : {"lo", "none0"}) {
    CAPTURE(name);
    const Id id = makeId();
    const auto results = onRanks(2, [&](int rank) -> Status {
      const Deadline deadline = Deadline::in(kLong);
      const Invitation invitation = read(id);
      SC_TRY(const auto exchange, meet(invitation, rank, 2, deadline));
      const auto card = [](bool, const Address&) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(); };
      SC_TRY(const Mesh mesh, makeMesh(*exchange, {invitation.key, invitation.job, name, card}, deadline));
      return mesh.at.isLoopback() ? Status() : fail(sparsecollInternalError, "at {}", mesh.at.text());
    });
    for (const Status& status : results) {
      if (name == std::string("lo")) CHECK(textOf(status).empty());
      if (name == std::string("none0")) CHECK_THAT(textOf(status), Catch::Contains("no interface none0"));
    }
  }
}

}  // namespace sparsecoll
