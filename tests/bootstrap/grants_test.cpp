// Who may send what to whom: messages leave for receives that the sender was told of, envelopes without messages of
// their own for that where there is an answer.
#include <memory>
#include <vector>

#include "tests/bootstrap/connections.h"
#include "transports/tcp.h"

namespace sparsecoll::tcp {

TEST_CASE("a message without a place waits at its sender, and stands in front of no other") {
  Pair pair(makeEnds());
  Message large(1 << 20), small(10), place(1 << 20), smallPlace(10);
  pair.a.post(large.send(2));
  pair.a.post(small.send(3));
  pair.b.post(smallPlace.receive(3));
  pair.run();
  CHECK(small.request.state == State::kDone);
  CHECK(smallPlace.bytes == small.bytes);
  CHECK(large.request.headMoved == 0);
  CHECK_FALSE(large.request.begun());
  pair.b.post(place.receive(2));
  pair.b.write();
  pair.a.read();
  pair.a.write();
  CHECK(large.request.begun());
  pair.run();
  CHECK(large.request.state == State::kDone);
  CHECK(place.bytes == large.bytes);
}

TEST_CASE("the engine tells whether a send has begun, and moves requests to other memory") {
  auto messenger = makeMessenger();
  REQUIRE(messenger.ok());
  const engine::MessengerCalls calls = (*messenger)->calls();
  Message message(100), elsewhere(100);
  Request& request = message.send(2);
  REQUIRE(calls.hasBegun != nullptr);
  CHECK_FALSE(calls.hasBegun(&request));
  request.headMoved = 1;
  CHECK(calls.hasBegun(&request));
  request.headMoved = 0;
  request.state = State::kFailed;
  CHECK(calls.hasBegun(&request));
  REQUIRE(calls.move != nullptr);
  calls.move(&request, elsewhere.bytes.data());
  CHECK(request.data == elsewhere.bytes.data());
}

TEST_CASE("a frame does not overtake its envelope, which waits for a grant") {
  Pair pair(makeEnds());
  Message envelopes[] = {Message(8, 'a'), Message(8, 'b')}, frames[] = {Message(100, 'c'), Message(100, 'd')};
  Message slots[] = {Message(8), Message(8)}, places[] = {Message(100), Message(100)};
  for (size_t m : {0, 1}) {
    pair.a.post(envelopes[m].send(engine::kEnvelopes));
    pair.a.post(frames[m].send(engine::kFrames));
  }
  pair.run();
  CHECK(frames[0].request.headMoved == 0);
  for (size_t m : {0, 1}) {
    pair.b.post(slots[m].receive(engine::kEnvelopes));
    pair.run();
    CHECK(slots[m].bytes == envelopes[m].bytes);
    CHECK(frames[m].request.state == State::kDone);
    pair.b.post(places[m].receive(engine::kFrames));
    pair.run();
    CHECK(places[m].bytes == frames[m].bytes);
  }
}

TEST_CASE("a grant for an envelope waits for what is sent next, as long as the peer may send two more") {
  Pair pair(makeEnds());
  std::vector<std::unique_ptr<Message>> slots, sent;
  const auto makeRoom = [&] {
    slots.push_back(std::make_unique<Message>(8));
    pair.b.post(slots.back()->receive(engine::kEnvelopes));
  };
  const auto send = [&] {
    sent.push_back(std::make_unique<Message>(8, static_cast<char>('a' + sent.size())));
    pair.a.post(sent.back()->send(engine::kEnvelopes));
    pair.run();
    CHECK(slots[sent.size() - 1]->bytes == sent.back()->bytes);
  };
  Message answer(8, 'z'), answered(8);
  for (int depth = 0; depth < 3; ++depth) makeRoom();
  pair.a.post(answered.receive(engine::kEnvelopes));
  pair.run();

  send();
  makeRoom();
  CHECK_FALSE(pair.b.hasOutput());
  pair.b.post(answer.send(engine::kEnvelopes));  // takes the grant along
  pair.run();
  CHECK(answered.bytes == answer.bytes);
  for (int more = 0; more < 3; ++more) send();

  // The peer has used all that it knew of: what it may send more is told with nothing to be sent.
  makeRoom();
  CHECK(pair.b.hasOutput());
  pair.run();
  send();
}

TEST_CASE("a grant that waits leaves as soon as the peer needs it") {
  Pair pair(makeEnds());
  Message slots[] = {Message(8), Message(8), Message(8), Message(8), Message(8)};
  Message sent[] = {Message(8, 'a'), Message(8, 'b'), Message(8, 'c'), Message(8, 'd')};
  for (size_t m : {0, 1, 2}) pair.b.post(slots[m].receive(engine::kEnvelopes));
  pair.run();
  pair.a.post(sent[0].send(engine::kEnvelopes));
  pair.run();
  pair.b.post(slots[3].receive(engine::kEnvelopes));
  CHECK_FALSE(pair.b.hasOutput());
  for (size_t m : {1, 2, 3}) {
    pair.a.post(sent[m].send(engine::kEnvelopes));
    pair.run();  // the third needs the grant that waited, and nothing is posted or sent meanwhile
    CHECK(slots[m].bytes == sent[m].bytes);
  }
}

}  // namespace sparsecoll::tcp
