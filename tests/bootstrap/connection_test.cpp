// Data connections: messages leave only for receives that are posted, frames behind their envelopes, in pieces of any
// length, also once their sender has gone, and whatever else comes ends the connection and nothing more.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/bootstrap/connections.h"
#include "tests/bootstrap/parties.h"
#include "transports/tcp.h"

namespace sparsecoll::tcp {

TEST_CASE("a socket that had nothing to take is not closed, whatever has failed before") {
  const Ends ends = makeEnds();
  for (const int before : {0, EPIPE}) {
    bool closed = false;
    errno = before;
    CHECK(bootstrap::send(ends.a, {}, closed) == 0);
    CHECK_FALSE(closed);
  }
}

TEST_CASE("messages of any length come whole and in order, through a socket that takes little at a time") {
  Pair pair(makeEnds(4096));
  const std::vector<size_t> lengths = {0, 1, 15, 16, 17, 4079, 4080, 4081, 70000, 0, 300000};
  // Both ways at once, each end's with a tag of its own.
  struct Exchanged {
    Message sent, come;
  };
  std::vector<std::unique_ptr<Exchanged>> all;
  for (size_t m = 0; m < 2 * lengths.size(); ++m) {
    const size_t length = lengths[m / 2];
    all.push_back(
        std::make_unique<Exchanged>(Exchanged{Message(length, static_cast<char>('a' + m)), Message(length + 5)}));
    Connection& from = m % 2 == 0 ? pair.a : pair.b;
    Connection& to = m % 2 == 0 ? pair.b : pair.a;
    const auto tag = static_cast<uint16_t>(m % 2);
    const bool late = m % 3 == 0;
    if (late) from.post(all[m]->sent.send(tag));
    to.post(all[m]->come.receive(tag));
    if (!late) from.post(all[m]->sent.send(tag));
    if (m % 5 == 0) pair.run();
  }
  pair.run();
  for (size_t m = 0; m < all.size(); ++m) {
    const auto& [sent, come] = *all[m];
    CAPTURE(m, sent.bytes.size());
    CHECK(sent.request.state == State::kDone);
    REQUIRE(come.request.state == State::kDone);
    REQUIRE(come.request.moved == sent.bytes.size());
    CHECK(std::equal(sent.bytes.begin(), sent.bytes.end(), come.bytes.begin()));
  }
  CHECK(pair.tally.ended == 2 * all.size());
  CHECK(pair.tally.halfway == 0);
}

TEST_CASE(
    "frames leave at once in both directions, and a rank that has not taken an envelope reads none of its frame") {
  for (const size_t length : {size_t{10}, size_t{4000}, size_t{1} << 20}) {
    CAPTURE(length);
    Pair pair(makeEnds(4096));
    Message toB(length, 'a'), toA(length, 'b'), atB(length), atA(length), notice(4), noticed(4);
    pair.b.post(noticed.receive(engine::kNotices));
    pair.a.post(toB.send(engine::kFrames));
    pair.b.post(toA.send(engine::kFrames));
    pair.a.post(notice.send(engine::kNotices));
    pair.run();
    CHECK(pair.a.interest() == (pair.a.full() ? uint32_t{EPOLLOUT} : 0));
    CHECK_FALSE(noticed.request.ended());
    CHECK(pair.tally.halfway == 0);
    pair.a.post(atA.receive(engine::kFrames));
    pair.run();
    CHECK(atA.request.state == State::kDone);
    CHECK(atA.bytes == toA.bytes);
    CHECK_FALSE(noticed.request.ended());
    pair.b.post(atB.receive(engine::kFrames));
    pair.run();
    CHECK(atB.bytes == toB.bytes);
    CHECK(noticed.bytes == notice.bytes);
    CHECK((pair.a.interest() & EPOLLIN) != 0);
  }
}

TEST_CASE("a message that comes byte by byte is the same message") {
  Wire wire;
  Message place(100);
  wire.connection->post(place.receive(3));
  REQUIRE(wire.connection->write());
  const HeadBytes granted = headOf(2, 3, 1);
  CHECK(wire.hear() == std::string(reinterpret_cast<const char*>(granted.data()), granted.size()));
  std::vector<std::byte> said;
  std::ranges::copy(headOf(1, 3, 7), std::back_inserter(said));
  for (const char c : std::string("seven..")) said.push_back(static_cast<std::byte>(c));
  for (const std::byte& one : said) {
    CHECK_FALSE(place.request.ended());
    wire.say({&one, 1});
  }
  CHECK(place.request.state == State::kDone);
  CHECK(place.request.moved == 7);
  CHECK(std::memcmp(place.bytes.data(), "seven..", 7) == 0);
}

TEST_CASE("what a peer must not say ends the connection, and writes nowhere") {
  const uint64_t most = UINT64_MAX;
  HeadBytes reserved = headOf(1, 3, 4);
  reserved[5] = std::byte{1};
  const std::vector<std::pair<const char*, HeadBytes>> wrong = {{"a receive that it was not told of", headOf(1, 4, 8)},
                                                                {"no kind", headOf(0, 3, 4)},
                                                                {"another kind", headOf(3, 3, 4)},
                                                                {"a tag too high", headOf(1, 8, 4)},
                                                                {"reserved bits", reserved},
                                                                {"no receive", headOf(1, 2, 0)},
                                                                {"too long by one", headOf(1, 3, 101)},
                                                                {"as long as can be", headOf(1, 3, most)},
                                                                {"too many grants", headOf(2, 3, most)},
                                                                {"grants of frames", headOf(2, engine::kFrames, 1)}};
  for (const auto& [what, head] : wrong) {
    CAPTURE(what);
    Wire wire;
    Message place(100), waiting(50), later(100);
    wire.connection->post(place.receive(3));
    wire.connection->post(waiting.send(4));
    (void)wire.connection->write();
    wire.connection->post(later.receive(4));
    wire.say(head);
    CHECK_FALSE(wire.connection->open());
    CHECK(place.request.state == State::kFailed);
    CHECK(waiting.request.state == State::kFailed);
    CHECK(place.bytes == std::vector<std::byte>(100));
  }
}

TEST_CASE("a frame that is longer than its place ends the connection, also where it came first") {
  Wire wire;
  Message place(100);
  wire.say(headOf(1, engine::kFrames, 101));
  CHECK(wire.connection->open());
  wire.connection->post(place.receive(engine::kFrames));
  CHECK_FALSE(wire.connection->open());
  CHECK(place.request.state == State::kFailed);
}

TEST_CASE("a peer that says much at once leaves others their turn") {
  constexpr size_t kCount = 40, kBytes = 4096;
  Wire wire;
  std::vector<Message> places(kCount, Message(kBytes));
  std::vector<std::byte> said;
  for (Message& place : places) {
    wire.connection->post(place.receive(0));
    std::ranges::copy(headOf(1, 0, kBytes), std::back_inserter(said));
    said.insert(said.end(), kBytes, std::byte{7});
  }
  REQUIRE(wire.connection->write());
  wire.say(said);
  CHECK(places.front().request.ended());
  CHECK_FALSE(places.back().request.ended());
  while (wire.connection->read()) continue;
  for (const Message& place : places) CHECK(place.bytes == std::vector<std::byte>(kBytes, std::byte{7}));
}

TEST_CASE("a frame leaves behind all that was sent before it") {
  Pair pair(makeEnds());
  Message sum(8, 'a'), frame(100, 'b'), later(8, 'c');
  Message sumPlace(8), place(100), laterPlace(8);
  pair.a.post(sum.send(engine::kSums));
  pair.a.post(frame.send(engine::kFrames));
  pair.a.post(later.send(engine::kContributions));
  pair.b.post(place.receive(engine::kFrames));
  pair.run();
  CHECK(frame.request.headMoved == 0);
  pair.b.post(sumPlace.receive(engine::kSums));
  pair.run();
  CHECK(sumPlace.bytes == sum.bytes);
  CHECK(place.bytes == frame.bytes);
  pair.b.post(laterPlace.receive(engine::kContributions));
  pair.run();
  CHECK(laterPlace.bytes == later.bytes);

  Message given(8), next(100, 'd'), nextPlace(100);
  pair.b.post(nextPlace.receive(engine::kFrames));
  pair.a.post(given.send(engine::kSums));
  pair.a.post(next.send(engine::kFrames));
  pair.run();
  CHECK(next.request.headMoved == 0);
  pair.a.cancel(given.request);
  pair.run();
  CHECK(nextPlace.bytes == next.bytes);
}

TEST_CASE("a peer that has gone fails what waits for it, after what it has said before") {
  Wire wire;
  Message first(4), second(4), waiting(4);
  wire.connection->post(first.receive(0));
  wire.connection->post(second.receive(0));
  wire.connection->post(waiting.send(2));
  REQUIRE(wire.connection->write());
  std::vector<std::byte> said;
  std::ranges::copy(headOf(1, 0, 4), std::back_inserter(said));
  said.resize(said.size() + 4, std::byte{7});
  REQUIRE(::send(wire.own.get(), said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  wire.own.close();
  while (wire.connection->read()) continue;
  CHECK(first.request.state == State::kDone);
  CHECK(first.bytes == std::vector<std::byte>(4, std::byte{7}));
  CHECK(second.request.state == State::kFailed);
  CHECK(waiting.request.state == State::kFailed);
  CHECK_FALSE(wire.connection->open());
}

TEST_CASE("what a peer said before it went comes, also where it shows by a write that it has gone") {
  constexpr uint16_t kFrames = engine::kFrames;
  Wire wire;
  Message first(4), last(40000), place(4), frame(4), missing(4);
  wire.connection->post(first.receive(0));
  wire.connection->post(last.receive(2));
  wire.connection->post(missing.receive(0));
  REQUIRE(wire.connection->write());
  for (const auto& [tag, length] : {std::pair<uint16_t, size_t>{0, 4}, {kFrames, 4}, {2, 40000}}) {
    std::vector<std::byte> said;
    std::ranges::copy(headOf(1, tag, length), std::back_inserter(said));
    said.resize(said.size() + length, std::byte{7});
    REQUIRE(::send(wire.own.get(), said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  }
  wire.own.close();
  wire.connection->post(frame.send(kFrames));
  CHECK_FALSE(wire.connection->write());
  CHECK(frame.request.state == State::kFailed);
  CHECK(wire.connection->mute());
  CHECK_FALSE(wire.connection->hasOutput());
  while (wire.connection->read()) continue;
  CHECK(first.request.state == State::kDone);
  CHECK(first.bytes == std::vector<std::byte>(4, std::byte{7}));
  REQUIRE(wire.connection->open());  // a frame has come that there is no place for yet
  CHECK(last.request.state == State::kUnderWay);
  wire.connection->post(place.receive(kFrames));
  while (wire.connection->read()) continue;
  CHECK(place.bytes == std::vector<std::byte>(4, std::byte{7}));
  CHECK(last.request.state == State::kDone);
  CHECK(last.bytes == std::vector<std::byte>(40000, std::byte{7}));
  CHECK(missing.request.state == State::kFailed);
  CHECK_FALSE(wire.connection->open());
}

TEST_CASE("a peer hears the end of a rank that can send it nothing") {
  Pair pair(makeEnds());
  Message frame(4), more(4);
  pair.a.post(more.receive(0));
  pair.run();
  Request& tooLong = frame.send(engine::kFrames);
  tooLong.bytes = uint64_t{1} << 63;  // which no write takes
  pair.a.post(tooLong);
  CHECK_FALSE(pair.a.write());
  CHECK(pair.a.mute());
  CHECK(pair.a.open());
  CHECK(frame.request.state == State::kFailed);
  CHECK(more.request.state == State::kUnderWay);
  (void)pair.b.read();
  CHECK_FALSE(pair.b.open());
  (void)pair.a.read();
  CHECK_FALSE(pair.a.open());
  CHECK(more.request.state == State::kFailed);
}

namespace {

// Sends a frame and goes as soon as this host has it.
Status sendAndGo(bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh, const Message& frame,
                 const Deadline& deadline) {
  SC_TRY(const auto messenger, makeMessenger());
  SC_TRY(messenger->connect(exchange, mesh, deadline));
  const sparsecollEngine_t table = messenger->table();
  void* request = nullptr;
  int done = 0;
  size_t bytes = 0;
  int failed = table.isend(table.user, 1, engine::kFrames, frame.bytes.data(), frame.bytes.size(), &request);
  while (done == 0 && failed == 0)
    failed = table.progress(table.user) + table.test(table.user, &request, &done, &bytes);
  return failed == 0 ? Status() : fail(sparsecollInternalError, "the frame did not leave");
}

// What comes, a little at a time, with grants on the way, as of a rank that takes envelopes.
Status takeSlowly(bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh, std::vector<std::byte>& all,
                  const Deadline& deadline) {
  SC_TRY(const std::vector<Fd> sockets, bootstrap::makeDataConnections(exchange, mesh, deadline));
  const Fd& socket = sockets[0];
  std::vector<std::byte> piece(1 << 16);
  const int room = 1 << 16;
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  const HeadBytes granted = headOf(2, engine::kEnvelopes, 1);
  for (bool closed = false, unheard = false; !closed && !deadline.expired();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    (void)bootstrap::send(socket, granted, unheard);
    const size_t got = bootstrap::receive(socket, piece, closed);
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(got));
  }
  return {};
}

// Of a rank that connects and sends.
std::vector<std::byte> whatComes(
    const std::function<Status(bootstrap::Exchange&, const bootstrap::Mesh&, const Deadline&)>& send) {
  std::vector<std::byte> all;
  const test::Id id = test::makeId();
  const std::vector<Status> ended = test::onRanks(2, [&](int rank) -> Status {
    const Deadline deadline = Deadline::in(60000);
    const bootstrap::Invitation invitation = test::read(id);
    SC_TRY(const auto exchange, bootstrap::meet(invitation, rank, 2, deadline));
    const auto card = [](bool, const bootstrap::Address&) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(); };
    SC_TRY(const auto mesh, bootstrap::makeMesh(*exchange, {invitation.key, invitation.job, "", card}, deadline));
    return rank == 0 ? send(*exchange, mesh, deadline) : takeSlowly(*exchange, mesh, all, deadline);
  });
  for (const Status& status : ended) CHECK(std::string(status.failure().text.c_str()) == "");
  return all;
}

}  // namespace

TEST_CASE("a message that is to leave with the next one waits for it, or until the engine works") {
  const Message frames[] = {Message(10, 'a'), Message(10, 'b'), Message(10, 'c'), Message(10, 'd')};
  std::vector<std::vector<bool>> left;  // of the frames, after each step
  const std::vector<std::byte> all = whatComes([&](bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh,
                                                   const Deadline& deadline) -> Status {
    SC_TRY(const auto messenger, makeMessenger());
    SC_TRY(messenger->connect(exchange, mesh, deadline));
    const sparsecollEngine_t table = messenger->table();
    const engine::MessengerCalls calls = messenger->calls();
    std::vector<void*> requests;
    const auto look = [&] {
      std::vector<bool>& now = left.emplace_back();
      for (const void* const request : requests) now.push_back(calls.hasBegun(request));
    };
    for (size_t f = 0; f < std::size(frames); ++f) {
      if (f % 2 == 1) calls.joinNext(table.user);
      void* request = nullptr;
      if (table.isend(table.user, 1, engine::kFrames, frames[f].bytes.data(), frames[f].bytes.size(), &request) != 0)
        return fail(sparsecollInternalError, "a frame is not taken");
      requests.push_back(request);
      look();
    }
    (void)table.progress(table.user);
    look();
    return {};
  });
  const std::vector<std::vector<bool>> expected = {
      {true}, {true, false}, {true, true, true}, {true, true, true, false}, {true, true, true, true}};
  CHECK(left == expected);
  std::vector<std::byte> sent;
  for (const Message& frame : frames) {
    std::ranges::copy(headOf(1, engine::kFrames, frame.bytes.size()), std::back_inserter(sent));
    std::ranges::copy(frame.bytes, std::back_inserter(sent));
  }
  CHECK(all == sent);
}

TEST_CASE("a frame reaches a rank that takes it slowly, though its sender has gone") {
  const Message frame(1 << 20);
  const std::vector<std::byte> all =
      whatComes([&](bootstrap::Exchange& exchange, const bootstrap::Mesh& mesh, const Deadline& deadline) {
        return sendAndGo(exchange, mesh, frame, deadline);
      });
  REQUIRE(all.size() == kHeadBytes + frame.bytes.size());
  CHECK(std::equal(frame.bytes.begin(), frame.bytes.end(), all.begin() + kHeadBytes));
}

TEST_CASE("what is cancelled ends at once, and takes the connection along only where it has begun") {
  Pair pair(makeEnds(4096));
  Message waiting(10), begun(1 << 20), later(10), place(10), beginning(1 << 20);
  pair.a.post(waiting.send(0));
  pair.a.cancel(waiting.request);
  CHECK(waiting.request.state == State::kDone);
  CHECK(pair.a.open());
  pair.b.post(place.receive(0));
  pair.a.post(later.send(0));
  pair.run();
  CHECK(place.bytes == later.bytes);

  pair.b.post(beginning.receive(1));
  (void)pair.b.write();
  (void)pair.a.read();
  pair.a.post(begun.send(1));
  (void)pair.a.write();
  REQUIRE(begun.request.headMoved != 0);
  REQUIRE_FALSE(begun.request.ended());
  pair.a.cancel(begun.request);
  CHECK(begun.request.ended());
  CHECK_FALSE(pair.a.open());

  // What was to leave behind another message gives back its grant; a frame has none.
  Pair full(makeEnds(4096));
  Message large(1 << 20, 'd'), granted(10, 'e'), frame(10, 'f'), next(10, 'g'), nextFrame(10, 'h');
  Message largePlace(1 << 20), nextPlace(10), framePlace(10);
  full.b.post(largePlace.receive(1));
  full.b.post(nextPlace.receive(2));
  full.b.post(framePlace.receive(engine::kFrames));
  (void)full.b.write();
  (void)full.a.read();
  full.a.post(large.send(1));
  full.a.post(granted.send(2));
  full.a.post(frame.send(engine::kFrames));
  (void)full.a.write();
  for (Request* const one : {&granted.request, &frame.request}) {
    REQUIRE_FALSE(one->ended());
    full.a.cancel(*one);
    CHECK(one->state == State::kDone);
  }
  full.a.post(next.send(2));
  full.a.post(nextFrame.send(engine::kFrames));
  full.run();
  CHECK(full.a.open());
  CHECK((largePlace.bytes == large.bytes));
  CHECK(nextPlace.bytes == next.bytes);
  CHECK(framePlace.bytes == nextFrame.bytes);

  Wire wire;
  Message never(10);
  wire.connection->post(never.receive(0));
  (void)wire.connection->write();
  wire.connection->cancel(never.request);
  CHECK(never.request.state == State::kDone);
  wire.say(headOf(1, 0, 10));
  CHECK(wire.connection->open());
  CHECK(never.bytes == std::vector<std::byte>(10));
}

}  // namespace sparsecoll::tcp
