// A place where the ranks of a launched job meet: a host by its name, and the ports that rank 0 may have there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transports/bootstrap/crypto.h"
#include "transports/bootstrap/hello.h"
#include "transports/bootstrap/socket.h"

namespace sparsecoll::bootstrap {

struct Place {
  std::string host;  // a name or an address; or several, with commas between them
  uint16_t firstPort = 0;
  uint16_t ports = 1;

  Text<320> text() const;
};

// Every port at every address that the host has. Asks the resolver, which may take some seconds. Errors: SystemError.
Result<std::vector<Address>> addressesOf(const Place& place);

// For rank 0: listens at the first port that is free. Where: at the host's address, if exactly one of those that its
// name has is this machine's and leads elsewhere, or if an address of loopback was named; else at all of the machine's,
// because the others may know it by another. Errors: SystemError (none is free).
Result<Fd> listenAt(const Place& place, int backlog);

// A job as its ranks' hellos carry it: which one, how often it was started anew, which of its communicators.
JobId jobOf(std::string_view name, uint32_t restart, uint32_t communicator);

// What a file of at least kLeastSecretBytes says that others can neither read nor write.
// Errors: InvalidArgument (no such file, too short or long, others may read it), those of cryptoReady.
inline constexpr size_t kLeastSecretBytes = 16;
Result<Key> secretFromFile(const char* path);
// The job's key by that secret.
Key keyOf(const Key& secret, const JobId& job);
// Without one: a key that everybody can make who knows the job.
Key openKey(const JobId& job);

}  // namespace sparsecoll::bootstrap
