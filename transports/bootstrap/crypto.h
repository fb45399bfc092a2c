// Secrets and what is made with them. Keys are wiped when they go, and comparing takes as long for wrong bytes as for
// right ones. The cryptography is libsodium's; a build without it has the same functions, which cannot be used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/status.h"

namespace sparsecoll::bootstrap {

inline constexpr size_t kKeyBytes = 32;
inline constexpr size_t kMacBytes = 32;
inline constexpr size_t kNonceBytes = 16;

using Mac = std::array<std::byte, kMacBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;
using Bytes = std::span<const std::byte>;

void wipe(std::span<std::byte> secret);

// Wipes memory when it goes. A vector must not have grown meanwhile: it would have left a copy behind.
template <class Memory>
class Wiping {
 public:
  explicit Wiping(Memory& memory) : memory_(memory) {}
  ~Wiping() { wipe(std::as_writable_bytes(std::span(memory_))); }
  Wiping(const Wiping&) = delete;
  Wiping& operator=(const Wiping&) = delete;

 private:
  Memory& memory_;
};

class Key {
 public:
  Key() = default;
  explicit Key(std::span<const std::byte, kKeyBytes> bytes);
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key() { wipe(bytes_); }

  std::span<const std::byte, kKeyBytes> bytes() const { return bytes_; }

 private:
  std::array<std::byte, kKeyBytes> bytes_{};
};

// Whether the rest of this file may be called. Errors: Unsupported, SystemError.
Status cryptoReady();

void fillRandom(std::span<std::byte> bytes);
// HMAC-SHA-256 of the parts, one after the other. Who authenticates different kinds of things begins with a label.
Mac macOf(const Key& key, std::initializer_list<Bytes> parts);
bool sameBytes(Bytes a, Bytes b);  // in constant time

inline Bytes bytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline Nonce makeNonce() {
  Nonce nonce;
  fillRandom(nonce);
  return nonce;
}
// A key for one purpose only, from one that is shared already.
inline Key deriveKey(const Key& key, std::string_view purpose, Bytes context) {
  Mac made = macOf(key, {bytesOf(purpose), context});
  const Key derived(made);
  wipe(made);
  return derived;
}

}  // namespace sparsecoll::bootstrap
