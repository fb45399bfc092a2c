// Hello, control frames and unique ids as bytes: what is right passes, and every flipped bit and every cut is noticed.
#include <algorithm>
#include <cstring>

#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"

namespace sparsecoll {
namespace {

using namespace test;

Identity identity(int rank, uint8_t secret = 1, uint8_t job = 1) {
  std::array<std::byte, kKeyBytes> key;
  key.fill(std::byte{secret});
  Identity self{Key(key), {}, Purpose::kRendezvous, rank, 4};
  self.job.fill(std::byte{job});
  return self;
}

std::vector<std::byte> said(Hello& hello) { return std::exchange(hello.outgoing(), {}); }

struct Recorded {
  std::vector<std::byte> client, server, proof;
};

// Both sides to the end.
Recorded record(Hello& client, Hello& server) {
  Recorded all;
  all.client = said(client);
  REQUIRE(server.take(all.client).ok());
  all.server = said(server);
  REQUIRE(client.take(all.server).ok());
  all.proof = said(client);
  REQUIRE(server.take(all.proof).ok());
  return all;
}

bool refused(const Status& status) {
  return status.result() == sparsecollCorrupted || status.result() == sparsecollAuthFailed ||
         status.result() == sparsecollMismatch;
}

}  // namespace

TEST_CASE("two ranks with one key believe each other and get keys for their frames") {
  Hello client = Hello::asClient(identity(3));
  Hello server = Hello::asServer(identity(0));
  const Recorded all = record(client, server);
  CHECK(all.client.size() == kClientHelloBytes);
  CHECK(all.server.size() == kServerHelloBytes);
  CHECK(all.proof.size() == kMacBytes);
  CHECK(client.done());
  CHECK(server.done());
  CHECK(server.peer().rank == 3);
  CHECK(server.peer().ranks == 4);
  CHECK(client.peer().rank == 0);
  CHECK(sameBytes(client.frameKeys().out.bytes(), server.frameKeys().in.bytes()));
  CHECK(sameBytes(client.frameKeys().in.bytes(), server.frameKeys().out.bytes()));
  CHECK_FALSE(sameBytes(client.frameKeys().in.bytes(), client.frameKeys().out.bytes()));
}

TEST_CASE("a client with another key learns it, and is not believed") {
  Hello client = Hello::asClient(identity(3, 2));
  Hello server = Hello::asServer(identity(0, 1));
  REQUIRE(server.take(said(client)).ok());
  CHECK(client.take(said(server)).result() == sparsecollAuthFailed);
  std::vector<std::byte> guess(kMacBytes, std::byte{7});
  CHECK(server.take(guess).result() == sparsecollAuthFailed);
  CHECK_FALSE(server.done());
}

TEST_CASE("a hello of another job, to another listener or of a stranger is refused at once") {
  Hello server = Hello::asServer(identity(0));
  Hello other = Hello::asClient(identity(3, 1, 2));
  CHECK(server.take(said(other)).result() == sparsecollCorrupted);
  Identity mesh = identity(3);
  mesh.purpose = Purpose::kMesh;
  Hello wrong = Hello::asClient(mesh);
  CHECK(Hello::asServer(identity(0)).take(said(wrong)).result() == sparsecollCorrupted);
  const std::string http = "GET / HTTP/1.1\r\nHost: somewhere.example.org\r\n\r\n     ";
  CHECK(Hello::asServer(identity(0)).take(bytesOf(http).first(kClientHelloBytes)).result() == sparsecollCorrupted);
}

TEST_CASE("nothing that was recorded serves a second time") {
  Hello client = Hello::asClient(identity(3));
  Hello server = Hello::asServer(identity(0));
  const Recorded all = record(client, server);
  Hello second = Hello::asServer(identity(0));
  REQUIRE(second.take(all.client).ok());
  CHECK(said(second) != all.server);
  CHECK(second.take(all.proof).result() == sparsecollAuthFailed);
  Hello again = Hello::asClient(identity(3));
  CHECK(again.take(all.server).result() == sparsecollAuthFailed);
}

TEST_CASE("every flipped bit of a hello is noticed by one side or the other") {
  for (size_t bit = 0; bit < 8 * (kClientHelloBytes + kServerHelloBytes + kMacBytes); ++bit) {
    CAPTURE(bit);
    Hello client = Hello::asClient(identity(3));
    Hello server = Hello::asServer(identity(0));
    size_t at = bit;
    const auto flip = [&](std::vector<std::byte> message) {
      if (at < 8 * message.size()) {
        message[at / 8] ^= static_cast<std::byte>(1u << (at % 8));
        at = SIZE_MAX;
      } else if (at != SIZE_MAX) {
        at -= 8 * message.size();
      }
      return message;
    };
    Status status = server.take(flip(said(client)));
    if (status.ok()) status = client.take(flip(said(server)));
    if (status.ok()) status = server.take(flip(said(client)));
    CHECK(refused(status));
  }
}

TEST_CASE("control frames carry what they are given, and every flipped bit or cut is noticed") {
  const Identity self = identity(0);
  const std::string text = "what rank 3 had to say";
  std::vector<std::byte> stream;
  appendFrame(stream, FrameType::kOffer, bytesOf(text), self.key, 0);
  const size_t first = stream.size();
  appendFrame(stream, FrameType::kHeartbeat, {}, self.key, 1);
  auto parsed = parseFrame(stream, self.key, 0);
  REQUIRE(parsed.ok());
  REQUIRE(parsed->has_value());
  CHECK((*parsed)->type == FrameType::kOffer);
  CHECK(std::ranges::equal((*parsed)->payload, bytesOf(text)));
  CHECK((*parsed)->bytes == first);
  auto next = parseFrame(Bytes(stream).subspan(first), self.key, 1);
  REQUIRE(next.ok());
  CHECK((*next)->payload.empty());
  for (size_t cut = 0; cut < first; ++cut) {
    auto part = parseFrame(Bytes(stream).first(cut), self.key, 0);
    REQUIRE(part.ok());
    CHECK_FALSE(part->has_value());
  }
  for (size_t bit = 0; bit < 8 * first; ++bit) {
    CAPTURE(bit);
    std::vector<std::byte> flipped(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(first));
    flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    flipped.resize(kMostControlBytes);  // a longer length finds bytes to take
    auto wrong = parseFrame(flipped, self.key, 0);
    REQUIRE_FALSE(wrong.ok());
    CHECK(refused(wrong.takeStatus()));
  }
}

TEST_CASE("a control frame is not taken twice, out of turn, with another key, or longer than allowed") {
  const Identity self = identity(0);
  std::vector<std::byte> stream;
  appendFrame(stream, FrameType::kLeft, {}, self.key, 5);
  CHECK(parseFrame(stream, self.key, 6).takeStatus().result() == sparsecollAuthFailed);
  CHECK(parseFrame(stream, self.key, 4).takeStatus().result() == sparsecollAuthFailed);
  CHECK(parseFrame(stream, identity(0, 9).key, 5).takeStatus().result() == sparsecollAuthFailed);
  for (const uint32_t length : {static_cast<uint32_t>(kMostPayloadBytes + 1), 0x7fffffffu, 0xffffffffu}) {
    std::vector<std::byte> head(kControlHeaderBytes);
    std::memcpy(head.data(), &length, sizeof length);
    head[4] = std::byte{1};
    CHECK(parseFrame(head, self.key, 0).takeStatus().result() == sparsecollCorrupted);
  }
}

TEST_CASE("verdicts survive the way, and cut ones are refused") {
  const Failure why{sparsecollTimeout, 7, "nRanks", "rank(s) 2, 5 have not come"};
  const std::vector<std::byte> bytes = writeVerdict(why);
  auto read = readVerdict(bytes);
  REQUIRE(read.ok());
  CHECK(read->result == sparsecollTimeout);
  CHECK(read->peer == 7);
  CHECK(std::string(read->text.c_str()) == "rank(s) 2, 5 have not come");
  for (size_t cut = 0; cut < bytes.size(); ++cut) CHECK_FALSE(readVerdict(Bytes(bytes).first(cut)).ok());
  for (const int32_t none : {-1, sparsecollAuthFailed + 1}) {  // what no rank of this version writes
    std::vector<std::byte> other = bytes;
    std::memcpy(other.data(), &none, sizeof none);
    CHECK_FALSE(readVerdict(other).ok());
  }
}

TEST_CASE("a unique id is read back, and its bytes are checked") {
  const Id id = makeId();
  const Invitation invitation = read(id);
  CHECK(invitation.address.isLoopback());
  CHECK(invitation.address.port != 0);
  CHECK(invitation.host == hostId());
  Id written{};
  writeInvitation(invitation, written);
  CHECK(written == id);
  CHECK(makeId() != id);
  for (const size_t at : {0u, 4u, 6u, 8u, 30u, 90u, 127u}) {
    CAPTURE(at);
    Id damaged = id;
    damaged[at] ^= 0x80;
    CHECK(readInvitation(damaged).takeStatusOrOk().result() == sparsecollInvalidArgument);
  }
  CHECK(readInvitation(Id{}).takeStatusOrOk().result() == sparsecollInvalidArgument);
  for (const auto engine :
       {sparsecollTransportAuto, sparsecollTransportUcx, sparsecollTransportNccl, sparsecollTransportTcp})
    CHECK(read(makeId(60000, engine)).engine == engine);
  const Id none = makeId(60000, sparsecollTransportThreads);
  CHECK(readInvitation(none).takeStatusOrOk().result() == sparsecollInvalidArgument);
  for (const Address& nowhere : {invitation.address.withPort(0), Address::any(4).withPort(7)}) {
    Invitation lost = invitation;
    lost.address = nowhere;
    writeInvitation(lost, written);
    CHECK(readInvitation(written).takeStatusOrOk().result() == sparsecollInvalidArgument);
  }
}

TEST_CASE("of the ids that ranks of a process have used it remembers the last 1024") {
  const Invitation first = read(makeId());
  CHECK(useOnce(first, 1).ok());
  CHECK(useOnce(first, 2).ok());
  CHECK(useOnce(first, 1).result() == sparsecollInvalidUsage);
  for (int i = 0; i < 1024; ++i) {
    Invitation next = first;
    fillRandom(next.job);
    REQUIRE(useOnce(next, 1).ok());
  }
  CHECK(useOnce(first, 1).ok());
}

TEST_CASE("interfaces are found by name, by address and by what they lead to") {
  CHECK(addressOf(nullptr)->isLoopback());
  CHECK(addressOf("lo")->isLoopback());
  CHECK(addressOf("127.0.0.1")->isLoopback());
  CHECK(addressOf("::1")->isLoopback());
  CHECK(addressOf("no-such-interface").takeStatus().result() == sparsecollInvalidArgument);
  auto anywhere = addressOf("auto");
  if (anywhere.ok()) CHECK_FALSE(anywhere->isLoopback());
  CHECK(std::string(placeOf(Address::loopback()).c_str()) == "lo 127.0.0.1");
  Address nowhere = Address::loopback();
  nowhere.bytes[3] = std::byte{9};
  CHECK(std::string(placeOf(nowhere).c_str()) == "127.0.0.9");
  Address local = Address::any(6);
  CHECK_FALSE(local.isLinkLocal());
  local.bytes[0] = std::byte{0xfe};
  for (int second = 0; second < 256; ++second) {
    CAPTURE(second);
    local.bytes[1] = static_cast<std::byte>(second);
    CHECK(local.isLinkLocal() == (second >= 0x80 && second < 0xc0));  // fe80::/10
  }
  local.bytes[1] = std::byte{0x80};
  local.family = 4;
  CHECK_FALSE(local.isLinkLocal());
  Id id{};
  CHECK(invite(sparsecollTransportAuto, "0.0.0.0", Deadline::in(1000), id).result() == sparsecollInvalidArgument);
}

}  // namespace sparsecoll
