#include "transports/engine/slip.h"

#include <algorithm>

namespace sparsecoll::engine {

namespace {

constexpr size_t kChecked = offsetof(Slip, checksum);

uint32_t checksumOf(const Slip& slip, const std::byte* slot) {
  const uint32_t head = crc32c({slot, kChecked});
  return slip.kind == SlipKind::kFrame ? head : crc32c({slot + sizeof(Slip), slip.inside}, head);
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

void seal(Slip slip, std::byte* slot) {
  std::memcpy(slot, &slip, kChecked);
  slip.checksum = checksumOf(slip, slot);
  std::memcpy(slot + kChecked, &slip.checksum, sizeof slip.checksum);
}

Result<Slip> readSlip(const std::byte* slot, uint64_t bytes) {
  Slip slip;
  if (bytes < sizeof slip) return fail(sparsecollCorrupted, "a message of {} bytes", bytes);
  std::memcpy(&slip, slot, sizeof slip);
  if (slip.inside != bytes - sizeof slip)
    return fail(sparsecollCorrupted, "a message of {} bytes claims to hold {}", bytes, slip.inside);
  if (checksumOf(slip, slot) != slip.checksum) return fail(sparsecollCorrupted, "a message fails its checksum");
  const bool known = slip.kind >= SlipKind::kFrame && slip.kind <= SlipKind::kAbort;
  const bool whole = slip.kind == SlipKind::kFrame
                         ? slip.bytes >= kFrameHeaderBytes && (slip.inside == 0 || slip.inside == slip.bytes)
                     : slip.kind == SlipKind::kRefuse ? slip.inside == sizeof(Refusal)
                                                      : slip.inside == 0;
  if (!known || !whole) return fail(sparsecollCorrupted, "a message of no kind that is known");
  return slip;
}

Refusal refusalOf(const Failure& why) {
  Refusal refusal{};
  refusal.peer = why.peer;
  copyText(refusal.field, why.field.view());
  copyText(refusal.text, why.text.view());
  return refusal;
}

Status gone(int peer, SlipKind kind) {
  const char* const how = kind == SlipKind::kLeave ? "destroyed" : "aborted";
  return failBy(peer, sparsecollPeerFailed, "rank {} {} its communicator", peer, how);
}

Failure failureOf(const std::byte* slot, int by) {
  Refusal refusal;
  std::memcpy(&refusal, slot + sizeof(Slip), sizeof refusal);
  return {sparsecollMismatch, refusal.peer >= 0 ? refusal.peer : by, viewOf(refusal.field), viewOf(refusal.text)};
}

}  // namespace sparsecoll::engine
