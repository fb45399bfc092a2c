#include "transports/engine/envelope.h"

#include <algorithm>

namespace sparsecoll::engine {

namespace {

constexpr size_t kChecked = offsetof(Envelope, checksum);

uint32_t checksumOf(const Envelope& envelope, const std::byte* slot) {
  const uint32_t head = crc32c({slot, kChecked});
  return envelope.kind == EnvelopeKind::kFrame ? head : crc32c({slot + sizeof(Envelope), envelope.inside}, head);
}

template <size_t kSize>
void copyText(char (&to)[kSize], std::string_view from) {
  to[from.copy(to, kSize - 1)] = 0;
}

template <size_t kSize>
std::string_view viewOf(const char (&text)[kSize]) {
  return {text, strnlen(text, kSize)};
}

}  // namespace

uint64_t slotBytesOf(sparsecollTransport_t engine, int ranks) {
  constexpr uint64_t kOfFour = 16u << 10, kOfMore = 8u << 10, kHeads = 128;
  constexpr int kFewRanks = 32;
  const bool ours = engine == sparsecollTransportUcx || engine == sparsecollTransportTcp;
  if (!ours || ranks > kFewRanks) return kSlotBytes;
  return (ranks <= 4 ? kOfFour : kOfMore) + kHeads;
}

void seal(Envelope envelope, std::byte* slot) {
  std::memcpy(slot, &envelope, kChecked);
  envelope.checksum = checksumOf(envelope, slot);
  std::memcpy(slot + kChecked, &envelope.checksum, sizeof envelope.checksum);
}

Result<Envelope> readEnvelope(const std::byte* slot, uint64_t bytes) {
  Envelope envelope;
  if (bytes < sizeof envelope) return fail(sparsecollCorrupted, "a message of {} bytes", bytes);
  std::memcpy(&envelope, slot, sizeof envelope);
  if (envelope.inside != bytes - sizeof envelope)
    return fail(sparsecollCorrupted, "a message of {} bytes claims to hold {}", bytes, envelope.inside);
  if (checksumOf(envelope, slot) != envelope.checksum) return fail(sparsecollCorrupted, "a message fails its checksum");
  const bool known = envelope.kind >= EnvelopeKind::kFrame && envelope.kind <= EnvelopeKind::kAbort;
  const bool whole =
      envelope.kind == EnvelopeKind::kFrame
          ? envelope.bytes >= kFrameHeaderBytes && (envelope.inside == 0 || envelope.inside == envelope.bytes)
      : envelope.kind == EnvelopeKind::kRefuse ? envelope.inside == sizeof(Refusal)
                                               : envelope.inside == 0;
  if (!known || !whole) return fail(sparsecollCorrupted, "a message of no kind that is known");
  return envelope;
}

Refusal refusalOf(const Failure& why) {
  Refusal refusal{};
  refusal.peer = why.peer;
  copyText(refusal.field, why.field.view());
  copyText(refusal.text, why.text.view());
  return refusal;
}

Status gone(int peer, EnvelopeKind kind) {
  const char* const how = kind == EnvelopeKind::kLeave ? "destroyed" : "aborted";
  return failBy(peer, sparsecollPeerFailed, "rank {} {} its communicator", peer, how);
}

Failure failureOf(const std::byte* slot, int by) {
  Refusal refusal;
  std::memcpy(&refusal, slot + sizeof(Envelope), sizeof refusal);
  return {sparsecollMismatch, refusal.peer >= 0 ? refusal.peer : by, viewOf(refusal.field), viewOf(refusal.text)};
}

}  // namespace sparsecoll::engine
