#include "transports/bootstrap/place.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fcntl.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

namespace sparsecoll::bootstrap {

namespace {

constexpr size_t kMostSecretBytes = 4096;

Status resolveOne(const std::string& host, std::vector<Address>& addresses) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found); error != 0)
    return fail(sparsecollSystemError, "{}: {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketName name;
    name.length = std::min<socklen_t>(one->ai_addrlen, sizeof name.storage);
    std::memcpy(&name.storage, one->ai_addr, name.length);
    auto address = Address::of(name);
    if (address.ok() && std::ranges::find(addresses, *address) == addresses.end()) addresses.push_back(*address);
  }
  return {};
}

Result<std::vector<Address>> resolve(const std::string& hosts) {
  std::vector<Address> addresses;
  Status failed;
  for (size_t begin = 0; begin <= hosts.size();) {
    const size_t end = std::min(hosts.find(',', begin), hosts.size());
    if (Status one = resolveOne(hosts.substr(begin, end - begin), addresses); !one.ok()) failed = std::move(one);
    begin = end + 1;
  }
  if (!addresses.empty()) return addresses;
  return failed.ok() ? fail(sparsecollSystemError, "{} has no address", hosts) : failed;
}

// Best first.
std::vector<Address> ownAddresses(const std::string& host) {
  auto found = resolve(host);
  const std::vector<Address> named = found.ok() ? *found : std::vector<Address>{};
  std::vector<Address> own;
  for (const Address& address : named)
    if (!address.isAny() && !address.isLoopback() && bindTo(address.withPort(0)).ok()) own.push_back(address);
  if (own.size() == 1) return own;
  const bool literal = named.size() == 1 && addressOf(host.c_str()).ok();
  if (literal && named[0].isLoopback()) return named;
  return {Address::any(6), Address::any(4)};
}

}  // namespace

Text<320> Place::text() const {
  if (ports == 1) return Text<320>::format("{} port {}", host, firstPort);
  return Text<320>::format("{} ports {} to {}", host, firstPort, firstPort + ports - 1);
}

Result<std::vector<Address>> addressesOf(const Place& place) {
  SC_TRY(const std::vector<Address> hosts, resolve(place.host));
  std::vector<Address> all;
  for (uint16_t port = 0; port < place.ports; ++port)
    for (const Address& host : hosts) all.push_back(host.withPort(static_cast<uint16_t>(place.firstPort + port)));
  return all;
}

Result<Fd> listenAt(const Place& place, int backlog) {
  const std::vector<Address> own = ownAddresses(place.host);
  int error = 0;
  for (uint16_t port = 0; port < place.ports; ++port)
    for (const Address& address : own) {
      Opening opening = openListener(address.withPort(static_cast<uint16_t>(place.firstPort + port)), backlog);
      if (opening.listener.open()) return std::move(opening.listener);
      error = opening.error;
      if (error == EADDRINUSE) break;  // a port that somebody has is not to be had at another address, either
    }
  return fail(sparsecollSystemError, "rank 0 cannot listen at {}: {}", place.text(), std::strerror(error));
}

JobId jobOf(std::string_view name, uint32_t restart, uint32_t communicator) {
  JobId job{};
  const uint64_t hash = XXH3_64bits(name.data(), name.size());
  std::memcpy(job.data(), &hash, sizeof hash);
  std::memcpy(job.data() + sizeof hash, &restart, sizeof restart);
  std::memcpy(job.data() + sizeof hash + sizeof restart, &communicator, sizeof communicator);
  return job;
}

Result<Key> secretFromFile(const char* path) {
  SC_TRY(cryptoReady());
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.open() || fstat(file.get(), &about) != 0) return invalid("secret file {}: {}", path, std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return invalid("secret file {}: it is no file", path);
  if ((about.st_mode & 037) != 0)
    return invalid("secret file {}: others can read or write it, its mode has to be 0600, 0400 or 0440", path);
  std::vector<std::byte> secret(kMostSecretBytes + 1);
  const Wiping wiped(secret);
  size_t bytes = 0;
  for (ssize_t got = 1; got > 0 && bytes < secret.size(); bytes += static_cast<size_t>(std::max<ssize_t>(got, 0)))
    got = ::read(file.get(), secret.data() + bytes, secret.size() - bytes);
  if (bytes < kLeastSecretBytes || bytes > kMostSecretBytes)
    return invalid("secret file {}: it has to have {} to {} bytes", path, kLeastSecretBytes, kMostSecretBytes);
  return deriveKey(Key(), "sparsecoll secret file", Bytes(secret).first(bytes));
}

Key keyOf(const Key& secret, const JobId& job) { return deriveKey(secret, "sparsecoll job", job); }

Key openKey(const JobId& job) { return deriveKey(Key(), "sparsecoll meeting without a secret", job); }

}  // namespace sparsecoll::bootstrap
