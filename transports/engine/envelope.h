// What goes in front of a frame: which one it is. A small frame travels inside its envelope, a large one behind it, so
// a receiver knows what comes, and whether it is what it means, before a byte lands in its memory. Slips without a
// frame say that a rank gives up the operation, or the communicator. All envelopes from one rank arrive in order, so
// what a rank has said before it leaves is heard before that. Its end it tells twice: with a message of its own, too,
// which may overtake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/frame.h"
#include "core/status.h"

namespace sparsecoll::engine {

enum class EnvelopeKind : uint32_t { kFrame = 0x53504601, kRefuse, kLeave, kAbort };

struct Envelope {
  EnvelopeKind kind;
  uint32_t round;
  uint64_t sequence;
  uint64_t plan;
  uint64_t bytes;     // of the frame
  uint32_t inside;    // bytes behind the envelope in the same message: the frame, a refusal, or nothing
  uint32_t checksum;  // CRC-32C of what is before it; and of what is inside, unless that is a frame with its own
};
static_assert(sizeof(Envelope) == 40);

// An envelope with what is inside: at least so many bytes, a little less than the 4 KiB that engines send without
// asking first.
inline constexpr uint64_t kSlotBytes = 3840;
// The library's own engines seldom ask, so there it is more while ranks are few; still longer ones gained nothing.
uint64_t slotBytesOf(sparsecollTransport_t engine, int ranks);
// Receives posted for a peer's envelopes: all but one may come though the peer was not told that one has been read. TCP
// has to tell, so there it is more than the least, and word of it seldom leaves alone.
inline constexpr size_t kLeastPlaces = 3, kMostPlaces = 6;
inline size_t placesOf(sparsecollTransport_t engine) {
  return engine == sparsecollTransportTcp ? kMostPlaces : kLeastPlaces;
}

// Why a rank has given up an operation.
struct Refusal {
  int32_t peer;
  char field[32];
  char text[256];
};

// Writes the envelope, its checksum included, to the first bytes of a slot that holds what is inside already.
void seal(Envelope envelope, std::byte* slot);

// Of a message of `bytes` bytes. Errors: Corrupted.
Result<Envelope> readEnvelope(const std::byte* slot, uint64_t bytes);

Refusal refusalOf(const Failure& why);
// The peer's communicator has ended. kind: kLeave or kAbort.
Status gone(int peer, EnvelopeKind kind);
// by: the rank that refused; it is named where the refusal names nobody.
Failure failureOf(const std::byte* slot, int by);

}  // namespace sparsecoll::engine
