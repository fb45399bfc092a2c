// What strangers may send while ranks of several processes meet: unique ids, hellos, control frames.
#include "tests/fuzz/target.h"
#include "transports/bootstrap/control_frame.h"
#include "transports/bootstrap/hello.h"
#include "transports/bootstrap/unique_id.h"

namespace sparsecoll::fuzz {

namespace {

namespace wire = sparsecoll::bootstrap;

enum class Kind : uint8_t { kUniqueId, kHelloToServer, kHelloToClient, kBetween, kControl };
constexpr unsigned kKinds = 5;
constexpr uint64_t kSequence = 3;

const wire::Key& key() {
  static const std::array<std::byte, wire::kKeyBytes> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  static const wire::Key one(bytes);
  return one;
}

wire::Identity identityOf(int rank) { return {key(), {std::byte{9}}, wire::Purpose::kMesh, rank, 4}; }

// Every id that is read is written with the same bytes.
void lookAtId(std::span<const std::byte> input) {
  std::array<uint8_t, SPARSECOLL_UNIQUE_ID_BYTES> id{}, again{};
  if (!input.empty()) std::memcpy(id.data(), input.data(), std::min(id.size(), input.size()));
  auto invitation = wire::readInvitation(id);
  if (!invitation.ok()) {
    FUZZ_PROMISE(invitation.takeStatus().result() == sparsecollInvalidArgument);
    return;
  }
  wire::writeInvitation(*invitation, again);
  FUZZ_PROMISE(id == again);
  FUZZ_PROMISE(invitation->address.name().length != 0 && !invitation->address.text().empty());
}

// Whoever has no key proves nothing, and both sides say so in the same way.
void lookAtHello(wire::Hello hello, std::span<const std::byte> input) {
  while (hello.wanted() != 0 && hello.wanted() <= input.size()) {
    const Exact message(input.first(hello.wanted()));
    const size_t length = hello.wanted();
    const Status taken = hello.take({message.data(), length});
    if (!taken.ok()) {
      FUZZ_PROMISE(taken.result() == sparsecollCorrupted || taken.result() == sparsecollAuthFailed ||
                   taken.result() == sparsecollMismatch);
      FUZZ_PROMISE(!hello.done());
      return;
    }
    input = input.subspan(length);
  }
  FUZZ_PROMISE(!hello.done());
}

Bytes changed(std::vector<std::byte>& message, std::span<const std::byte>& mask, bool& touched) {
  Bytes bytes = std::exchange(message, {});
  for (size_t i = 0; i < bytes.size() && i < mask.size(); ++i) {
    bytes[i] ^= mask[i];
    touched = touched || mask[i] != std::byte{0};
  }
  mask = mask.subspan(std::min(bytes.size(), mask.size()));
  return bytes;
}

// Two honest ranks, and somebody between them who flips the bits of a mask: neither trusts what was touched.
void lookBetween(std::span<const std::byte> mask) {
  wire::Hello client = wire::Hello::asClient(identityOf(2)), server = wire::Hello::asServer(identityOf(0));
  bool touched = false;
  if (!server.take(changed(client.outgoing(), mask, touched)).ok()) {
    FUZZ_PROMISE(touched);
    return;
  }
  const bool met = client.take(changed(server.outgoing(), mask, touched)).ok();
  FUZZ_PROMISE(met == !touched && client.done() == met);
  if (!met) return;
  const bool proven = server.take(changed(client.outgoing(), mask, touched)).ok();
  FUZZ_PROMISE(proven == !touched && server.done() == proven);
  if (!proven) return;
  FUZZ_PROMISE(server.peer().rank == 2 && server.peer().ranks == 4 && client.peer().rank == 0);
  Bytes frame;
  wire::appendFrame(frame, wire::FrameType::kHeartbeat, mask.first(std::min<size_t>(mask.size(), 100)),
                    client.frameKeys().out, 0);
  FUZZ_PROMISE(wire::parseFrame(frame, server.frameKeys().in, 0).ok());
  FUZZ_PROMISE(!wire::parseFrame(frame, server.frameKeys().out, 0).ok());
}

// Every frame that is accepted would be written with the same bytes.
void lookAtControl(std::span<const std::byte> input) {
  const Exact memory(input);
  wire::Bytes left(memory.data(), input.size());
  for (uint64_t sequence = kSequence;; ++sequence) {
    auto parsed = wire::parseFrame(left, key(), sequence);
    if (!parsed.ok()) {
      const sparsecollResult_t result = parsed.takeStatus().result();
      FUZZ_PROMISE(result == sparsecollCorrupted || result == sparsecollAuthFailed);
      return;
    }
    if (!parsed->has_value()) {
      FUZZ_PROMISE(left.size() < wire::kMostControlBytes);
      return;
    }
    const wire::ControlFrame& frame = **parsed;
    FUZZ_PROMISE(frame.bytes <= left.size() && frame.payload.size() <= wire::kMostPayloadBytes);
    Bytes again;
    wire::appendFrame(again, frame.type, frame.payload, key(), sequence);
    FUZZ_PROMISE(again.size() == frame.bytes && std::equal(again.begin(), again.end(), left.begin()));
    left = left.subspan(frame.bytes);
  }
}

Bytes with(Kind kind, std::span<const std::byte> rest) {
  Bytes input(1 + rest.size());
  input[0] = static_cast<std::byte>(kind);
  std::copy(rest.begin(), rest.end(), input.begin() + 1);
  return input;
}

}  // namespace

// Input: the kind, then the bytes.
std::vector<Bytes> seeds() {
  if (!wire::cryptoReady().ok()) std::abort();
  std::vector<Bytes> all;
  std::array<uint8_t, SPARSECOLL_UNIQUE_ID_BYTES> id{};
  wire::Invitation invitation{key(), {std::byte{9}}, wire::Address::loopback().withPort(4242), 77};
  wire::writeInvitation(invitation, id);
  all.push_back(with(Kind::kUniqueId, std::as_bytes(std::span(id))));

  wire::Hello client = wire::Hello::asClient(identityOf(2)), server = wire::Hello::asServer(identityOf(0));
  const Bytes first = client.outgoing();
  if (!server.take(first).ok()) std::abort();
  all.push_back(with(Kind::kHelloToServer, first));
  all.push_back(with(Kind::kHelloToClient, server.outgoing()));
  all.push_back(with(Kind::kBetween, Bytes(wire::kClientHelloBytes + wire::kServerHelloBytes + wire::kMacBytes)));

  Bytes frames;
  wire::appendFrame(frames, wire::FrameType::kHeartbeat, {}, key(), kSequence);
  wire::appendFrame(frames, wire::FrameType::kTable, Bytes(20, std::byte{5}), key(), kSequence + 1);
  all.push_back(with(Kind::kControl, frames));
  return all;
}

// Control frames get the length that they have, and the MAC of somebody who has the key.
void repair(Bytes& input) {
  if (input.empty() || std::to_integer<unsigned>(input[0]) % kKinds != static_cast<unsigned>(Kind::kControl)) return;
  constexpr size_t kEnds = wire::kControlHeaderBytes + wire::kMacBytes;
  size_t at = 1;
  for (uint64_t sequence = kSequence; input.size() - at >= kEnds; ++sequence) {
    uint32_t length = 0;
    std::memcpy(&length, input.data() + at, sizeof length);
    length = std::min(length, static_cast<uint32_t>(input.size() - at - kEnds));
    std::memcpy(input.data() + at, &length, sizeof length);
    std::memcpy(input.data() + at + 8, &sequence, sizeof sequence);
    const size_t covered = wire::kControlHeaderBytes + length;
    const wire::Mac mac = wire::macOf(key(), {wire::Bytes(input.data() + at, covered)});
    std::memcpy(input.data() + at + covered, mac.data(), mac.size());
    at += covered + mac.size();
  }
}

void look(std::span<const std::byte> input) {
  static const bool ready = wire::cryptoReady().ok();
  FUZZ_PROMISE(ready);
  Taker taker(input);
  const auto kind = static_cast<Kind>(taker.take<uint8_t>() % kKinds);
  const std::span<const std::byte> rest = taker.rest();
  switch (kind) {
    case Kind::kUniqueId:
      return lookAtId(rest);
    case Kind::kHelloToServer:
      return lookAtHello(wire::Hello::asServer(identityOf(0)), rest);
    case Kind::kHelloToClient:
      return lookAtHello(wire::Hello::asClient(identityOf(2)), rest);
    case Kind::kBetween:
      return lookBetween(rest);
    case Kind::kControl:
      return lookAtControl(rest);
  }
}

}  // namespace sparsecoll::fuzz
