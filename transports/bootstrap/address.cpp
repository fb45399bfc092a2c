#include "transports/bootstrap/address.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "transports/bootstrap/socket.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr uint16_t kIpv4 = 4;
constexpr uint16_t kIpv6 = 6;

size_t sizeOf(uint16_t family) { return family == kIpv4 ? 4 : 16; }

using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

// nullptr: errno says why.
Interfaces allInterfaces() {
  ifaddrs* found = nullptr;
  return {getifaddrs(&found) == 0 ? found : nullptr, freeifaddrs};
}

// Nothing: it has none of the Internet's.
Result<Address> addressOn(const ifaddrs& one) {
  if (one.ifa_addr == nullptr || (one.ifa_addr->sa_family != AF_INET && one.ifa_addr->sa_family != AF_INET6))
    return unsupported("{} has no address of the Internet's", one.ifa_name);
  SocketName name;
  name.length = one.ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&name.storage, one.ifa_addr, name.length);
  return Address::of(name);
}

bool matches(const ifaddrs& one, const char* named) {
  if (one.ifa_addr == nullptr || (one.ifa_flags & IFF_UP) == 0) return false;
  if (std::strcmp(named, "auto") == 0) return (one.ifa_flags & IFF_LOOPBACK) == 0 && (one.ifa_flags & IFF_RUNNING) != 0;
  return std::strcmp(one.ifa_name, named) == 0;
}

Result<Address> addressOfInterface(const char* named) {
  const Interfaces all = allInterfaces();
  if (all == nullptr) return fail(sparsecollSystemError, "getifaddrs: {}", std::strerror(errno));
  Address best;
  const char* bestInterface = nullptr;
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (!matches(*one, named)) continue;
    auto address = addressOn(*one);
    if (!address.ok()) continue;
    if (bestInterface != nullptr && std::strcmp(bestInterface, one->ifa_name) != 0) break;
    if (address->isLinkLocal()) continue;
    if (bestInterface == nullptr || address->family < best.family) best = *address;
    bestInterface = one->ifa_name;
  }
  if (bestInterface == nullptr) return invalid("no interface {} that is up and has an address", named);
  return best.withPort(0);
}

}  // namespace

bool Address::isLoopback() const {
  if (family == kIpv4) return bytes[0] == std::byte{127};
  const std::array<std::byte, 16> one = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, std::byte{1}}};
  return bytes == one;
}

bool Address::isLinkLocal() const {
  return family == kIpv6 && bytes[0] == std::byte{0xfe} && (bytes[1] & std::byte{0xc0}) == std::byte{0x80};
}

bool Address::isAny() const {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

Address Address::withPort(uint16_t other) const {
  Address changed = *this;
  changed.port = other;
  return changed;
}

SocketName Address::name() const {
  SocketName name;
  if (family == kIpv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, bytes.data(), sizeof in.sin_addr);
    std::memcpy(&name.storage, &in, sizeof in);
    name.length = sizeof in;
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, bytes.data(), sizeof in.sin6_addr);
    std::memcpy(&name.storage, &in, sizeof in);
    name.length = sizeof in;
  }
  return name;
}

Text<46> Address::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(family == kIpv4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return Text<46>::format("{}", text);
}

Text<80> Address::text() const { return Text<80>::format("{} port {}", host(), port); }

Address Address::loopback() {
  Address address;
  address.family = kIpv4;
  address.bytes[0] = std::byte{127};
  address.bytes[3] = std::byte{1};
  return address;
}

Address Address::any(uint16_t family) {
  Address address;
  address.family = family;
  return address;
}

