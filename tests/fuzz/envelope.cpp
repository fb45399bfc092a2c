// The messages of engines: what announces a frame, and why a rank has refused one.
#include "transports/engine/envelope.h"

#include "core/crc32c.h"
#include "tests/fuzz/target.h"

namespace sparsecoll::fuzz {

namespace {

using engine::Envelope;
using engine::EnvelopeKind;
using engine::Refusal;

Bytes messageOf(EnvelopeKind kind, std::span<const std::byte> inside, uint64_t frameBytes) {
  Bytes message(sizeof(Envelope) + inside.size());
  if (!inside.empty()) std::memcpy(message.data() + sizeof(Envelope), inside.data(), inside.size());
  engine::seal({kind, 2, 41, 7, frameBytes, static_cast<uint32_t>(inside.size()), 0}, message.data());
  return message;
}

}  // namespace

std::vector<Bytes> seeds() {
  const Refusal refusal = engine::refusalOf(disagree(3, "order", "the ranks called different operations").failure());
  return {messageOf(EnvelopeKind::kFrame, Bytes(48), 48), messageOf(EnvelopeKind::kFrame, {}, 1u << 20),
          messageOf(EnvelopeKind::kRefuse, std::as_bytes(std::span(&refusal, 1)), 0),
          messageOf(EnvelopeKind::kLeave, {}, 0)};
}

void repair(Bytes& input) {
  if (input.size() < sizeof(Envelope)) return;
  Envelope envelope;
  std::memcpy(&envelope, input.data(), sizeof envelope);
  envelope.inside = static_cast<uint32_t>(input.size() - sizeof envelope);
  if (envelope.kind == EnvelopeKind::kFrame && envelope.inside != 0) envelope.bytes = envelope.inside;
  engine::seal(envelope, input.data());
}

void look(std::span<const std::byte> input) {
  const Exact message(input);
  auto envelope = engine::readEnvelope(message.data(), input.size());
  if (!envelope.ok()) {
    FUZZ_PROMISE(envelope.takeStatus().result() == sparsecollCorrupted);
    return;
  }
  FUZZ_PROMISE(envelope->inside == input.size() - sizeof(Envelope));
  if (envelope->kind == EnvelopeKind::kFrame)
    FUZZ_PROMISE(envelope->inside == 0 || envelope->inside == envelope->bytes);
  if (envelope->kind == EnvelopeKind::kRefuse) {
    const Failure why = engine::failureOf(message.data(), 1);
    // Said again it is the same.
    const Refusal again = engine::refusalOf(why);
    FUZZ_PROMISE(again.peer >= 0 && why.field == again.field && why.text == again.text);
  }
  // Whoever writes the same envelope writes the same bytes.
  Bytes same(input.begin(), input.end());
  engine::seal(*envelope, same.data());
  FUZZ_PROMISE(std::equal(same.begin(), same.end(), input.begin()));
}

}  // namespace sparsecoll::fuzz
