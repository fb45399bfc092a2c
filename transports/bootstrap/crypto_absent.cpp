// What a build without libsodium has instead: nothing starts that would need a secret, so the rest is never reached.
#include <algorithm>

#include "transports/bootstrap/crypto.h"

namespace sparsecoll::bootstrap {

void wipe(std::span<std::byte> secret) { std::fill(secret.begin(), secret.end(), std::byte{0}); }

Key::Key(std::span<const std::byte, kKeyBytes> bytes) { std::copy(bytes.begin(), bytes.end(), bytes_.begin()); }

Status cryptoReady() { return unsupported("this build has no libsodium, which ranks in several processes need"); }

void fillRandom(std::span<std::byte> bytes) { wipe(bytes); }
Mac macOf(const Key&, std::initializer_list<Bytes>) { return {}; }
bool sameBytes(Bytes, Bytes) { return false; }

}  // namespace sparsecoll::bootstrap
