#include "transports/bootstrap/control_frame.h"

#include "core/bytes.h"

namespace sparsecoll::bootstrap {

void appendFrame(std::vector<std::byte>& to, FrameType type, Bytes payload, const Key& key, uint64_t sequence) {
  Writer header;
  header.write(static_cast<uint32_t>(payload.size()));
  header.write(static_cast<uint16_t>(type));
  header.write(uint16_t{0});
  header.write(sequence);
  const Mac mac = macOf(key, {header.bytes(), payload});
  to.insert(to.end(), header.bytes().begin(), header.bytes().end());
  to.insert(to.end(), payload.begin(), payload.end());
  to.insert(to.end(), mac.begin(), mac.end());
}

Result<std::optional<ControlFrame>> parseFrame(Bytes bytes, const Key& key, uint64_t sequence) {
  if (bytes.size() < kControlHeaderBytes) return std::optional<ControlFrame>();
  Reader reader(bytes);
  SC_TRY(const auto length, reader.read<uint32_t>());
  SC_TRY(const auto type, reader.read<uint16_t>());
  SC_TRY(const auto zero, reader.read<uint16_t>());
  SC_TRY(const auto number, reader.read<uint64_t>());
  if (length > kMostPayloadBytes) return fail(sparsecollCorrupted, "a control frame of {} bytes", length);
  if (type < static_cast<uint16_t>(FrameType::kVerdict) || type > static_cast<uint16_t>(FrameType::kPart) || zero != 0)
    return fail(sparsecollCorrupted, "a control frame of type {}", type);
  if (reader.left() < length + kMacBytes) return std::optional<ControlFrame>();
  SC_TRY(const Bytes payload, reader.take(length));
  SC_TRY(const Bytes mac, reader.take(kMacBytes));
  const size_t authenticated = kControlHeaderBytes + length;
  if (!sameBytes(mac, macOf(key, {bytes.first(authenticated)})))
    return fail(sparsecollAuthFailed, "a control frame fails its authentication");
  if (number != sequence) return fail(sparsecollAuthFailed, "control frame {} instead of {}", number, sequence);
  return std::optional(ControlFrame{static_cast<FrameType>(type), payload, authenticated + kMacBytes});
}

}  // namespace sparsecoll::bootstrap
