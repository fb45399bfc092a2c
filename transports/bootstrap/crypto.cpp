#include "transports/bootstrap/crypto.h"

#include <sodium.h>

#include <algorithm>

namespace sparsecoll::bootstrap {

static_assert(kMacBytes == crypto_auth_hmacsha256_BYTES && kKeyBytes == crypto_auth_hmacsha256_KEYBYTES);

namespace {

const unsigned char* chars(Bytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

}  // namespace

void wipe(std::span<std::byte> secret) { sodium_memzero(secret.data(), secret.size()); }

Key::Key(std::span<const std::byte, kKeyBytes> bytes) { std::copy(bytes.begin(), bytes.end(), bytes_.begin()); }

Status cryptoReady() {
  static const int state = sodium_init();
  if (state < 0) return fail(sparsecollSystemError, "libsodium cannot be initialised");
  return {};
}

void fillRandom(std::span<std::byte> bytes) { randombytes_buf(bytes.data(), bytes.size()); }

Mac macOf(const Key& key, std::initializer_list<Bytes> parts) {
  Mac mac;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, chars(key.bytes()), kKeyBytes);
  for (const Bytes part : parts) crypto_auth_hmacsha256_update(&state, chars(part), part.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  sodium_memzero(&state, sizeof state);
  return mac;
}

bool sameBytes(Bytes a, Bytes b) { return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace sparsecoll::bootstrap
