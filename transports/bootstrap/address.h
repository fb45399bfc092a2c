// Where a listener is reached, and on which of this machine's addresses one is opened.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"

namespace sparsecoll::bootstrap {

// A sockaddr of either family.
struct SocketName {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* room() {
    length = sizeof storage;
    return reinterpret_cast<sockaddr*>(&storage);
  }
};

struct Address {
  static constexpr size_t kWireBytes = 20;

  uint16_t family = 0;  // 4 or 6; 0: none
  uint16_t port = 0;
  std::array<std::byte, 16> bytes{};  // the first 4 of them for IPv4

  bool isLoopback() const;
  bool isAny() const;  // all addresses of the machine
  bool isLinkLocal() const;  // of IPv6, reached only with a scope
  Address withPort(uint16_t other) const;
  SocketName name() const;
  Text<46> host() const;  // without the port
  Text<80> text() const;
  bool operator==(const Address&) const = default;

  static Address loopback();
  static Address any(uint16_t family);
  // An address of IPv4 that came by a socket of IPv6 is one of IPv4. Errors: Unsupported (another family).
  static Result<Address> of(const SocketName& name);
};

void writeAddress(Writer& to, const Address& address);
// Errors: Corrupted.
Result<Address> readAddress(Reader& from);

// The address that the text is, port 0; nothing: it names something else.
std::optional<Address> literalAddress(const char* text);
// An address of this machine to listen at, port 0. named: an interface ("eth0"), an address ("10.0.0.1"), "auto" for
// the first interface that is up and leads elsewhere, nullptr or "" for loopback. Errors: InvalidArgument (also for
// 0.0.0.0 and ::, where nobody can be reached), SystemError.
Result<Address> addressOf(const char* named);

// Where other hosts may reach this one: the addresses of all interfaces that lead elsewhere, those of IPv4 first; where
// there are none, loopback's. Errors: SystemError.
Result<std::vector<Address>> addressesHere();

// An address of this machine and its interface: "eth0 10.0.0.1".
Text<64> placeOf(const Address& address);
// The interface of this machine that has the address; empty: none.
std::string interfaceWith(const Address& address);

// Equal in processes that reach each other by loopback, different in others.
uint64_t hostId();

}  // namespace sparsecoll::bootstrap
