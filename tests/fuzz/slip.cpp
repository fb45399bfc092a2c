// The messages of engines: what announces a frame, and why a rank has refused one.
#include "transports/engine/slip.h"

#include "core/crc32c.h"
#include "tests/fuzz/target.h"

namespace sparsecoll::fuzz {

namespace {

using engine::Refusal;
using engine::Slip;
using engine::SlipKind;

Bytes messageOf(SlipKind kind, std::span<const std::byte> inside, uint64_t frameBytes) {
  Bytes message(sizeof(Slip) + inside.size());
  if (!inside.empty()) std::memcpy(message.data() + sizeof(Slip), inside.data(), inside.size());
  engine::seal({kind, 2, 41, 7, frameBytes, static_cast<uint32_t>(inside.size()), 0}, message.data());
  return message;
}

}  // namespace

std::vector<Bytes> seeds() {
  const Refusal refusal = engine::refusalOf(disagree(3, "order", "the ranks called different operations").failure());
  return {messageOf(SlipKind::kFrame, Bytes(48), 48), messageOf(SlipKind::kFrame, {}, 1u << 20),
          messageOf(SlipKind::kRefuse, std::as_bytes(std::span(&refusal, 1)), 0), messageOf(SlipKind::kLeave, {}, 0)};
}

void repair(Bytes& input) {
  if (input.size() < sizeof(Slip)) return;
  Slip slip;
  std::memcpy(&slip, input.data(), sizeof slip);
  slip.inside = static_cast<uint32_t>(input.size() - sizeof slip);
  if (slip.kind == SlipKind::kFrame && slip.inside != 0) slip.bytes = slip.inside;
  engine::seal(slip, input.data());
}

void look(std::span<const std::byte> input) {
  const Exact message(input);
  auto slip = engine::readSlip(message.data(), input.size());
  if (!slip.ok()) {
    FUZZ_PROMISE(slip.takeStatus().result() == sparsecollCorrupted);
    return;
  }
  FUZZ_PROMISE(slip->inside == input.size() - sizeof(Slip));
  if (slip->kind == SlipKind::kFrame) FUZZ_PROMISE(slip->inside == 0 || slip->inside == slip->bytes);
  if (slip->kind == SlipKind::kRefuse) {
    const Failure why = engine::failureOf(message.data(), 1);
    // Said again it is the same.
    const Refusal again = engine::refusalOf(why);
    FUZZ_PROMISE(again.peer >= 0 && why.field == again.field && why.text == again.text);
  }
  // Whoever writes the same slip writes the same bytes.
  Bytes same(input.begin(), input.end());
  engine::seal(*slip, same.data());
  FUZZ_PROMISE(std::equal(same.begin(), same.end(), input.begin()));
}

}  // namespace sparsecoll::fuzz
