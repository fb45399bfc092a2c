#include "transports/bootstrap/hello.h"

#include <algorithm>

#include "core/bytes.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr uint32_t kHelloMagic = 0x31485053;  // "SPH1"
constexpr std::string_view kServerLabel = "sparsecoll server hello";
constexpr std::string_view kClientLabel = "sparsecoll client proof";
constexpr std::string_view kToServer = "sparsecoll frames to server";
constexpr std::string_view kToClient = "sparsecoll frames to client";

Status readVersion(Reader& reader) {
  SC_TRY(const auto magic, reader.read<uint32_t>());
  SC_TRY(const auto version, reader.read<uint16_t>());
  if (magic != kHelloMagic) return fail(sparsecollCorrupted, "no hello of this library");
  if (version != kWireVersion)
    return fail(sparsecollMismatch, "the peer speaks version {}, this library {}", version, kWireVersion);
  return {};
}

Status notZero() { return fail(sparsecollCorrupted, "a hello with bits set that have no meaning"); }

}  // namespace

Hello Hello::asClient(const Identity& self) {
  Hello hello(self, false);
  Writer writer;
  writer.write(kHelloMagic);
  writer.write(kWireVersion);
  writer.write(static_cast<uint16_t>(self.purpose));
  writer.append(self.job.data(), self.job.size());
  writer.write(static_cast<uint32_t>(self.rank));
  writer.write(static_cast<uint32_t>(self.ranks));
  const Nonce nonce = makeNonce();
  writer.append(nonce.data(), nonce.size());
  hello.transcript_ = hello.outgoing_ = writer.bytes();
  hello.wanted_ = kServerHelloBytes;
  return hello;
}

Hello Hello::asServer(const Identity& self) {
  Hello hello(self, true);
  hello.wanted_ = kClientHelloBytes;
  return hello;
}

Status Hello::take(Bytes message) {
  if (message.size() != wanted_ || wanted_ == 0)
    return fail(sparsecollInternalError, "a hello of {} bytes, not {}", message.size(), wanted_);
  if (!server_) return takeServerHello(message);
  return transcript_.empty() ? takeClientHello(message) : takeProof(message);
}

Status Hello::takeClientHello(Bytes message) {
  Reader reader(message);
  SC_TRY(readVersion(reader));
  SC_TRY(const auto purpose, reader.read<uint16_t>());
  SC_TRY(const Bytes job, reader.take(self_.job.size()));
  SC_TRY(peer_.rank, reader.read<uint32_t>());
  SC_TRY(peer_.ranks, reader.read<uint32_t>());
  if (purpose != static_cast<uint16_t>(self_.purpose)) return fail(sparsecollCorrupted, "a hello to another listener");
  if (!std::equal(job.begin(), job.end(), self_.job.begin()))
    return fail(sparsecollCorrupted, "a hello of another job");
  Writer writer;
  writer.write(kHelloMagic);
  writer.write(kWireVersion);
  writer.write(uint16_t{0});
  writer.write(static_cast<uint32_t>(self_.rank));
  writer.write(uint32_t{0});
  const Nonce nonce = makeNonce();
  writer.append(nonce.data(), nonce.size());
  transcript_.assign(message.begin(), message.end());
  transcript_.insert(transcript_.end(), writer.bytes().begin(), writer.bytes().end());
  const Mac mac = macSoFar(kServerLabel);
  transcript_.insert(transcript_.end(), mac.begin(), mac.end());
  outgoing_.assign(transcript_.begin() + kClientHelloBytes, transcript_.end());
  wanted_ = kMacBytes;
  peerSpoke_ = true;
  return {};
}

Status Hello::takeServerHello(Bytes message) {
  Reader reader(message);
  SC_TRY(readVersion(reader));
  SC_TRY(const auto zero, reader.read<uint16_t>());
  SC_TRY(peer_.rank, reader.read<uint32_t>());
  SC_TRY(const auto none, reader.read<uint32_t>());
  if (zero != 0 || none != 0) return notZero();
  const Bytes authenticated = message.first(kServerHelloBytes - kMacBytes);
  transcript_.insert(transcript_.end(), authenticated.begin(), authenticated.end());
  const Bytes mac = message.last(kMacBytes);
  if (!sameBytes(mac, macSoFar(kServerLabel))) return fail(sparsecollAuthFailed, "the peer has another key");
  peer_.ranks = static_cast<uint32_t>(self_.ranks);
  transcript_.insert(transcript_.end(), mac.begin(), mac.end());
  const Mac proof = macSoFar(kClientLabel);
  outgoing_.assign(proof.begin(), proof.end());
  wanted_ = 0;
  peerSpoke_ = done_ = true;
  return {};
}

Status Hello::takeProof(Bytes message) {
  if (!sameBytes(message, macSoFar(kClientLabel))) return fail(sparsecollAuthFailed, "a client without the key");
  wanted_ = 0;
  done_ = true;
  return {};
}

FrameKeys Hello::frameKeys() const {
  const Key toServer = deriveKey(self_.key, kToServer, transcript_);
  const Key toClient = deriveKey(self_.key, kToClient, transcript_);
  return server_ ? FrameKeys{toClient, toServer} : FrameKeys{toServer, toClient};
}

}  // namespace sparsecoll::bootstrap
