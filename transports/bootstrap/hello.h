// How two ranks that share a key prove it to each other over a connection that anyone may have opened. Three messages
// of fixed length; numbers are little-endian:
//
//   client  magic u32, version u16, purpose u16, job 16, its rank u32, number of ranks u32, nonce 16      48 bytes
//   server  magic u32, version u16, zero u16, its rank u32, zero u32, nonce 16, MAC of all so far         64 bytes
//   client  MAC of all so far                                                                             32 bytes
//
// Both nonces are under both MACs, so neither side's messages serve a second time. Keys of the frames that follow, one
// a direction, are derived from the three messages.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "transports/bootstrap/crypto.h"

namespace sparsecoll::bootstrap {

inline constexpr uint16_t kWireVersion = 3;
inline constexpr size_t kClientHelloBytes = 48;
inline constexpr size_t kServerHelloBytes = 64;

using JobId = std::array<std::byte, 16>;

enum class Purpose : uint16_t { kRendezvous = 1, kMesh = 2, kData = 3 };

// Who speaks, and what both sides have to know.
struct Identity {
  Key key;
  JobId job{};
  Purpose purpose = Purpose::kMesh;
  int rank = 0;
  int ranks = 0;
};

struct Claim {
  uint32_t rank = 0;
  uint32_t ranks = 0;
};

struct FrameKeys {
  Key out;
  Key in;
};

class Hello {
 public:
  static Hello asClient(const Identity& self);  // its first message is ready
  static Hello asServer(const Identity& self);

  // Bytes of the message that comes next; 0: none does.
  size_t wanted() const { return wanted_; }
  // That message. Errors: Corrupted (it is from somebody else altogether), AuthFailed.
  Status take(Bytes message);
  // What is to be sent now; the caller takes it away.
  std::vector<std::byte>& outgoing() { return outgoing_; }
  bool speaks() const { return !outgoing_.empty(); }
  // Whether the other side's first message has come: it knows the job.
  bool greeted() const { return peerSpoke_; }
  // Whether the other side has proven itself.
  bool done() const { return done_; }

  // What follows only once it is done. A server's peer only claims these; whether they fit is for the caller to say.
  Claim peer() const { return peer_; }
  FrameKeys frameKeys() const;

 private:
  Hello(const Identity& self, bool server) : self_(self), server_(server) {}
  Status takeClientHello(Bytes message);
  Status takeServerHello(Bytes message);
  Status takeProof(Bytes message);
  Mac macSoFar(std::string_view label) const { return macOf(self_.key, {bytesOf(label), transcript_}); }

  Identity self_;
  bool server_;
  bool done_ = false;
  bool peerSpoke_ = false;
  size_t wanted_ = 0;
  Claim peer_;
  std::vector<std::byte> transcript_;
  std::vector<std::byte> outgoing_;
};

}  // namespace sparsecoll::bootstrap