Result<Address> Address::of(const SocketName& name) {
  Address address;
  if (name.storage.ss_family == AF_INET && name.length >= sizeof(sockaddr_in)) {
    sockaddr_in in{};
    std::memcpy(&in, &name.storage, sizeof in);
    address.family = kIpv4;
    address.port = ntohs(in.sin_port);
    std::memcpy(address.bytes.data(), &in.sin_addr, sizeof in.sin_addr);
    return address;
  }
  if (name.storage.ss_family == AF_INET6 && name.length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in{};
    std::memcpy(&in, &name.storage, sizeof in);
    address.port = ntohs(in.sin6_port);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&in.sin6_addr);
    address.family = mapped ? kIpv4 : kIpv6;
    std::memcpy(address.bytes.data(), in.sin6_addr.s6_addr + (mapped ? 12 : 0), sizeOf(address.family));
    return address;
  }
  return unsupported("a socket of family {}", name.storage.ss_family);
}

void writeAddress(Writer& to, const Address& address) {
  to.write(address.family);
  to.write(address.port);
  to.append(address.bytes.data(), address.bytes.size());
}

Result<Address> readAddress(Reader& from) {
  Address address;
  SC_TRY(address.family, from.read<uint16_t>());
  SC_TRY(address.port, from.read<uint16_t>());
  SC_TRY(const auto bytes, from.take(address.bytes.size()));
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  if (address.family != kIpv4 && address.family != kIpv6)
    return fail(sparsecollCorrupted, "an address of family {}", address.family);
  if (!std::all_of(bytes.begin() + static_cast<ptrdiff_t>(sizeOf(address.family)), bytes.end(),
                   [](std::byte b) { return b == std::byte{0}; }))
    return fail(sparsecollCorrupted, "an address with more bytes than its family has");
  return address;
}

std::optional<Address> literalAddress(const char* text) {
  for (const auto& [family, systems] : {std::pair(kIpv4, AF_INET), std::pair(kIpv6, AF_INET6)}) {
    Address literal;
    literal.family = family;
    if (inet_pton(systems, text, literal.bytes.data()) == 1) return literal;
  }
  return {};
}

Result<Address> addressOf(const char* named) {
  if (named == nullptr || named[0] == '\0') return Address::loopback();
  const std::optional<Address> literal = literalAddress(named);
  if (!literal) return addressOfInterface(named);
  if (literal->isAny()) return invalid("{} is every address of this machine: name one", named);
  if (const Status bound = bindTo(*literal).takeStatusOrOk(); !bound.ok())
    return invalid("no rank can be reached at {}: {}", named, bound.failure().text);
  return *literal;
}

Result<std::vector<Address>> addressesHere() {
  const Interfaces all = allInterfaces();
  if (all == nullptr) return fail(sparsecollSystemError, "getifaddrs: {}", std::strerror(errno));
  std::vector<Address> found;
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (!matches(*one, "auto")) continue;
    auto address = addressOn(*one);
    if (address.ok() && !address->isLinkLocal()) found.push_back(address->withPort(0));
  }
  std::ranges::stable_sort(found, {}, &Address::family);
  if (found.empty()) found.push_back(Address::loopback());
  return found;
}

std::string interfaceWith(const Address& address) {
  const Interfaces all = allInterfaces();
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next)
    if (auto here = addressOn(*one); here.ok() && here->bytes == address.bytes && here->family == address.family)
      return one->ifa_name;
  return {};
}

Text<64> placeOf(const Address& address) {
  const std::string name = interfaceWith(address);
  return Text<64>::format("{}{}{}", name, name.empty() ? "" : " ", address.host());
}

// The kernel's boot, and the network namespace in it: containers on one machine may have a loopback each.
// Without the heap: a rank that finds no memory is not on another host.
uint64_t hostId() {
  std::array<char, 256> text{};
  size_t length = 0;
  const auto append = [&](ssize_t bytes) { length += bytes > 0 ? static_cast<size_t>(bytes) : 0; };
  if (const Fd file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)); file.open())
    append(read(file.get(), text.data(), text.size() / 2));
  if (length == 0 && gethostname(text.data(), text.size() / 2 - 1) == 0) length = std::strlen(text.data());
  append(readlink("/proc/self/ns/net", text.data() + length, text.size() - length));
  return XXH3_64bits(text.data(), length);
}

}  // namespace sparsecoll::bootstrap
