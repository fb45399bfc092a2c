// What the ranks of a job learn from rank 0 through their launcher: where it listens while ranks meet, and a key.
#pragma once

#include <string>
#include <string_view>

#include "transports/bootstrap/crypto.h"
#include "transports/bootstrap/place.h"

namespace sparsecoll::bootstrap {

struct Notice {
  Place place;
  Key key;
};

// For rank 0, with a new key. interfaceName: as for addressOf, but empty for all that lead elsewhere. firstPort 0: free
// ones. Errors: InvalidArgument, SystemError, Unsupported.
Result<Notice> makeNotice(const char* interfaceName, uint16_t firstPort, uint16_t ports);

// As a word that launchers hand on, of at most kMostNoticeBytes.
inline constexpr size_t kMostNoticeBytes = 512;
std::string writeNotice(const Notice& notice);
// Errors: Mismatch (another version's), Corrupted.
Result<Notice> readNotice(std::string_view word);

}  // namespace sparsecoll::bootstrap
