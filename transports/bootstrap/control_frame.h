// What travels on a connection whose two ends have proven themselves. Little-endian:
//
//   offset 0   length    u32   of the payload, at most 65,408
//          4   type      u16   FrameType
//          6   zero      u16
//          8   sequence  u64   counts the frames of this direction from 0
//         16   payload
//         ...  MAC       32    of all before it, under the direction's key
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/status.h"
#include "transports/bootstrap/crypto.h"

namespace sparsecoll::bootstrap {

inline constexpr size_t kControlHeaderBytes = 16;
inline constexpr size_t kMostControlBytes = 64 * 1024;  // of a whole frame
inline constexpr size_t kMostPayloadBytes = kMostControlBytes - kControlHeaderBytes - kMacBytes - 80;

enum class FrameType : uint16_t {
  kVerdict = 1,  // rank 0 on a claim, and why an exchange has ended
  kOffer = 2,    // a rank's part of an exchange
  kTable = 3,    // one rank's part, for all
  kHeartbeat = 4,
  kLeft = 5,     // the sender is done
  kAborted = 6,  // the sender has given up; whom it blames
  kLost = 7,     // a rank that the sender has lost
  kView = 8,     // whom the sender takes for gone, while survivors agree
  kPart = 9,     // a rank's part of an exchange without rank 0
};

struct ControlFrame {
  FrameType type = FrameType::kHeartbeat;
  Bytes payload;
  size_t bytes = 0;  // of the whole frame
};

void appendFrame(std::vector<std::byte>& to, FrameType type, Bytes payload, const Key& key, uint64_t sequence);

// The frame that `bytes` begins with; nothing while it is not whole. Errors: Corrupted, AuthFailed (not written with
// the key, or not the frame of this sequence number).
Result<std::optional<ControlFrame>> parseFrame(Bytes bytes, const Key& key, uint64_t sequence);

}  // namespace sparsecoll::bootstrap
