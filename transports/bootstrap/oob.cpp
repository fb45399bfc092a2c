#include "transports/bootstrap/oob.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace sparsecoll::bootstrap {

namespace {
constexpr uint64_t kMostBytes = 64 * 1024;  // of a rank's part: addresses and the like
}

Status OobExchange::call(Bytes own, std::vector<std::byte>& all, const Deadline& deadline) {
  all.assign(own.size() * static_cast<size_t>(ranks_), {});
  const auto leftMs = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left()).count();
  const int code = oob_.allgather(oob_.user, own.data(), all.data(), own.size(), static_cast<uint64_t>(leftMs));
  if (code == 0) return {};
  const bool late = deadline.expired();
  return fail(late ? sparsecollTimeout : sparsecollRemoteError, "the caller's allgather returned {}", code);
}

// Callers' all-gathers have one length, so lengths come first.
Result<Parts> OobExchange::allgather(Bytes own, const Deadline& deadline) {
  const uint64_t ownBytes = own.size();
  std::vector<std::byte> all;
  SC_TRY(call(std::as_bytes(std::span(&ownBytes, 1)), all, deadline));
  std::vector<uint64_t> lengths(static_cast<size_t>(ranks_));
  std::memcpy(lengths.data(), all.data(), all.size());
  const uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (lengths[static_cast<size_t>(rank_)] != ownBytes || longest > kMostBytes)
    return fail(sparsecollCorrupted, "the caller's allgather gave back something else");
  std::vector<std::byte> padded(std::max<uint64_t>(longest, 1));
  const Wiping ownWiped(padded);
  const Wiping allWiped(all);
  std::copy(own.begin(), own.end(), padded.begin());
  SC_TRY(call(padded, all, deadline));
  Parts parts(lengths.size());
  for (size_t r = 0; r < parts.size(); ++r) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(r * padded.size());
    parts[r].assign(begin, begin + static_cast<ptrdiff_t>(lengths[r]));
  }
  return parts;
}

}  // namespace sparsecoll::bootstrap
